/**
 * Carries encoded session messages to a server and back, each whole and in order: a gRPC stream, a WebSocket, or a
 * MessagePort whose other end forwards them. The session that uses a link sets onmessage and onclose right after it
 * was given the link, in the same turn of the event loop.
 */
export interface Link {
  /** Sends an encoded SessionRequest. It does not wait; see bufferedAmount. The bytes are the link's from then on. */
  send(message: Uint8Array): void;
  /** Bytes that were given to send and have not left yet. */
  readonly bufferedAmount: number;
  /** Called with each encoded SessionResponse. */
  onmessage: ((message: Uint8Array) => void) | null;
  /** Called once when the link ended, however it did. */
  onclose: ((why: Error) => void) | null;
  /** Ends the link. onclose is called. */
  close(): void;
  /** Calls onmessage no more (true), or again (false), so that the server stops when what lies between is full. Links that cannot leave it out. */
  pause?(on: boolean): void;
  /**
   * Lets the link use the memory of a message again as soon as onmessage has returned: until this is called messages are
   * their receiver's. Links that cannot leave it out.
   */
  reuseMemory?(): void;
  /** Lets the process end though the link is open (false), or not (true). Links that cannot leave it out. */
  keepAlive?(on: boolean): void;
}

/** Which content is asked for beside the session: of a path, or of an open file. */
export interface ContentOf {
  path?: string | undefined;
  rawPath?: Uint8Array | undefined;
  fd?: number | undefined;
  /** The range; all of it unless told. end is the last byte. An open file needs a start. */
  start?: number | undefined;
  end?: number | undefined;
}

/** A request for content, and its context. */
export interface ContentRequest extends ContentOf {
  contextId: string;
  signal?: AbortSignal | undefined;
}

/** Makes links to one server. */
export interface Dialer {
  /**
   * Connects. Rejects when the server is not reached or refuses. token is "" when there is none.
   */
  dial(token: string): Promise<Link>;
  /** The link cannot carry a token beside the messages: it stands in the open message. */
  readonly tokenInOpen: boolean;
  /**
   * Reads a whole large file on a connection of its own, which is quicker than by a session; undefined when that cannot
   * be, or fails. Dialers that cannot leave it out.
   */
  content?(token: string, request: ContentRequest): Promise<Uint8Array | undefined>;
  /** Frees what outlives single links. */
  close(): void;
}
