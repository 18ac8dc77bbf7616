import type { CtxfsError, GitRefusal } from "../errors/ctxfs.js";
import type { SystemError } from "../errors/system.js";

/** A call of a sandbox failed. */
export class SandboxError extends Error {
  /** NOT_FOUND, GIT_ERROR, or the errno of the file system: "EISDIR", "ENOSPC". */
  readonly code: string;
  /** The path that was given. */
  readonly path: string | undefined;
  /** What to do about it, if that is known. The message has it too. */
  readonly hint: string | undefined;

  constructor(message: string, code: string, path?: string, cause?: unknown, hint?: string) {
    super(hint === undefined ? message : `${message}: ${hint}`, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.path = path;
    this.hint = hint;
  }
}

/** No file is at a path, or no such zone exists. */
export class NotFoundError extends SandboxError {
  constructor(message: string, path: string, cause?: unknown, hint?: string) {
    super(message, "NOT_FOUND", path, cause, hint);
  }
}

/** What git calls do. */
export type GitCall = "pull" | "stage" | "push" | "discard" | "list";

/** A call of git was refused. Nothing was done, unless details say mayHaveHappened. */
export class GitError extends SandboxError {
  /** The call. */
  readonly operation: GitCall;
  /** GIT_CONFLICT, GIT_NON_FAST_FORWARD, GIT_STALE_BASE, GIT_NOTHING_TO_COMMIT, GIT_NO_REPOSITORY, GIT_NO_REF, GIT_NO_STAGED and so on. */
  readonly reason: string;
  /** The repository, ref, commits and paths that the refusal is about. */
  readonly details: Readonly<Partial<GitRefusal>>;

  constructor(message: string, operation: GitCall, reason: string, details: Readonly<Partial<GitRefusal>> = {}, cause?: unknown) {
    super(message, "GIT_ERROR", details.paths?.[0], cause);
    this.operation = operation;
    this.reason = reason;
    this.details = details;
  }
}

const missing = new Set(["ENOENT", "ENOTDIR"]);

/** Says whether an error of the file system means that nothing is at the path. */
export function isMissing(error: unknown): boolean {
  return missing.has((error as SystemError).code);
}

/** Makes the sandbox's error of one of the file system. */
export function sandboxError(error: unknown, path?: string): unknown {
  const { code, message } = error as SystemError;
  if (typeof code !== "string" || error instanceof SandboxError || (error as Error).name === "AbortError") return error;
  return path !== undefined && isMissing(error) ? new NotFoundError(`${path} does not exist`, path, error) : new SandboxError(message, code, path, error);
}

/** Makes the sandbox's error of what a call of git failed with. */
export function gitError(error: unknown, operation: GitCall): unknown {
  const { code, message, git } = error as CtxfsError;
  if (typeof code === "string" && code.startsWith("GIT_") && !(error instanceof SandboxError)) return new GitError(message, operation, code, git, error);
  return sandboxError(error);
}
