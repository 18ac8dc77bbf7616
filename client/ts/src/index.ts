export { connect, createFs, fsOver, type ContextInfo, type CreateOptions, type CtxFs } from "./create.js";
export { ConnectionError } from "./errors/connection.js";
export { CtxfsError, type GitRefusal } from "./errors/ctxfs.js";
export type { SystemError } from "./errors/system.js";
export { RunningProcess, type AttachOptions, type ExecLimits, type ExecOptions, type ExitReason, type ProcessExit, type ProcessInfo, type TerminalOptions } from "./exec/process.js";
export { constants } from "./fs/constants.js";
export { Dirent } from "#platform";
export type { CallbackFs } from "./fs/callbacks.js";
export type { FsPromises, Glob, GlobOptions, OpenFile } from "./fs/promises.js";
export type { ArchiveSource, ArchiveSummary, ExportOptions, ImportOptions } from "./fs/archives.js";
export type { ChangeConditions, ChangeOptions, EditFile, EditOptions, Edited, LineRange, Lines, ReadLines, TextEdit } from "./fs/edit.js";
export type { Batch, BatchConditions, Batched, BatchEdit, BatchOptions, BatchStep } from "./fs/batch.js";
export type { Changed, ChangedStep, FeedNotice, FeedOptions, WatchChanges } from "./fs/feed.js";
export type { Grep, GrepLine, GrepMatch, GrepOptions, GrepSummary } from "./fs/grep.js";
export { FileHandle } from "./fs/handle.js";
export { BigIntStats, StatFs, Stats } from "./fs/stats.js";
export type { OpenSite, Site, SiteOptions } from "./pages/site.js";
export {
  Review, Reviewer, type ApplyOptions, type Check, type CheckEvent, type CommitOptions, type Decided, type DecideOptions, type DiffOptions, type Discarded, type JournalOptions, type ListOptions,
  type RebaseOptions, type RevisionOptions,
} from "./review/review.js";
export type * from "./review/types.js";
export { Git, type GitDiffOptions, type GitPullOptions, type GitPushOptions, type GitStageOptions, type GitStatusOptions } from "./git/git.js";
export type * from "./git/types.js";
export type { ZoneInfo, ZoneKind, ZoneLayoutOptions, ZoneOptions } from "./zones/zones.js";
export { Client, type ClientOptions } from "./session/client.js";
export type { Dialer, Link } from "./session/link.js";
export type { CallOptions, Caller, OpName, PartsOp, RequestInit, RequestOf, ResponseOf } from "./session/operations.js";
export type { TokenSource } from "./session/token.js";
