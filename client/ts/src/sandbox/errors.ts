import type { SystemError } from "../errors/system.js";

/** A call of a sandbox failed. */
export class SandboxError extends Error {
  /** NOT_FOUND, or the errno of the file system: "EISDIR", "ENOSPC". */
  readonly code: string;
  /** The path that was given. */
  readonly path: string | undefined;

  constructor(message: string, code: string, path?: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.path = path;
  }
}

/** Nothing stands at a path, or no such zone exists. */
export class NotFoundError extends SandboxError {
  constructor(message: string, path: string, cause?: unknown) {
    super(message, "NOT_FOUND", path, cause);
  }
}

const missing = new Set(["ENOENT", "ENOTDIR"]);

/** Makes the sandbox's error of one of the file system. */
export function sandboxError(error: unknown, path: string): unknown {
  const { code, message } = error as SystemError;
  if (typeof code !== "string" || (error as Error).name === "AbortError") return error;
  return missing.has(code) ? new NotFoundError(`${path} does not exist`, path, error) : new SandboxError(message, code, path, error);
}
