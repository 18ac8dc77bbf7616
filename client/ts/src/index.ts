export { connect, createFs, fsOver, type ContextInfo, type CreateOptions, type CtxFs } from "./create.js";
export { ConnectionError } from "./errors/connection.js";
export { CtxfsError } from "./errors/ctxfs.js";
export type { SystemError } from "./errors/system.js";
export { RunningProcess, type ExecLimits, type ExecOptions, type ExitReason, type ProcessExit, type ProcessInfo, type TerminalOptions } from "./exec/process.js";
export { constants } from "./fs/constants.js";
export { Dirent } from "#platform";
export type { CallbackFs } from "./fs/callbacks.js";
export type { FsPromises, Glob, GlobOptions, OpenFile } from "./fs/promises.js";
export type { Grep, GrepLine, GrepMatch, GrepOptions, GrepSummary } from "./fs/grep.js";
export { FileHandle } from "./fs/handle.js";
export { BigIntStats, StatFs, Stats } from "./fs/stats.js";
export {
  Review, Reviewer, type ApplyOptions, type CommitOptions, type Decided, type DecideOptions, type DiffOptions, type JournalOptions, type ListOptions,
  type RebaseOptions, type RevisionOptions,
} from "./review/review.js";
export type * from "./review/types.js";
export { Client, type ClientOptions } from "./session/client.js";
export type { Dialer, Link } from "./session/link.js";
export type { CallOptions, Caller, OpName, PartsOp, RequestInit, RequestOf, ResponseOf } from "./session/operations.js";
export type { TokenSource } from "./session/token.js";
