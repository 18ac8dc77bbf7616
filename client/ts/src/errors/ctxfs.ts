import type { Conflict } from "../review/types.js";

/** What a refusal of git is about. */
export interface GitRefusal {
  /** The call: "stage", "push", "pull", "diff". */
  operation: string;
  /** The repository, as a path of the context, and the full name of a ref; "" if none is concerned. */
  repo: string;
  ref: string;
  /** The commit that was expected, and the one that is there; "" if none is concerned. */
  expected: string;
  actual: string;
  /** The paths, at most 100. */
  paths: string[];
  /** The connection to a remote was lost, and it is not known whether the remote moved its branch. */
  mayHaveHappened: boolean;
}

/** A refusal that is no error of a file system, most often of a review or of git. Nothing was done. */
export class CtxfsError extends Error {
  /** CONFLICT, STALE_REVISION, NOT_APPROVED, BARRED_PATH or CHECK_FAILED of a review, GIT_… of git, EXEC_UNAVAILABLE of a command; later servers have more. */
  readonly code: string;
  /** What to do about it; "" if the server does not know. */
  readonly hint: string;
  /** The files that could not be merged, for CONFLICT. */
  readonly conflicts: readonly Conflict[];
  /** What a refusal of git is about; undefined for others. */
  readonly git: GitRefusal | undefined;

  /** Makes one of what the server says. */
  constructor(code: string, message: string, hint: string, conflicts: readonly Conflict[], git?: GitRefusal) {
    super(message);
    this.name = "CtxfsError";
    this.code = code;
    this.hint = hint;
    this.conflicts = conflicts;
    this.git = git;
  }
}
