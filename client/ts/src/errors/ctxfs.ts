import type { Conflict, RefusedFiles } from "../review/types.js";

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
  /** The paths, as many as fit into an error. */
  paths: string[];
  /** The connection to a remote was lost, and it is not known whether the remote moved its branch. */
  mayHaveHappened: boolean;
}

/** What the server says of a refusal. */
export interface RefusalInit extends RefusedFiles {
  reason: string;
  detail: string;
  hint: string;
  git?: GitRefusal | undefined;
}

/** A refusal that is no error of a file system, most often of a review or of git. Nothing was done. */
export class CtxfsError extends Error {
  /** CONFLICT, STALE_REVISION, NOT_APPROVED, BARRED_PATH or CHECK_FAILED of a review, GIT_… of git, EXEC_UNAVAILABLE of a command; later servers have more. */
  readonly code: string;
  /** The same as code. */
  readonly reason: string;
  /** What is wrong, with the first files. */
  readonly detail: string;
  /** What to do about it; "" if the server does not know. */
  readonly hint: string;
  /** The files that the refusal is about, as many as fit into an error. */
  readonly files: readonly Conflict[];
  /** How many files the refusal is about. */
  readonly fileCount: number;
  /** The files that could not be merged, for CONFLICT and DIRTY_COMMIT. */
  readonly conflicts: readonly Conflict[];
  /** What a refusal of git is about; undefined for others. */
  readonly git: GitRefusal | undefined;

  /** Makes one of what the server says. */
  constructor({ reason, detail, hint, files, fileCount, git }: RefusalInit) {
    super(`${reason}: ${detail}${hint === "" ? "" : `; ${hint}`}`);
    this.name = "CtxfsError";
    this.code = this.reason = reason;
    this.detail = detail;
    this.hint = hint;
    this.files = files;
    this.fileCount = fileCount;
    this.conflicts = files.filter(({ kind }) => kind !== "unknown");
    this.git = git;
  }
}
