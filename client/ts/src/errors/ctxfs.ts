import type { Conflict } from "../review/types.js";

/** A refusal that is no error of a file system, most often of a review. Nothing was done. */
export class CtxfsError extends Error {
  /** CONFLICT, STALE_REVISION, NOT_APPROVED or BARRED_PATH of a review, EXEC_UNAVAILABLE of a command; later servers have more. */
  readonly code: string;
  /** What to do about it; "" if the server does not know. */
  readonly hint: string;
  /** The files that could not be merged, for CONFLICT. */
  readonly conflicts: readonly Conflict[];

  /** Makes one of what the server says. */
  constructor(code: string, message: string, hint: string, conflicts: readonly Conflict[]) {
    super(message);
    this.name = "CtxfsError";
    this.code = code;
    this.hint = hint;
    this.conflicts = conflicts;
  }
}
