/** A call that got no answer because there was no connection, or because it was lost. */
export class ConnectionError extends Error {
  /** "ECONNRESET" when the connection was lost, "ECONNREFUSED" when there was none, "EACCES" when the token was refused. */
  readonly code: "ECONNRESET" | "ECONNREFUSED" | "EACCES";
  /** The server may have done it, in part or whole: look before repeating. False: nothing happened, or the call changes nothing. */
  readonly mayHaveHappened: boolean;

  /** Makes one; why is the reason in words. */
  constructor(code: ConnectionError["code"], why: string, mayHaveHappened: boolean, cause?: unknown) {
    super(`${code}: ${why}; ${mayHaveHappened ? "it may have happened, look before repeating" : "nothing happened"}`, { cause });
    this.name = "Error";
    this.code = code;
    this.mayHaveHappened = mayHaveHappened;
  }
}
