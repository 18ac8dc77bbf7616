// Types of ctxfs's JSON API. Generated from docs/reference/openapi.json by scripts/types.mjs; do not edit.

/** Request of Access. */
export interface AccessRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Union of 4 R_OK, 2 W_OK, 1 X_OK; 0 (F_OK) asks for existence. */
  mode?: number;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Access. */
export type AccessResponse = Record<string, never>;

/**
 * What a context is compared with instead of its base. The changes lead from there to the context. They cannot be decided on: they have
 * no IDs, decisions or drift, and the summary has no revision. The context and the other side are read one after the other.
 *
 * A new ignored directory is shown unless the other side has one at that path with the same number of files and bytes.
 */
export interface Against {
  /**
   * Another context. Errors: ESTALE (no such context), EACCES (it is another panel's).
   * Only one is set of: workspace, revision, snapshot, contextId.
   */
  contextId?: string;
  /**
   * A revision that SubmitReview returned. The server keeps the 10 latest of each context, without the content of ignored directories.
   * Errors: ENOENT (no such revision is kept).
   * Only one is set of: workspace, revision, snapshot, contextId.
   */
  revision?: string;
  /**
   * A snapshot of the context, by name. Errors: ENOENT (the context has no such snapshot).
   * Only one is set of: workspace, revision, snapshot, contextId.
   */
  snapshot?: string;
  /**
   * The workspace, at the paths that the base or the context has; for a panel with PANEL_RIGHT_REVIEW at the paths that the context changed, ignored ones left
   * out. EACCES for other panels.
   * Only one is set of: workspace, revision, snapshot, contextId.
   */
  workspace?: boolean;
}

/** A message of any type, with the URL of its type in @type. */
export interface Any {
  "@type": string;
  [name: string]: unknown;
}

/** Request of AppendFile. */
export interface AppendFileRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /**
   * As bytes; no encoding applies.
   * Only one is set of: data, text.
   */
  data?: string;
  /** Node's name of the encoding in which text becomes bytes; empty means utf8. Unknown is EINVAL. */
  encoding?: string;
  /** Writes to this handle instead of a path. */
  fd?: number;
  /**
   * Node's string: r, r+, rs, rs+, sr, sr+, w, wx, xw, w+, wx+, xw+, a, ax, xa, a+, ax+, xa+, as, sa, as+, sa+.
   * Only one is set of: flag, flagNumber.
   */
  flag?: string;
  /**
   * open(2) flags by their Linux numbers.
   * Only one is set of: flag, flagNumber.
   */
  flagNumber?: number;
  /** Flushes the content to the disk before answering. */
  flush?: boolean;
  /** Only if the file has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** "*": only if nothing has this name; otherwise ABORTED (EEXIST). See FsService on conditions. */
  ifNoneMatch?: string;
  /**
   * As a number: 420 is 0o644.
   * Only one is set of: mode, modeOctal.
   */
  mode?: number;
  /**
   * As an octal string: "0644".
   * Only one is set of: mode, modeOctal.
   */
  modeOctal?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /**
   * As text in the encoding.
   * Only one is set of: data, text.
   */
  text?: string;
}

/** Response of AppendFile. */
export interface AppendFileResponse {
  /** Bytes written. */
  bytesWritten?: string;
  /** The etag that the file has with this content; empty when it was written by handle. */
  etag?: string;
}

/** What Apply did to a path of the workspace, or Rebase to a path of the context. */
export interface AppliedFile {
  /** What it did. */
  kind?: AppliedKind;
  /** Both sides had changed the file, and the changes of both are in it. */
  merged?: boolean;
  /** The file has another owner or group than the one that it replaced, since the server's user may not give files away. git does the same. */
  ownerChanged?: boolean;
  /** The path, absolute in the context and relative to the workspace. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
}

/**
 * What happened to a file.
 * - APPLIED_KIND_UNSPECIFIED: It was as it should be already.
 * - APPLIED_KIND_CREATED: It was made.
 * - APPLIED_KIND_WRITTEN: Its content or mode was replaced.
 * - APPLIED_KIND_REMOVED: It was removed.
 */
export type AppliedKind =
  | "APPLIED_KIND_UNSPECIFIED"
  | "APPLIED_KIND_CREATED"
  | "APPLIED_KIND_WRITTEN"
  | "APPLIED_KIND_REMOVED";

/** Request of ApplyChecked. */
export interface ApplyCheckedRequest {
  /** What to apply. */
  apply?: ApplyRequest;
  /** The checks, 1 to 16. */
  checks?: Check[];
}

/** Response of ApplyChecked. */
export interface ApplyCheckedResponse {
  /**
   * The last message: what was applied.
   * Only one is set of: started, output, ended, applied.
   */
  applied?: ApplyResponse;
  /**
   * The check that was started last has ended.
   * Only one is set of: started, output, ended, applied.
   */
  ended?: CheckEnded;
  /**
   * Output of the check that was started last.
   * Only one is set of: started, output, ended, applied.
   */
  output?: Output;
  /**
   * A check has started.
   * Only one is set of: started, output, ended, applied.
   */
  started?: CheckStarted;
}

/** Request of Apply. */
export interface ApplyRequest {
  /** Approves the selection as well. */
  approve?: boolean;
  /** How to commit; for the targets that commit. */
  commit?: CommitOptions;
  /** The context. */
  contextId?: string;
  /** Does nothing, and says what would be done. */
  dryRun?: boolean;
  /** Fails with STALE_REVISION if the context's revision is another one, or does not cover a file that is named. */
  ifRevision?: string;
  /** Refuses files that the workspace has changed since, instead of merging them. */
  refuseMerge?: boolean;
  /** A second Apply with the same ID returns what the first one returned. At most 128 bytes. */
  requestId?: string;
  /** What to apply; not set means what is approved. What is not approved fails with NOT_APPROVED, unless approve is set. */
  selection?: Selection;
  /** Where the changes go. */
  target?: ApplyTarget;
}

/** Response of Apply. */
export interface ApplyResponse {
  /** The commits, by repository. */
  commits?: Commit[];
  /** What was done, by path: in the working tree or, for APPLY_TARGET_BRANCH, in the commits. */
  files?: AppliedFile[];
  /** The journal entry; 0 for a dry run. */
  journalId?: string;
  /** Changes that `all`, or a directory, left out: the first 100. */
  leftOut?: LeftOut[];
  /** How many were left out. */
  leftOutCount?: number;
}

/**
 * Where Apply puts changes.
 * - APPLY_TARGET_UNSPECIFIED: Into the working tree.
 * - APPLY_TARGET_COMMIT: Into the working tree, and into a commit of what the repository has checked out: its branch, or a detached HEAD. The index
 * follows the commit; what is staged stays staged.
 * - APPLY_TARGET_BRANCH: Into a commit of a branch that is not checked out. Working tree, index and HEAD stay as they are.
 */
export type ApplyTarget =
  | "APPLY_TARGET_UNSPECIFIED"
  | "APPLY_TARGET_COMMIT"
  | "APPLY_TARGET_BRANCH";

/**
 * A format of archives.
 * - ARCHIVE_FORMAT_UNSPECIFIED: As ARCHIVE_FORMAT_TAR.
 * - ARCHIVE_FORMAT_TAR: POSIX tar (pax). Keeps modes, times to the nanosecond, symbolic and hard links, and names of any bytes.
 * - ARCHIVE_FORMAT_ZIP: Zip, with zip64 where it is needed. Keeps modes, times to the second, and symbolic links; a hard link becomes a file.
 */
export type ArchiveFormat =
  | "ARCHIVE_FORMAT_UNSPECIFIED"
  | "ARCHIVE_FORMAT_TAR"
  | "ARCHIVE_FORMAT_ZIP";

/** What an archive carried. */
export interface ArchiveSummary {
  /** Content of the files, in bytes. */
  bytes?: string;
  /** Directories, without path itself. */
  directories?: string;
  /** Files, hard links included. */
  files?: string;
  /** What an export left out. */
  leftOut?: string;
  /** The first 1,000 names that were left out, relative to path. Bytes that are not UTF-8 are escaped. */
  leftOutNames?: string[];
  /** Symbolic links. */
  symlinks?: string;
}

/** A line of the audit log. */
export interface AuditEntry {
  /** How much content was written, in bytes. */
  bytes?: string;
  /** The context. */
  contextId?: string;
  /** Its place in the log, for ReadAuditRequest.before. It stays valid when the log is rotated, until its file is removed. */
  cursor?: string;
  /** The second path, or what a push pushed. */
  dest?: string;
  /** How long the call took, in ms. */
  durationMs?: number;
  /** The handle, if the path is not known. */
  fd?: number;
  /** The snapshot, context, panel or command that the call named. */
  name?: string;
  /** The RPC's name, such as "WriteFile". */
  op?: string;
  /** The panel that called, or that a host acted for. */
  panelId?: string;
  /** The virtual path. */
  path?: string;
  /** Where the call came from. */
  peer?: string;
  /** The call's ID. */
  requestId?: string;
  /** "ok", or the errno. */
  result?: string;
  /** The right of OpenPanel that a panel used: "review", "exec", "git_push". */
  right?: string;
  /** panel, host, console, server for a timed collection, or none for a caller that was refused. */
  role?: string;
  /** The steps of a batch. */
  steps?: string[];
  /** When the call began, ns since the epoch. */
  timeNs?: string;
}

/** The past of an audit log was sent. */
export interface AuditReady {
  /** Where the next page continues (ReadAuditRequest.before); empty when complete. */
  before?: string;
  /** There are no entries before those that were sent. */
  complete?: boolean;
}

/** Request of Batch. */
export interface BatchRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Changes nothing, and answers what would change. Errors are as without it, but for what only the changes themselves show (ENOSPC). */
  dryRun?: boolean;
  /** Flushes the content and the changes to the disk: after a power failure all of them are there, or none while the call has not returned. */
  flush?: boolean;
  /** The steps, 1 to 1,000, in order: each sees what those before it have made. */
  steps?: BatchStep[];
}

/** Response of Batch. */
export interface BatchResponse {
  /** Bytes of content that were written. */
  bytesWritten?: string;
  /** With dry_run: a unified diff, in git's form, of all changes. */
  diff?: string;
  /** The diff is longer: only its first MiB is here. */
  diffTruncated?: boolean;
  /** A result for each step. */
  results?: BatchResult[];
}

/** Result of a step. */
export interface BatchResult {
  /**
   * The etag after the batch of what the step wrote, moved or changed; empty when a later step removed it, for a directory that it made, a
   * removal or a link, and with dry_run.
   */
  etag?: string;
}

/** A step of a batch, as the request of the method of that name. context_id must be empty: EINVAL. */
export interface BatchStep {
  /**
   * Sets permission bits.
   * Only one is set of: writeFile, editFile, mkdir, rm, rename, copyFile, symlink, chmod.
   */
  chmod?: ChmodRequest;
  /**
   * Copies one file, which gets the mode of the source if it is new. Of mode only COPYFILE_EXCL.
   * Only one is set of: writeFile, editFile, mkdir, rm, rename, copyFile, symlink, chmod.
   */
  copyFile?: CopyFileRequest;
  /**
   * Edits a text file. dry_run and flush mean nothing.
   * Only one is set of: writeFile, editFile, mkdir, rm, rename, copyFile, symlink, chmod.
   */
  editFile?: EditFileRequest;
  /**
   * Makes a directory.
   * Only one is set of: writeFile, editFile, mkdir, rm, rename, copyFile, symlink, chmod.
   */
  mkdir?: MkdirRequest;
  /**
   * Moves a file or directory.
   * Only one is set of: writeFile, editFile, mkdir, rm, rename, copyFile, symlink, chmod.
   */
  rename?: RenameRequest;
  /**
   * Removes a file, or a tree.
   * Only one is set of: writeFile, editFile, mkdir, rm, rename, copyFile, symlink, chmod.
   */
  rm?: RmRequest;
  /**
   * Makes a link.
   * Only one is set of: writeFile, editFile, mkdir, rm, rename, copyFile, symlink, chmod.
   */
  symlink?: SymlinkRequest;
  /**
   * Writes a file, always whole. Of flag only "w" and "wx"; no fd, atomic and flush mean nothing.
   * Only one is set of: writeFile, editFile, mkdir, rm, rename, copyFile, symlink, chmod.
   */
  writeFile?: WriteFileRequest;
}

/** Request of BuildTemplate. */
export interface BuildTemplateRequest {
  /** Instead: the template that this panel would get. */
  panelId?: string;
  /** A folder or file of the workspace; empty means its root. */
  template?: string;
}

/** Response of BuildTemplate. */
export interface BuildTemplateResponse {
  /**
   * How far it is.
   * Only one is set of: progress, ready.
   */
  progress?: TemplateProgress;
  /**
   * The end.
   * Only one is set of: progress, ready.
   */
  ready?: TemplateReady;
}

/** A template that is built. */
export interface BuiltTemplate {
  /** When it was built, ns since the epoch. */
  builtNs?: string;
  /** Their size. */
  bytes?: string;
  /** Contexts that were made from it and are there; 0 in answers of BuildTemplate. */
  contexts?: number;
  /** Files and links. */
  files?: string;
  /** What it is, as the first template that came to this hash has it. */
  template?: ResolvedTemplate;
}

/** A difference between two versions of a path; in the ordinary case between the base and the context. */
export interface Change {
  /** Lines added and removed; 0 without hunks. */
  addedLines?: number;
  /** The version after; not set for a deletion. */
  after?: FileVersion;
  /** Hunks that are approved. */
  approvedHunks?: number;
  /** Why it can never be applied: "git-directory", "state-directory", "special-file", "setuid". */
  barred?: string;
  /** The version before; not set for an addition. */
  before?: FileVersion;
  /** Names the change. It covers path, kind, both contents and both modes: any other content has another ID. */
  changeId?: string;
  /** The reviewer's remark on the change. */
  comment?: string;
  /** How its content can be shown. */
  content?: ContentKind;
  /** The decision on the whole change. */
  decision?: Decision;
  /** The workspace has changed it since. Always false for a panel's own changes: it must not learn what the workspace holds. */
  drifted?: boolean;
  /** How many hunks there are. */
  hunks?: number;
  /** The workspace's ignore files exclude it. `all` does not select it. */
  ignored?: boolean;
  /** What it does. */
  kind?: ChangeKind;
  /** All lines changed their ending, and nothing else. */
  lineEndingsOnly?: boolean;
  /** The path, absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
  /** Hunks that are rejected. */
  rejectedHunks?: number;
  /** See added_lines. */
  removedLines?: number;
  /**
   * The file that was deleted in the same review and has exactly this content, if it is the only one. It is a hint for people: both are
   * decided by themselves.
   */
  renamedFrom?: string;
  /** The git repository that it belongs to, absolute in the context; empty outside of repositories. */
  repository?: string;
  /**
   * Why `all` does not select it although it may be applied: "workflow", "hook", "package-script", "seeding", "executable",
   * "link-leaves-repository" (docs/reference/sensitive.md).
   */
  sensitive?: string[];
  /** For CONTENT_KIND_TREE: their size. */
  treeBytes?: string;
  /** For CONTENT_KIND_TREE: the files and links in it. */
  treeEntries?: string;
  /** Rebase recorded a conflict of the path, and it is not resolved: Apply refuses the path. Always false for a panel's own changes. */
  unresolved?: boolean;
  /** Another program wrote the file while it was read. It cannot be decided on. */
  unstable?: boolean;
}

/**
 * What a change does to a path.
 * - CHANGE_KIND_UNSPECIFIED: Not known.
 * - CHANGE_KIND_ADDED: The context has the path, the base does not.
 * - CHANGE_KIND_MODIFIED: Its content differs; its mode may differ too.
 * - CHANGE_KIND_DELETED: The base has the path, the context does not.
 * - CHANGE_KIND_TYPE_CHANGED: A file became a link, or a link a file.
 * - CHANGE_KIND_MODE_CHANGED: Only the executable bits differ.
 */
export type ChangeKind =
  | "CHANGE_KIND_UNSPECIFIED"
  | "CHANGE_KIND_ADDED"
  | "CHANGE_KIND_MODIFIED"
  | "CHANGE_KIND_DELETED"
  | "CHANGE_KIND_TYPE_CHANGED"
  | "CHANGE_KIND_MODE_CHANGED";

/** Counts of changes. */
export interface ChangesSummary {
  /** Lines added by them. */
  addedLines?: string;
  /** How many are approved as a whole or in part. */
  approved?: number;
  /** Changes listed. */
  changes?: number;
  /** How many of the paths the workspace has changed since. */
  drifted?: number;
  /**
   * Decisions that no listed change shows, by path, the first 100: the context does not have the change any more, or has another one of the path. Apply
   * writes what was approved all the same. Decide with DECISION_REJECTED, or DECISION_UNSPECIFIED, and the path withdraws the decision. Only
   * those at and below the paths of the request. Set by ListChanges, GetDiff and GetReview, without against and journal_id.
   */
  gone?: GoneDecision[];
  /** How many such decisions there are. */
  goneCount?: number;
  /**
   * Other contexts that change some of the same paths, those with the most paths first, at most 100. It says what they changed when their changes were
   * listed last: no other context is read. Always empty for a panel's own changes.
   */
  otherContexts?: OtherContext[];
  /** How many are rejected as a whole or in part. */
  rejected?: number;
  /** Lines removed by them. */
  removedLines?: string;
  /**
   * Names what the context holds against the base. Any other change has another revision. Of a new ignored directory it covers the number of files and
   * bytes; with ListChangesRequest.ignored it covers their content. Calls accept either, and need the latter to take a file of such a directory.
   */
  revision?: string;
  /** How many paths have a conflict that Rebase recorded and that is not resolved. Always 0 for a panel's own changes. */
  unresolved?: number;
}

/** A command that must succeed before changes are applied. */
export interface Check {
  /** The program and its arguments, as Command.argv. */
  argv?: string[];
  /** The working directory, from the context's root; empty for the root. */
  cwd?: string;
  /** Applies the changes even if the check fails. */
  optional?: boolean;
  /** Takes argv's place when an argument is not UTF-8: the program and all its arguments. */
  rawArgv?: string[];
  /** Takes cwd's place when it is not UTF-8. */
  rawCwd?: string;
  /** How long the check may run, in ms; 0 means 10 minutes. Up to 3600000. */
  wallMs?: string;
}

/** A check that has ended. */
export interface CheckEnded {
  /** Its place in the request, from 0. */
  check?: number;
  /** Its exit. */
  exit?: Exit;
  /** It exited with 0. */
  passed?: boolean;
}

/** A check that was started. */
export interface CheckStarted {
  /** Its place in the request, from 0. */
  check?: number;
}

/** Request of Chmod. */
export interface ChmodRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Only if the file has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /**
   * As a number: 420 is 0o644.
   * Only one is set of: mode, modeOctal.
   */
  mode?: number;
  /**
   * As an octal string: "0644".
   * Only one is set of: mode, modeOctal.
   */
  modeOctal?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Chmod. */
export interface ChmodResponse {
  /** The etag that the file has now. */
  etag?: string;
}

/** Request of Chown. */
export interface ChownRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** New group; required; -1 leaves it. */
  gid?: string;
  /** Only if the file has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** New owner; required; -1 leaves it. */
  uid?: string;
}

/** Response of Chown. */
export interface ChownResponse {
  /** The etag that the file has now. */
  etag?: string;
}

/** Request of ClearZone. */
export interface ClearZoneRequest {
  /** The context; empty means the panel's own. */
  contextId?: string;
  /** The zone. */
  zone?: string;
}

/** Response of ClearZone. */
export interface ClearZoneResponse {
  /** The files, links and directories that were removed. */
  removed?: string;
}

/** Request of CloseInput. */
export interface CloseInputRequest {
  /** The process. */
  processId?: string;
}

/** Response of CloseInput. */
export type CloseInputResponse = Record<string, never>;

/** Request of ClosePanel. */
export interface ClosePanelRequest {
  /** The panel: panels/editor. */
  panelId?: string;
}

/** Response of ClosePanel. */
export interface ClosePanelResponse {
  /** Handles that were closed. */
  handlesClosed?: number;
  /** Tokens that ended. */
  tokensRevoked?: number;
}

/** Request of Close. */
export interface CloseRequest {
  /**
   * Makes the file of an atomic handle appear; of any other handle EINVAL, and it stays open. When the commit fails the
   * handle is closed and nothing appears; while another operation uses the handle it is EBUSY, and stays open.
   */
  commit?: boolean;
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
  /** Flushes the content to the disk before. */
  flush?: boolean;
}

/** Response of Close. */
export interface CloseResponse {
  /** The etag that the file has that commit made appear. */
  etag?: string;
}

/** Request of CloseSite. */
export interface CloseSiteRequest {
  /** The site. */
  siteId?: string;
}

/** Response of CloseSite. */
export type CloseSiteResponse = Record<string, never>;

/** Request of CollectGarbage. */
export interface CollectGarbageRequest {
  /**
   * Removes contexts that were made longer ago than this, in seconds, and are not used; 0 leaves contexts alone
   * unless context_idle_seconds is set. By itself it spares contexts of panels with a token that has not expired.
   */
  contextAgeSeconds?: string;
  /**
   * Removes contexts that have not been used for longer than this, in seconds, also those of panels with a token; the least
   * is 600. With context_age_seconds a context must meet both.
   */
  contextIdleSeconds?: string;
  /** Removes contexts although they, or their snapshots, have changes that were not applied. force does not. */
  discardChanges?: boolean;
  /** Only says what would be removed. */
  dryRun?: boolean;
  /** Removes contexts although something keeps them; not those used within the last 10 minutes, nor those that are being seeded. */
  force?: boolean;
  /** Only contexts whose labels match, as in ListContextsRequest. What belongs to no context is removed all the same. */
  labelSelectors?: string[];
  /** Also applies the rules that the server applies from time to time (--context-ttl, --context-idle-ttl, --contexts-max-bytes). */
  serverRules?: boolean;
}

/** Response of CollectGarbage. */
export interface CollectGarbageResponse {
  /** What was decided on each context that a rule selects; of a dry run, on each context that label_selectors select. */
  contexts?: ContextVerdict[];
  /** What could not be removed. */
  failures?: GarbageFailure[];
  /** What was removed, or would be. */
  removed?: Garbage[];
}

/** What to run, and how. */
export interface Command {
  /** The program and its arguments. No shell reads them. A name without a slash is looked up in PATH. Up to 128 KiB in all. */
  argv?: string[];
  /**
   * Records what the context holds before and after the command. What the command changed becomes an entry of the journal: Exit.journal_id.
   * ListChanges with that journal_id lists it, and Undo takes it back. The content of ignored directories is not recorded.
   */
  checkpoint?: boolean;
  /** The context. It must exist: EnsureContext and OpenPanel create it. Empty for a panel's own. */
  contextId?: string;
  /** The working directory, from the context's root; empty for the root. */
  cwd?: string;
  /** Variables of the environment. The command has these, PATH, HOME, USER, LANG, TMPDIR, and no others. */
  env?: Record<string, string>;
  /** What a client wants to know about the process later: up to 16, with keys of 1 to 64 bytes and values of up to 256. */
  labels?: Record<string, string>;
  /** The limits of the command. */
  limits?: ExecLimits;
  /** A name for people: up to 64 of A-Z a-z 0-9 . _ -, and not "p-" first. EEXIST while another process of the context has it and runs. */
  name?: string;
  /** Changes the profile's network. */
  network?: Network;
  /** What happens to the process when its last caller disconnects. */
  onDisconnect?: OnDisconnect;
  /** Leaves standard input open for SendInput. It excludes stdin. */
  openStdin?: boolean;
  /**
   * The profile, which gives the command its network, variables, folders and limits; empty for "offline". ListProfiles lists them.
   * Errors: EINVAL (no such profile).
   */
  profile?: string;
  /**
   * Gives the command a terminal of its own: standard input, output and error are one stream, OUTPUT_STREAM_PTY. It excludes stdin, and
   * implies open_stdin.
   */
  pty?: Pty;
  /** Takes argv's place when an argument is not UTF-8: the program and all its arguments. */
  rawArgv?: string[];
  /** Takes cwd's place when it is not UTF-8. */
  rawCwd?: string;
  /** Shows the command /context read-only. It is always true for a read-only panel. */
  readOnly?: boolean;
  /**
   * Makes a start repeatable: a start with the request_id of a process that the server still knows in this context returns that process,
   * and starts nothing. Up to 128 bytes. EEXIST if that process was started with another command.
   */
  requestId?: string;
  /**
   * Empty for a sandbox of its own. Commands of one context that name the same sandbox and profile share processes, /tmp, home and
   * loopback: one command's server answers the next command. The sandbox ends with its last command. What a command leaves behind in its
   * own session ends with the command, the rest with the sandbox. The name has up to 64 of the characters a-z, 0-9, '-', '_' and '.'.
   * The limits memory_bytes, tmp_bytes, processes and cpu_percent are the sandbox's, as its first command has set them. Another command may
   * leave them out.
   * Errors: EMFILE (4 sandboxes of the context have names), EINVAL (the sandbox runs with another network or another such limit).
   */
  sandbox?: string;
  /** What standard input reads; up to 1 MiB. Without it and open_stdin, standard input is empty. */
  stdin?: string;
}

/** A commit that Apply made. */
export interface Commit {
  /** "Name <email>". */
  author?: string;
  /** Its ID in hex; empty in a dry run. */
  commitId?: string;
  /** "Name <email>". */
  committer?: string;
  /** The hooks that ran, in their order. */
  hooks?: string[];
  /** The commit that the ref named before, which is the parent; empty for the first commit. */
  parent?: string;
  /** What it moved: "refs/heads/NAME", or "HEAD" if that was detached. */
  ref?: string;
  /** The repository, absolute in the context; "/" is the workspace's own. */
  repository?: string;
}

/**
 * Whether a commit runs the hooks of its repository.
 * - COMMIT_HOOKS_UNSPECIFIED: No hook runs.
 * - COMMIT_HOOKS_RUN: For hosts: pre-commit, prepare-commit-msg, commit-msg and post-commit run as for git commit. They are programs: they run on the server as its
 * user, in its environment and with that user's git configuration, while the changed files are in the working tree. GIT_INDEX_FILE names a
 * copy of the index to be committed. If a hook fails or changes that index, nothing is applied. The commit takes the message from
 * commit-msg. The result of post-commit does not matter. Needs git 2.36 on the server. A dry run runs no hook.
 */
export type CommitHooks =
  | "COMMIT_HOOKS_UNSPECIFIED"
  | "COMMIT_HOOKS_RUN";

/** How Apply commits. */
export interface CommitOptions {
  /** See author_name. */
  authorEmail?: string;
  /**
   * The author; both or none. None means user.name and user.email: the repository's or, if the server's user owns the
   * repository, that user's own. Files that git's configuration includes do not count. The committer is these; without them, the author.
   */
  authorName?: string;
  /** For APPLY_TARGET_BRANCH: the branch, without refs/heads/. One that does not exist begins at HEAD. */
  branch?: string;
  /** Whether the repository's hooks run. For APPLY_TARGET_COMMIT, and for Undo of such an Apply. */
  hooks?: CommitHooks;
  /** The message: UTF-8, at most 64 KiB, not empty. */
  message?: string;
  /**
   * Lines "Key: value" that are appended to the message, at most 100: "Reviewed-by", "Co-authored-by". The server adds
   * "Ctxfs-Context", the context's ID, and "Ctxfs-Review", the number of the journal entry.
   */
  trailers?: string[];
}

/**
 * Why a file could not be merged.
 * - CONFLICT_KIND_UNSPECIFIED: Not known.
 * - CONFLICT_KIND_CONTENT: Both changed the same lines.
 * - CONFLICT_KIND_MODIFY_DELETE: The context changed the file, the workspace deleted it.
 * - CONFLICT_KIND_DELETE_MODIFY: The context deleted the file, the workspace changed it.
 * - CONFLICT_KIND_ADD_ADD: Both added the path with different content.
 * - CONFLICT_KIND_BINARY: Both changed a binary file, or one too large to merge.
 * - CONFLICT_KIND_TYPE: Both changed the target of a link, or the type.
 * - CONFLICT_KIND_DIRECTORY_IN_THE_WAY: A directory stands at the path, or a file where a directory is needed.
 * - CONFLICT_KIND_CHANGED_MEANWHILE: A program changed the file while it was being replaced, or has it open for writing.
 */
export type ConflictKind =
  | "CONFLICT_KIND_UNSPECIFIED"
  | "CONFLICT_KIND_CONTENT"
  | "CONFLICT_KIND_MODIFY_DELETE"
  | "CONFLICT_KIND_DELETE_MODIFY"
  | "CONFLICT_KIND_ADD_ADD"
  | "CONFLICT_KIND_BINARY"
  | "CONFLICT_KIND_TYPE"
  | "CONFLICT_KIND_DIRECTORY_IN_THE_WAY"
  | "CONFLICT_KIND_CHANGED_MEANWHILE";

/**
 * How the content of a change can be shown.
 * - CONTENT_KIND_UNSPECIFIED: There is none to show: only the mode differs, or the path is barred.
 * - CONTENT_KIND_TEXT: Lines. The change has hunks, unless it deletes or adds an empty file.
 * - CONTENT_KIND_BINARY: One of the versions has a NUL in its first 8,000 bytes, which is git's rule.
 * - CONTENT_KIND_SYMLINK: The target of a link.
 * - CONTENT_KIND_TOO_LARGE: One of the versions is larger than 4 MiB, or has more than 262,144 lines, or they differ in more than 16,384 places. It is decided as a whole.
 * - CONTENT_KIND_TREE: A new directory that the workspace's ignore files exclude, with all that it holds.
 */
export type ContentKind =
  | "CONTENT_KIND_UNSPECIFIED"
  | "CONTENT_KIND_TEXT"
  | "CONTENT_KIND_BINARY"
  | "CONTENT_KIND_SYMLINK"
  | "CONTENT_KIND_TOO_LARGE"
  | "CONTENT_KIND_TREE";

/** A context. */
export interface Context {
  /** Bytes seeded. */
  bytes?: string;
  /** Its ID. */
  contextId?: string;
  /** When, ns since the epoch; 0 when not known. */
  createdNs?: string;
  /** What made the folder: copy or overlay. */
  driver?: string;
  /** Files seeded. */
  files?: string;
  /** The folder on the server. */
  folder?: string;
  /** The context that it is a copy of; empty for others. */
  forkedFrom?: string;
  /** Rises when the folder is replaced. */
  generation?: string;
  /** Labels that its host gave it. */
  labels?: Record<string, string>;
  /** Why it failed. */
  lastError?: string;
  /** Digest of the layer it was made from. */
  layer?: string;
  /** The space on disk that it takes alone. Extents that the file system shares count in full. */
  ownBytes?: string;
  /** Panels bound to it. */
  panels?: string[];
  /** How far it is while it is being seeded. */
  progress?: SeedProgress;
  /** The record was rebuilt from the folder. */
  recovered?: boolean;
  /** How long seeding took. */
  seedMs?: string;
  /** The size of what it shares with other contexts: the layer, and what a fork or a snapshot has frozen of it. */
  sharedBytes?: string;
  /**
   * Why the sizes could not be measured; empty if they were measured, or not requested. The other contexts of a list are
   * measured all the same.
   */
  sizesError?: string;
  /** What its snapshots take on disk. */
  snapshotBytes?: string;
  /** Where it is in its life. */
  state?: ContextState;
  /** When it was last used, to a few minutes, ns since the epoch; 0 when not known. */
  usedNs?: string;
}

/**
 * A rule by which a collection selects contexts.
 * - CONTEXT_RULE_UNSPECIFIED: None.
 * - CONTEXT_RULE_REQUEST: The request's context_age_seconds and context_idle_seconds.
 * - CONTEXT_RULE_IDLE_TTL: The server's --context-idle-ttl.
 * - CONTEXT_RULE_TTL: The server's --context-ttl.
 * - CONTEXT_RULE_MAX_BYTES: The server's --contexts-max-bytes.
 */
export type ContextRule =
  | "CONTEXT_RULE_UNSPECIFIED"
  | "CONTEXT_RULE_REQUEST"
  | "CONTEXT_RULE_IDLE_TTL"
  | "CONTEXT_RULE_TTL"
  | "CONTEXT_RULE_MAX_BYTES";

/**
 * Where a context is in its life.
 * - CONTEXT_STATE_UNSPECIFIED: Not known.
 * - CONTEXT_STATE_MISSING: There is none.
 * - CONTEXT_STATE_SEEDING: It is being seeded.
 * - CONTEXT_STATE_READY: It can be used.
 * - CONTEXT_STATE_FAILED: The last seeding failed; the next access tries anew.
 */
export type ContextState =
  | "CONTEXT_STATE_UNSPECIFIED"
  | "CONTEXT_STATE_MISSING"
  | "CONTEXT_STATE_SEEDING"
  | "CONTEXT_STATE_READY"
  | "CONTEXT_STATE_FAILED";

/** What a collection decided on a context. */
export interface ContextVerdict {
  /** What it took on disk, if it was removed or would be. */
  bytes?: string;
  /** The context. */
  contextId?: string;
  /** Why it was not removed. Empty if it was, and if an error prevented that, which is in failures. */
  kept?: KeptContext[];
  /** It was removed, or would be. */
  removed?: boolean;
  /** The rule that selected it; CONTEXT_RULE_UNSPECIFIED if none did. */
  rule?: ContextRule;
}

/** Request of CopyFile. */
export interface CopyFileRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Where to. */
  dest?: string;
  /** Only if dest has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  destIfMatch?: string;
  /** "*": only if nothing has the name dest; otherwise ABORTED (EEXIST). See FsService on conditions. */
  destIfNoneMatch?: string;
  /** Only if path has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** Union of 1 COPYFILE_EXCL, 2 COPYFILE_FICLONE, 4 COPYFILE_FICLONE_FORCE. */
  mode?: number;
  /** The file to copy. */
  path?: string;
  /** Takes dest's place when it is not UTF-8; both set is EINVAL. */
  rawDest?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of CopyFile. */
export interface CopyFileResponse {
  /** Size of the copy. */
  bytesCopied?: string;
  /** The etag that dest has now. */
  etag?: string;
}

/** Request of Cp. */
export interface CpRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Copies what links point to instead of links. */
  dereference?: boolean;
  /** Where to. */
  dest?: string;
  /** With force false, an existing destination is EEXIST. */
  errorOnExist?: boolean;
  /** Overwrites existing files; absent means true. */
  force?: boolean;
  /** CopyFile's mode for each file. */
  mode?: number;
  /** What to copy. */
  path?: string;
  /** Keeps access and modification times. */
  preserveTimestamps?: boolean;
  /** Takes dest's place when it is not UTF-8; both set is EINVAL. */
  rawDest?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** Copies directories. */
  recursive?: boolean;
  /** Keeps link targets byte for byte; otherwise a relative target is made absolute, as Node does. */
  verbatimSymlinks?: boolean;
}

/** Response of Cp. */
export interface CpResponse {
  /** Bytes of content copied. */
  bytesCopied?: string;
  /** Files and links made. */
  filesCopied?: string;
  /** FIFOs, sockets and devices that were left out. */
  specialSkipped?: string;
  /** Files that kept changing while they were copied. */
  unstable?: string[];
}

/** Request of Decide. */
export interface DecideRequest {
  /** A remark that the panel can read, at most 64 KiB. */
  comment?: string;
  /** The context. */
  contextId?: string;
  /** The decision; DECISION_UNSPECIFIED takes earlier ones back. */
  decision?: Decision;
  /** Fails with STALE_REVISION if the context's revision is another one, or does not cover a file that is named. */
  ifRevision?: string;
  /** What to decide on. */
  selection?: Selection;
}

/** Response of Decide. */
export interface DecideResponse {
  /** The changes that were decided on. */
  changes?: number;
  /** The hunks that were decided on. */
  hunks?: number;
  /** Changes that `all`, or a directory, left out: the first 100. */
  leftOut?: LeftOut[];
  /** How many were left out. */
  leftOutCount?: number;
}

/**
 * What a reviewer decided.
 * - DECISION_UNSPECIFIED: Nothing yet.
 * - DECISION_APPROVED: Apply takes it.
 * - DECISION_REJECTED: Apply leaves it.
 */
export type Decision =
  | "DECISION_UNSPECIFIED"
  | "DECISION_APPROVED"
  | "DECISION_REJECTED";

/** Request of DeleteContext. */
export interface DeleteContextRequest {
  /** The context. */
  contextId?: string;
  /** Removes the context although it, or a snapshot of it, has changes that were not applied, which are lost. The server does not look for changes then. */
  discardChanges?: boolean;
}

/** Response of DeleteContext. */
export interface DeleteContextResponse {
  /** Files and directories removed. */
  removed?: string;
}

/** Request of DeleteSnapshot. */
export interface DeleteSnapshotRequest {
  /** The context. */
  contextId?: string;
  /** Name of the snapshot. */
  name?: string;
}

/** Response of DeleteSnapshot. */
export type DeleteSnapshotResponse = Record<string, never>;

/**
 * How a difference is written.
 * - DIFF_FORM_UNSPECIFIED: As messages: a change, then its hunks.
 * - DIFF_FORM_UNIFIED: As text that git apply accepts, binary files included. Each change comes before its text.
 */
export type DiffForm =
  | "DIFF_FORM_UNSPECIFIED"
  | "DIFF_FORM_UNIFIED";

/** A line of a hunk. */
export interface DiffLine {
  /** The text was cut. ReadVersion returns all of it. */
  cut?: boolean;
  /** Takes text's place when it is not UTF-8. */
  data?: string;
  /** What happens to it. */
  kind?: LineKind;
  /** It is the last line and has no newline. */
  noNewline?: boolean;
  /** Its text without the newline, cut at 4 KiB; control characters are as they are in the file. */
  text?: string;
}

/** A name in a directory. */
export interface DirEntry {
  /** The name. */
  name?: string;
  /** The directory it stands in, absolute in the context. */
  parentPath?: string;
  /** Takes name's place when it is not UTF-8; both set is EINVAL. */
  rawName?: string;
  /** Takes parent_path's place when it is not UTF-8; both set is EINVAL. */
  rawParentPath?: string;
  /** Its own attributes (lstat), when asked for. */
  stat?: Stat;
  /** What it is, when asked for. */
  type?: FileType;
}

/** Several entries. */
export interface DirEntryBatch {
  /** The entries. */
  entries?: DirEntry[];
}

/** A directory and what it holds. */
export interface DirectorySize {
  /** Their size. */
  bytes?: string;
  /** Files in it, recursively. */
  files?: string;
  /** Relative to the workspace. */
  path?: string;
}

/** Request of Discard. */
export interface DiscardRequest {
  /** The context. */
  contextId?: string;
  /** Fails with STALE_REVISION if the context's revision is another one, or does not cover a file that is named. */
  ifRevision?: string;
  /** What to discard. */
  selection?: Selection;
}

/** Response of Discard. */
export interface DiscardResponse {
  /** The journal entry. */
  journalId?: string;
  /** Changes that `all`, or a directory, left out: the first 100. */
  leftOut?: LeftOut[];
  /** How many were left out. */
  leftOutCount?: number;
  /** The paths, absolute in the context. */
  paths?: string[];
}

/** Request of DiscardStaged. */
export interface DiscardStagedRequest {
  /** Discards it also if it is not known whether a push of it has happened. For hosts. */
  force?: boolean;
  /** The staged commit. */
  id?: string;
}

/** Response of DiscardStaged. */
export interface DiscardStagedResponse {
  /** The push of which it is not known whether it has happened, if force discarded one: its target may have the commit. */
  unsettled?: PushResult;
}

/** Request of EditFile. */
export interface EditFileRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Changes nothing, and answers what would change. */
  dryRun?: boolean;
  /** The edits, 1 to 1,000, in order: each sees what those before it have made. */
  edits?: TextEdit[];
  /** Flushes the content to the disk before answering. */
  flush?: boolean;
  /** Only if the file has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of EditFile. */
export interface EditFileResponse {
  /** The unified diff, with 3 lines of context; empty when nothing changed. */
  diff?: string;
  /** The diff is longer: only its first lines, up to 256 KiB, are here. */
  diffTruncated?: boolean;
  /** The etag that the file has now. */
  etag?: string;
  /** Lines that the diff adds. */
  linesAdded?: number;
  /** Lines that the diff removes. */
  linesRemoved?: number;
  /** How many replacements each edit made. */
  replacements?: number[];
}

/** Request of EndConsole. */
export type EndConsoleRequest = Record<string, never>;

/** Response of EndConsole. */
export interface EndConsoleResponse {
  /** How many consoles it ended. */
  ended?: number;
}

/** What a limit of a command is, and what enforces it. */
export interface EnforcedLimit {
  /** "cgroup v2", "cgroup v1", "rlimit" (cpu_ms: for each process), "tmpfs", "proxy" or "server". Empty if nothing enforces the limit on this machine. */
  enforcedBy?: string;
  /** The name of the field of ExecLimits, or "network_bytes" for what the proxy passes in both directions. */
  name?: string;
  /** The limit, in the unit of that field. */
  value?: string;
}

/** Request of EnsureContext. */
export interface EnsureContextRequest {
  /** ctx_NAME, unsafe_noctx_NAME, or safe_tpl_HASH12_NAME of a template that was built or explained; empty when panel_id is set. */
  contextId?: string;
  /** Labels that the context gets beside those that it has, as of SetLabels, once it is ready. */
  labels?: Record<string, string>;
  /** Ensures the context that this panel gets when it is opened: the one that it is bound to, its template's, or its own copy of the workspace. */
  panelId?: string;
  /** The scope, as in OpenPanelRequest. */
  seedFrom?: string[];
}

/** Response of EnsureContext. */
export interface EnsureContextResponse {
  /**
   * How far it is.
   * Only one is set of: progress, ready.
   */
  progress?: SeedProgress;
  /**
   * The end.
   * Only one is set of: progress, ready.
   */
  ready?: EnsureReady;
}

/** The context is ready. */
export interface EnsureReady {
  /** The context. */
  context?: Context;
  /** How long the call took. */
  durationMs?: string;
  /** This call waited for a seeding. */
  seeded?: boolean;
  /** How the zones of the context are kept. */
  zoneMode?: ZoneMode;
}

/** Limits of a command. 0 means the default. */
export interface ExecLimits {
  /**
   * How much CPU time the command may use in all its processes, in ms. The server then kills it. The default is no limit. In a shared sandbox
   * it bounds each process for itself, which the kernel then kills: the reason is EXIT_REASON_EXITED.
   */
  cpuMs?: string;
  /** How much CPU time the command may use, in percent of one core: up to 100 for each core. The default is no limit. Needs a CPU cgroup. */
  cpuPercent?: number;
  /** How large a file the command may write, in bytes. The default is 16 GiB. */
  fileBytes?: string;
  /**
   * How much memory the command may use, with its /tmp, in bytes. The server kills it when it needs more. The default is 4 GiB. The limit
   * applies only where the server has a memory cgroup: see Process.limits. A panel may set no more than the default, or than its profile sets,
   * unless the operator's maxima permit it.
   */
  memoryBytes?: string;
  /** How many files each process may have open: 4096, up to 65536. */
  openFiles?: number;
  /** How many bytes the command may write to standard output and standard error together. The server then kills it. The default is no limit. */
  outputBytes?: string;
  /** How many processes and threads may exist at once: 512, up to 32768. */
  processes?: number;
  /** The size of /tmp, in bytes. The default is 1 GiB. A panel may set no more, as with memory_bytes. */
  tmpBytes?: string;
  /** How long the command may run, in ms. The server then kills it. Up to 604800000, a week. */
  wallMs?: string;
}

/** What a command finds at a path. */
export interface ExecMount {
  /**
   * What is there: "context", "system" (the same path of the host), "data" (a file that the server makes), "memory", "proc", "dev", "link" or
   * "folder" (a folder of the profile).
   */
  kind?: string;
  /** The path in the sandbox. */
  path?: string;
  /** The size of memory in bytes. */
  sizeBytes?: string;
  /** The command may write there. */
  writable?: boolean;
}

/** A profile. */
export interface ExecProfile {
  /** What it is for. */
  description?: string;
  /** The folders that it shows. */
  folders?: ExecMount[];
  /** The limits that it sets. */
  limits?: EnforcedLimit[];
  /** The name. */
  name?: string;
  /** The network. */
  network?: NetworkRules;
  /** The names of the variables that it sets. */
  variables?: string[];
}

/** Request of Exists. */
export interface ExistsRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Exists. */
export interface ExistsResponse {
  /** It exists. */
  exists?: boolean;
}

/** The end of a process. */
export interface Exit {
  /** Why the changes could not be recorded; empty if they were. */
  checkpointError?: string;
  /**
   * The exit code of the command; 128 and the number of the signal that ended it; 126 if the program cannot be executed; 127 if it was
   * not found. It is meaningful for EXIT_REASON_EXITED only.
   */
  code?: number;
  /** How much CPU time the command used, in ms; 0 if it is not known. Needs a cgroup v2. */
  cpuMs?: string;
  /**
   * What went wrong, for EXIT_REASON_SANDBOX_FAILED. Otherwise why the server could not keep all output, such as a full disk, or why the quota
   * was exceeded if the context does not show that; empty if neither applies.
   */
  detail?: string;
  /** When it ended, in ns since the epoch. */
  endedNs?: string;
  /** The journal entry of what the command changed, for Command.checkpoint; 0 if it changed nothing, or was not recorded. */
  journalId?: string;
  /**
   * Paths that the command may have changed and that are not in the journal entry: a caller changed them through the server while the
   * command ran. Undo leaves them alone. At most 100 paths with 16 KiB.
   */
  leftOut?: string[];
  /** How many paths left_out would have besides, without its bounds. */
  moreLeftOut?: string;
  /** The most memory that the command used at once, in bytes; 0 if it is not known. Needs a memory cgroup. */
  peakMemoryBytes?: string;
  /** Why it ended. */
  reason?: ExitReason;
  /**
   * New directories that the ignore files exclude, and that the command made, changed in size or removed: their content is not in the journal
   * entry, and undo leaves them alone. The first 20.
   */
  unrecorded?: string[];
}

/**
 * Why a process ended.
 * - EXIT_REASON_UNSPECIFIED: Not known.
 * - EXIT_REASON_EXITED: The command exited, or a signal of its own ended it. SIGPIPE is one, also after all callers have left.
 * - EXIT_REASON_TIMEOUT: It exceeded its time limit.
 * - EXIT_REASON_KILLED: Kill ended it, or the end of the Run call.
 * - EXIT_REASON_CONTEXT_CLOSED: The context was restored or deleted.
 * - EXIT_REASON_SERVER_STOPPED: The server stopped; with overlay-userns, also when it was killed.
 * - EXIT_REASON_SANDBOX_FAILED: The sandbox could not be set up, or was ended from outside.
 * - EXIT_REASON_LOST: The runner, which owns the processes, was killed, and the process with it. Of an output stream of more than 16 MiB only the first 4 MiB
 * are kept.
 * - EXIT_REASON_CPU: It used more CPU time than cpu_ms.
 * - EXIT_REASON_MEMORY: The kernel ended it, since it needed more than memory_bytes. In a shared sandbox: since all commands together needed more; with a cgroup v2
 * all of them end.
 * - EXIT_REASON_QUOTA: The context exceeded its quota while the command ran. Other commands of the context end too.
 * - EXIT_REASON_OUTPUT: It wrote more than output_bytes.
 */
export type ExitReason =
  | "EXIT_REASON_UNSPECIFIED"
  | "EXIT_REASON_EXITED"
  | "EXIT_REASON_TIMEOUT"
  | "EXIT_REASON_KILLED"
  | "EXIT_REASON_CONTEXT_CLOSED"
  | "EXIT_REASON_SERVER_STOPPED"
  | "EXIT_REASON_SANDBOX_FAILED"
  | "EXIT_REASON_LOST"
  | "EXIT_REASON_CPU"
  | "EXIT_REASON_MEMORY"
  | "EXIT_REASON_QUOTA"
  | "EXIT_REASON_OUTPUT";

/** Request of ExplainExec. */
export interface ExplainExecRequest {
  /** What to run. */
  command?: Command;
}

/** Response of ExplainExec. */
export interface ExplainExecResponse {
  /** The working directory in the sandbox. */
  directory?: string;
  /** The group. */
  gid?: number;
  /**
   * The version of Landlock that also restricts the command to these mounts, a second protection beside the namespaces. 0: the kernel has
   * none (Linux 5.19 is needed), and the namespaces alone protect.
   */
  landlock?: number;
  /** The limits. */
  limits?: EnforcedLimit[];
  /** What the command finds where; the rest of the file tree is empty and read-only. */
  mounts?: ExecMount[];
  /** The network. */
  network?: NetworkRules;
  /** The profile. */
  profile?: string;
  /** Takes directory's place when it is not UTF-8. */
  rawDirectory?: string;
  /** The user of the machine that the command runs as. */
  uid?: number;
  /** The names of the variables, sorted. */
  variables?: string[];
}

/** Request of ExplainTemplate. */
export interface ExplainTemplateRequest {
  /** Instead: the template that this panel would get. */
  panelId?: string;
  /** A folder or file of the workspace; empty means its root. */
  template?: string;
}

/** Response of ExplainTemplate. */
export interface ExplainTemplateResponse {
  /** It is built. */
  built?: boolean;
  /** The merged result as a template that extends nothing, with commits for refs. */
  merged?: string;
  /** The template. */
  template?: ResolvedTemplate;
}

/** Request of ExplainZones. */
export interface ExplainZonesRequest {
  /** A folder of the workspace with a context-zones.yml. */
  folder?: string;
  /** The layout. Not set: the context-zones.yml in `folder`. */
  layout?: ZoneLayout;
}

/** Response of ExplainZones. */
export interface ExplainZonesResponse {
  /** How the zones are kept. */
  mode?: ZoneMode;
  /** What a person should know: what a direct zone trusts the panel with. */
  notes?: string[];
  /** The zones. */
  zones?: Zone[];
}

/** Request of Export. */
export interface ExportRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Globs of files and directories to leave out, with what is below; one without a slash is matched with the name. */
  exclude?: string[];
  /** Format of the archive. */
  format?: ArchiveFormat;
  /** Sends `.git` too, in any spelling. By default it is left out and named: in a repository git would obey its settings and run its hooks. */
  git?: boolean;
  /** Directory or file to send; empty means the root. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Export. */
export interface ExportResponse {
  /**
   * The next bytes of the archive, at most 256 KiB. A session carries them too.
   * Only one is set of: summary, chunk.
   */
  chunk?: string;
  /**
   * The end: the archive is complete.
   * Only one is set of: summary, chunk.
   */
  summary?: ArchiveSummary;
}

/** Request of Extract. */
export interface ExtractRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** The handle. The archive is all of its file. */
  fd?: number;
  /** Format of the archive. */
  format?: ArchiveFormat;
  /** As in ImportOpen. */
  overwrite?: boolean;
  /** As in ImportOpen. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Extract. */
export interface ExtractResponse {
  /** What was extracted. */
  summary?: ArchiveSummary;
}

/** Request of Fchmod. */
export interface FchmodRequest {
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
  /**
   * As a number: 420 is 0o644.
   * Only one is set of: mode, modeOctal.
   */
  mode?: number;
  /**
   * As an octal string: "0644".
   * Only one is set of: mode, modeOctal.
   */
  modeOctal?: string;
}

/** Response of Fchmod. */
export type FchmodResponse = Record<string, never>;

/** Request of Fchown. */
export interface FchownRequest {
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
  /** New group; required; -1 leaves it. */
  gid?: string;
  /** New owner; required; -1 leaves it. */
  uid?: string;
}

/** Response of Fchown. */
export type FchownResponse = Record<string, never>;

/** Request of Fdatasync. */
export interface FdatasyncRequest {
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
}

/** Response of Fdatasync. */
export type FdatasyncResponse = Record<string, never>;

/** A call that changed something, or may have. */
export interface FeedChange {
  /**
   * Further paths that may have changed: where path, dest and the paths of steps lead through links, and the first directory that a recursive
   * Mkdir made. It is "/", with below, if that cannot be found: a handle's file was renamed or removed since it was opened.
   */
  also?: FeedPath[];
  /** What is below path and dest may have changed too. */
  below?: boolean;
  /** Continues behind this change. */
  cursor?: string;
  /** The second path of Rename, CopyFile, Cp and Link. */
  dest?: string;
  /** The errno, or the reason of a refusal, of a call that failed and may have made a part of its change: "ENOSPC", "ECANCELED". Empty when it succeeded. */
  failed?: string;
  /**
   * The RPC's name, as in the audit log: "WriteFile", "Rename", "Batch", "Restore". "Interrupted" says that the server was killed: calls
   * that it did not answer may have changed something.
   */
  operation?: string;
  /** The panel; empty when a host acted for none. */
  panelId?: string;
  /**
   * What changed, as the call named it, absolute and without "." and double slashes. Of a Batch it is the directory that has all its paths. It
   * is "/" with below set if the call may have changed anything.
   */
  path?: string;
  /** Takes dest's place when it is not UTF-8. */
  rawDest?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
  /** The call's ID, as in the audit log and in x-request-id; empty for what no call did. */
  requestId?: string;
  /** "panel", "host", or "server" for what no call did. */
  role?: string;
  /** The number of the change in its context: each is one more than that of the change before. */
  sequence?: string;
  /** The steps of a Batch, in order. Empty when they have more than 64 KiB of paths; path is "/" then. */
  steps?: FeedStep[];
  /** When the change was recorded, in ns since the epoch. */
  timeNs?: string;
}

/** Nothing was sent for a while. */
export interface FeedKeepalive {
  /** Continues behind changes that the request's path left out. */
  cursor?: string;
}

/** A path. */
export interface FeedPath {
  /** It is absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
}

/** All changes up to now were sent. */
export interface FeedReady {
  /** Continues behind all that was sent, and behind changes that the request's path left out. */
  cursor?: string;
}

/** Changes are missing. */
export interface FeedReset {
  /** Continues behind what is missing. Read everything after this message arrived: later changes follow it. */
  cursor?: string;
  /** Why changes are missing, as a sentence for people. */
  reason?: string;
}

/** A step of a batch. */
export interface FeedStep {
  /** The second path of a rename or a copy. */
  dest?: string;
  /** "writeFile", "rename", as the step is named in BatchStep. */
  operation?: string;
  /** What changed. */
  path?: string;
  /** Takes dest's place when it is not UTF-8. */
  rawDest?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
}

/**
 * What kind of file something is.
 * - FILE_TYPE_UNSPECIFIED: Not known, or not asked for.
 * - FILE_TYPE_FILE: A regular file.
 * - FILE_TYPE_DIRECTORY: A directory.
 * - FILE_TYPE_SYMLINK: A symbolic link.
 * - FILE_TYPE_FIFO: A FIFO.
 * - FILE_TYPE_SOCKET: A socket.
 * - FILE_TYPE_CHARACTER_DEVICE: A character device.
 * - FILE_TYPE_BLOCK_DEVICE: A block device.
 */
export type FileType =
  | "FILE_TYPE_UNSPECIFIED"
  | "FILE_TYPE_FILE"
  | "FILE_TYPE_DIRECTORY"
  | "FILE_TYPE_SYMLINK"
  | "FILE_TYPE_FIFO"
  | "FILE_TYPE_SOCKET"
  | "FILE_TYPE_CHARACTER_DEVICE"
  | "FILE_TYPE_BLOCK_DEVICE";

/** A version of a file. */
export interface FileVersion {
  /** Permission bits. */
  mode?: number;
  /**
   * SHA-256 of the content or of the link's target, in hex; empty for CONTENT_KIND_TREE and for barred paths. A content with a block of 4 KiB of zeros
   * beyond its first 64 MiB has another name of 64 hex digits, which depends on its bytes alone: the time of a sparse file is that of its data.
   */
  sha256?: string;
  /** Bytes of the content, or of the link's target. */
  size?: string;
  /** FILE_TYPE_FILE, FILE_TYPE_SYMLINK, or what a barred path is. */
  type?: FileType;
}

/** Request of FollowOutput. */
export interface FollowOutputRequest {
  /** The process waits for this reader, as for the caller of Run: see ExecService. It implies follow. */
  blocking?: boolean;
  /** Continues until the process ends. */
  follow?: boolean;
  /** The process. */
  processId?: string;
  /** The offset in standard error to begin at. */
  stderrOffset?: string;
  /** The offset in standard output, or in the terminal's output, to begin at. */
  stdoutOffset?: string;
}

/** Response of FollowOutput. */
export interface FollowOutputResponse {
  /**
   * The process, which has ended.
   * Only one is set of: output, exited.
   */
  exited?: Process;
  /**
   * Output.
   * Only one is set of: output, exited.
   */
  output?: Output;
}

/** Request of Fork. */
export interface ForkRequest {
  /** The context that is copied. */
  contextId?: string;
  /** Labels that the new context gets beside those of the one that is copied, as of SetLabels; they replace labels with the same key. */
  labels?: Record<string, string>;
  /** The context that is made; empty when new_panel_id is set. */
  newContextId?: string;
  /** Makes the context that this panel gets when it is opened. */
  newPanelId?: string;
}

/** Response of Fork. */
export interface ForkResponse {
  /** The new context. */
  context?: Context;
}

/** Request of Fstat. */
export interface FstatRequest {
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
}

/** Response of Fstat. */
export interface FstatResponse {
  /** The etag that the attributes belong to. */
  etag?: string;
  /** The attributes. */
  stat?: Stat;
}

/** Request of Fsync. */
export interface FsyncRequest {
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
}

/** Response of Fsync. */
export type FsyncResponse = Record<string, never>;

/** Request of Ftruncate. */
export interface FtruncateRequest {
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
  /** New size in bytes; absent means 0. */
  len?: string;
}

/** Response of Ftruncate. */
export type FtruncateResponse = Record<string, never>;

/** Request of Futimes. */
export interface FutimesRequest {
  /** Access time, ns since the epoch; required. */
  atimeNs?: string;
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
  /** Modification time, ns since the epoch; required. */
  mtimeNs?: string;
}

/** Response of Futimes. */
export type FutimesResponse = Record<string, never>;

/** Something that was removed, or would be. */
export interface Garbage {
  /** What it took on disk. */
  bytes?: string;
  /** How many files of a zone were removed; 0 for other kinds. */
  files?: string;
  /** What it is. */
  kind?: GarbageKind;
  /** Its name: a context's ID, a layer's digest, a snapshot's context, a zone as in "ctx_a/cache". */
  name?: string;
}

/** Something that could not be removed. */
export interface GarbageFailure {
  /** What it is; GARBAGE_KIND_UNSPECIFIED when the collection ended before it could look for everything. */
  kind?: GarbageKind;
  /** What happened, and the remedy. */
  message?: string;
  /** Its name, as of Garbage. */
  name?: string;
  /** The errno's name: "EBUSY". */
  reason?: string;
}

/**
 * A kind of garbage.
 * - GARBAGE_KIND_UNSPECIFIED: Not known.
 * - GARBAGE_KIND_CONTEXT: A context that has not been used for long.
 * - GARBAGE_KIND_LAYER: A layer, of the workspace or of a template, that no context stands on, or what a fork has frozen of contexts that are gone.
 * - GARBAGE_KIND_POOL: A ready copy of a layer.
 * - GARBAGE_KIND_STAGING: What a crash left half made.
 * - GARBAGE_KIND_MOUNT: A mount of a context that is gone.
 * - GARBAGE_KIND_SNAPSHOT: Snapshots of a context that is gone.
 * - GARBAGE_KIND_ZONE: Old files of a zone with keep_ms.
 */
export type GarbageKind =
  | "GARBAGE_KIND_UNSPECIFIED"
  | "GARBAGE_KIND_CONTEXT"
  | "GARBAGE_KIND_LAYER"
  | "GARBAGE_KIND_POOL"
  | "GARBAGE_KIND_STAGING"
  | "GARBAGE_KIND_MOUNT"
  | "GARBAGE_KIND_SNAPSHOT"
  | "GARBAGE_KIND_ZONE";

/** Request of GetContext. */
export interface GetContextRequest {
  /** The context. */
  contextId?: string;
  /** Measures it on disk, which reads all its directories: fills own_bytes, shared_bytes and snapshot_bytes. */
  sizes?: boolean;
}

/** Response of GetContext. */
export interface GetContextResponse {
  /** The context. */
  context?: Context;
}

/** Request of GetDiff. */
export interface GetDiffRequest {
  /** What the context is compared with; not set means its base. */
  against?: Against;
  /** The context. */
  contextId?: string;
  /** How the difference is written. */
  form?: DiffForm;
  /** Shows the content of ignored directories. */
  ignored?: boolean;
  /** Shows what a journal entry changed instead. It excludes against. Errors: ENOENT (the context has no such entry). */
  journalId?: string;
  /** Context lines around a hunk, at most 1,000; 0 means 3, and -1 none. */
  lines?: number;
  /** Only these paths and what is below them; empty means all. */
  paths?: string[];
  /** Further paths, which are not UTF-8. */
  rawPaths?: string[];
}

/** Response of GetDiff. */
export interface GetDiffResponse {
  /**
   * A change; its hunks follow.
   * Only one is set of: change, hunk, text, summary.
   */
  change?: Change;
  /**
   * A hunk of the change before.
   * Only one is set of: change, hunk, text, summary.
   */
  hunk?: Hunk;
  /**
   * The end.
   * Only one is set of: change, hunk, text, summary.
   */
  summary?: ChangesSummary;
  /**
   * A part of the text.
   * Only one is set of: change, hunk, text, summary.
   */
  text?: string;
}

/** Request of GetInfo. */
export interface GetInfoRequest {
  /** For a host: the context; empty means the panel's own. */
  contextId?: string;
}

/** Response of GetInfo. */
export interface GetInfoResponse {
  /** The context. */
  contextId?: string;
  /** Which driver makes new contexts, and why another does not, as "copy (overlay: no CAP_SYS_ADMIN)"; only for a host. */
  driver?: string;
  /** The folder on the server; only for a host. */
  folder?: string;
  /** Where the records of contexts and panels are: "sqlite", or the URL of a database without its password; only for a host. */
  metadata?: string;
  /** The panel; empty for a host that names none. */
  panelId?: string;
  /** Electron session partition: "persist:" and the context ID. */
  partition?: string;
  /** Mutations are refused. */
  readOnly?: boolean;
  /** The rights of the caller's token beyond its own context. */
  rights?: PanelRight[];
  /** Version of the server. */
  serverVersion?: string;
}

/** Request of GetProcess. */
export interface GetProcessRequest {
  /** The process. */
  processId?: string;
}

/** Response of GetProcess. */
export interface GetProcessResponse {
  /** The process. */
  process?: Process;
}

/** Request of GetReview. */
export interface GetReviewRequest {
  /** The context. */
  contextId?: string;
}

/** Response of GetReview. */
export interface GetReviewResponse {
  /** See title. */
  message?: string;
  /** The state. */
  state?: ReviewState;
  /** When, ns since the epoch. */
  submittedNs?: string;
  /** The revision that was submitted. */
  submittedRevision?: string;
  /** The counts. */
  summary?: ChangesSummary;
  /** What SubmitReview said last. */
  title?: string;
  /**
   * Paths with a conflict that Rebase recorded and that is not resolved, absolute in the context, at most 100. Always empty for a panel's own
   * review. See ListConflicts.
   */
  unresolved?: string[];
}

/** Request of GetStaged. */
export interface GetStagedRequest {
  /** The staged commit. */
  id?: string;
}

/** Response of GetStaged. */
export interface GetStagedResponse {
  /** The staged commit. */
  staged?: StagedCommit;
}

/** A branch. */
export interface GitBranch {
  /** A working tree has it checked out. */
  checkedOut?: boolean;
  /** The commit that it names. */
  commit?: string;
  /** Its name without refs/heads/. */
  name?: string;
}

/** Request of GitDiff. */
export interface GitDiffRequest {
  /** The context; empty means the panel's own, or that of the staged commit. */
  contextId?: string;
  /** Lines of context around each hunk; 3 if not set. */
  contextLines?: number;
  /** Only these files, and what is below these directories; empty means all. Absolute in the context. */
  paths?: string[];
  /** Further paths, which are not UTF-8. */
  rawPaths?: string[];
  /** The repository; empty means all. */
  repo?: string;
  /** A staged commit, whose diff against its parent is meant; empty means the context's changes. */
  stagedId?: string;
}

/** Part of the response of GitDiff. */
export interface GitDiffResponse {
  /** The next bytes of the patch, at most 256 KiB. */
  data?: string;
}

/** A file of a commit, or a change of a context. */
export interface GitFile {
  /** Lines added; 0 for what is no text. */
  additions?: number;
  /** Why it cannot be staged, as in ReviewService: "git-directory", "special-file", "setuid". Empty if it can. */
  barred?: string;
  /** It is no text, or larger than 4 MiB or 262,144 lines. */
  binary?: boolean;
  /** Lines removed. */
  deletions?: number;
  /** The diff of this file, as git apply accepts it. Only in GetStaged and Stage, and empty there if diff_truncated. */
  diff?: string;
  /** The diff is longer than the reply may be: GitDiff streams it. */
  diffTruncated?: boolean;
  /** The workspace's ignore files exclude it: Stage takes it only if it is named. */
  ignored?: boolean;
  /** Git's mode after; 0 for a file that is deleted. */
  newMode?: number;
  /** Git's mode before: 0100644, 0100755, 0120000; 0 for a file that is created. */
  oldMode?: number;
  /** What is done to it. */
  operation?: GitOperation;
  /** The path, absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
  /** The file with this content that the same change deletes, if it is the only one. */
  renameFrom?: string;
  /** The repository. */
  repo?: string;
}

/**
 * What a commit, or a context, does to a path.
 * - GIT_OPERATION_UNSPECIFIED: Not known.
 * - GIT_OPERATION_CREATE: The path is new.
 * - GIT_OPERATION_UPDATE: Its content, mode or type differs.
 * - GIT_OPERATION_DELETE: The path is removed.
 */
export type GitOperation =
  | "GIT_OPERATION_UNSPECIFIED"
  | "GIT_OPERATION_CREATE"
  | "GIT_OPERATION_UPDATE"
  | "GIT_OPERATION_DELETE";

/** A repository that a context was seeded with. */
export interface GitRepository {
  /** The commit that was checked out when the context was seeded; empty before the first commit. */
  baseCommit?: string;
  /** Commits of `branch` that base_commit does not have. For hosts only. */
  behind?: number;
  /** The branch that was checked out then; empty if HEAD was detached. */
  branch?: string;
  /** It had files that differed from base_commit. */
  dirtyWhenSeeded?: boolean;
  /** The commit that is checked out now; empty if the repository is gone. For hosts only. */
  head?: string;
  /**
   * Where it is in the context: "/workspace/app", or "/" for the workspace's own. It is its name in other calls. A path that is not UTF-8
   * is escaped as in a Go string literal, and other calls cannot name it: `unusable` is set.
   */
  path?: string;
  /** The names of its remotes that Push and Pull may use. */
  remotes?: string[];
  /** Why GitService cannot use it: "bare", "reftable", "elsewhere"; empty if it can. */
  unusable?: string;
}

/** Request of GitStatus. */
export interface GitStatusRequest {
  /** The context; empty means the panel's own. */
  contextId?: string;
  /** Only these files, and what is below these directories; empty means all. Absolute in the context. */
  paths?: string[];
  /** Further paths, which are not UTF-8. */
  rawPaths?: string[];
  /** The repository; empty means all. */
  repo?: string;
}

/** Part of the response of GitStatus. */
export interface GitStatusResponse {
  /**
   * A change.
   * Only one is set of: file, summary.
   */
  file?: GitFile;
  /**
   * The summary of a repository, after its changes.
   * Only one is set of: file, summary.
   */
  summary?: GitSummary;
}

/** The end of a repository's part of GitStatus. */
export interface GitSummary {
  /** Files that are created. */
  created?: number;
  /** Files that are deleted. */
  deleted?: number;
  /** The repository. */
  repo?: string;
  /** Files that are updated. */
  updated?: number;
}

/** Request of Glob. */
export interface GlobRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Patterns of what is left out, with what is below. */
  exclude?: string[];
  /** Stops after so many; 0 means 100,000. */
  maxMatches?: number;
  /** Directory from which the patterns count (Node's cwd); empty means the root. */
  path?: string;
  /** Patterns; a path that matches one of them is reported once. */
  patterns?: string[];
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** Fills type. */
  withFileTypes?: boolean;
}

/** Response of Glob. */
export interface GlobResponse {
  /**
   * Some matches: name and parent_path, absolute in the context.
   * Only one is set of: matches, summary.
   */
  matches?: DirEntryBatch;
  /**
   * The end.
   * Only one is set of: matches, summary.
   */
  summary?: GlobSummary;
}

/** Ends a Glob. */
export interface GlobSummary {
  /** Matches reported. */
  matches?: string;
  /** max_matches stopped it. */
  truncated?: boolean;
  /** Directories that could not be read. */
  unreadable?: string;
}

/** A decision that no change shows. */
export interface GoneDecision {
  /** Who decided: a panel, or "host". Always empty for a panel's own changes. */
  actor?: string;
  /** The reviewer's remark. */
  comment?: string;
  /** When, ns since the epoch. */
  decidedNs?: string;
  /** The decision. DECISION_APPROVED if a part of the former change is approved. */
  decision?: Decision;
  /** The path, absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
  /**
   * The context has another change of the path, on which nothing is decided, or other hunks: an approval or a rejection does not hold for these. A new
   * decision on the change takes the place of this one.
   */
  replaced?: boolean;
}

/** Matches in a file. */
export interface GrepFile {
  /** Matching and context lines, in order. */
  lines?: GrepLine[];
  /** The file, absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** A line of a file. */
export interface GrepLine {
  /** It surrounds a match and is none. */
  context?: boolean;
  /** From 1. */
  lineNumber?: string;
  /** It was not UTF-8: text holds U+FFFD, raw_text its bytes. */
  lossy?: boolean;
  /** The bytes of a line that is not UTF-8. */
  rawText?: string;
  /** Where it matches: the first 256 places. */
  spans?: GrepSpan[];
  /** The line without its end. */
  text?: string;
  /** Only the first 4 KiB are here. */
  truncated?: boolean;
}

/** Request of Grep. */
export interface GrepRequest {
  /** Lines after each match, 0 to 100. */
  afterContext?: number;
  /** Lines before each match, 0 to 100. */
  beforeContext?: number;
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Globs of files and directories to pass over. */
  exclude?: string[];
  /** The pattern is a plain string. */
  fixedStrings?: boolean;
  /** Upper and lower case are the same. */
  ignoreCase?: boolean;
  /** Globs of files to search; one without a slash is matched with the name. None means all. */
  include?: string[];
  /** Matches in one file; 0 means no bound. */
  maxCount?: number;
  /** Larger files are passed over, in bytes; 0 means 64 MiB. */
  maxFileSize?: string;
  /** Matches in all, then the search stops; 0 means 100,000. */
  maxMatches?: number;
  /** File or directory to search; empty means the root. */
  path?: string;
  /** RE2 expression (https://github.com/google/re2/wiki/Syntax) of at most 4 KiB that compiles to at most 10,000 instructions; EINVAL for others. */
  pattern?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Grep. */
export interface GrepResponse {
  /**
   * The matches of one file, or a part of them.
   * Only one is set of: file, summary.
   */
  file?: GrepFile;
  /**
   * The end.
   * Only one is set of: file, summary.
   */
  summary?: GrepSummary;
}

/** Where a line matches, in bytes. */
export interface GrepSpan {
  /** Byte after the last. */
  end?: number;
  /** First byte, from 0. */
  start?: number;
}

/** Ends a Grep. */
export interface GrepSummary {
  /** Files passed over as binary. */
  binarySkipped?: string;
  /** Files with a match. */
  filesMatched?: string;
  /** Files read. */
  filesSearched?: string;
  /** Files passed over as too large. */
  largeSkipped?: string;
  /** Lines that matched. */
  matches?: string;
  /** max_matches stopped it, or a file with more than 4 MiB of lines. */
  truncated?: boolean;
  /** Files and directories that could not be read. */
  unreadable?: string;
}

/** An open handle. */
export interface Handle {
  /** Close with commit makes its file appear. */
  atomic?: boolean;
  /** The client instance whose lease it ends with; empty means none. */
  clientInstance?: string;
  /** The context. */
  contextId?: string;
  /** Its number. */
  fd?: number;
  /** How it was opened: r, r+, w, a, … */
  flags?: string;
  /** Last use, ns since the epoch. */
  lastUsedNs?: string;
  /** When, ns since the epoch. */
  openedNs?: string;
  /** The panel, or "host/" and its connection. */
  owner?: string;
  /** The path it was opened by. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** The lease is there. */
export interface HoldHeld {
  /** How long, in ms, the handles outlive the stream. */
  graceMs?: string;
  /** The lease was there already: handles that were open, and not closed or idled out since, still are. */
  resumed?: boolean;
}

/** The lease lives. */
export type HoldKeepalive = Record<string, never>;

/** Request of Hold. */
export interface HoldRequest {
  /**
   * Names this running copy of the panel: 1 to 64 of [A-Za-z0-9._-], best random. The same name after a lost connection
   * keeps the handles.
   */
  clientInstance?: string;
}

/** Response of Hold. */
export interface HoldResponse {
  /**
   * The lease is there. Always the first message.
   * Only one is set of: held, keepalive.
   */
  held?: HoldHeld;
  /**
   * Nothing happened for 30 s; the lease lives.
   * Only one is set of: held, keepalive.
   */
  keepalive?: HoldKeepalive;
}

/** A run of changed lines. Context lines around it are not part of it. */
export interface Hunk {
  /** How many lines it adds. */
  afterLines?: number;
  /** The first line that it adds, from 1; for a hunk that adds none, the line after which it removes. */
  afterStart?: number;
  /** How many lines it removes. */
  beforeLines?: number;
  /** The first line that it removes, from 1; for a hunk that removes none, the line after which it adds. */
  beforeStart?: number;
  /** The reviewer's remark. */
  comment?: string;
  /** The decision on it. */
  decision?: Decision;
  /**
   * Names the hunk. It covers the path, the lines, before_start, and up to three lines of the version before on each side. Edits elsewhere in the
   * context's file leave it alone. The same edit at another place of the file has another ID. That of a new file covers its mode too.
   */
  hunkId?: string;
  /** Context before, removed lines, added lines, context after. */
  lines?: DiffLine[];
}

/** Something that was done, and can be undone. */
export interface JournalEntry {
  /** The caller that did it: a panel, or "host". */
  actor?: string;
  /** The command line, for JOURNAL_KIND_EXEC, at most 1 KiB of it. */
  command?: string;
  /** The commits that it made, by repository. */
  commits?: Commit[];
  /** The context. */
  contextId?: string;
  /** When it was done, ns since the epoch. */
  doneNs?: string;
  /** What was done to each file. */
  files?: AppliedFile[];
  /** Its number, which rises. */
  journalId?: string;
  /** What was done. */
  kind?: JournalKind;
  /** The entry that it undid; 0 if it is no Undo. */
  undoes?: string;
  /** The entry that undid it; 0 if there is none. */
  undoneBy?: string;
}

/**
 * What a journal entry is of.
 * - JOURNAL_KIND_UNSPECIFIED: Not known.
 * - JOURNAL_KIND_APPLY: Apply.
 * - JOURNAL_KIND_DISCARD: Discard.
 * - JOURNAL_KIND_UNDO: Undo.
 * - JOURNAL_KIND_REBASE: Rebase.
 * - JOURNAL_KIND_RESOLVE: ResolveConflict.
 * - JOURNAL_KIND_EXEC: A command with a checkpoint.
 * - JOURNAL_KIND_PULL: GitService.Pull.
 * - JOURNAL_KIND_PUSH: GitService.Push.
 */
export type JournalKind =
  | "JOURNAL_KIND_UNSPECIFIED"
  | "JOURNAL_KIND_APPLY"
  | "JOURNAL_KIND_DISCARD"
  | "JOURNAL_KIND_UNDO"
  | "JOURNAL_KIND_REBASE"
  | "JOURNAL_KIND_RESOLVE"
  | "JOURNAL_KIND_EXEC"
  | "JOURNAL_KIND_PULL"
  | "JOURNAL_KIND_PUSH";

/**
 * A kind of reason for which a collection keeps a context.
 * - KEEP_REASON_UNSPECIFIED: Not known.
 * - KEEP_REASON_NO_RULE: No rule removes contexts.
 * - KEEP_REASON_TOO_YOUNG: It was made too short a time ago.
 * - KEEP_REASON_RECENTLY_USED: It was used too short a time ago.
 * - KEEP_REASON_UNDER_LIMIT: All contexts take no more than they may, without its removal.
 * - KEEP_REASON_SEEDING: It is being seeded.
 * - KEEP_REASON_OPERATION: Calls are under way in it.
 * - KEEP_REASON_TOKEN: A panel that is bound to it has a token that has not expired. Rules that require an idle time do not look at tokens.
 * - KEEP_REASON_SESSION: A client of a panel that is bound to it is connected, or may come back to its session.
 * - KEEP_REASON_HANDLE: Files are open in it.
 * - KEEP_REASON_PROCESS: Commands run in it.
 * - KEEP_REASON_SUBMITTED: Its changes were submitted for review, and it still has some of them that were not applied.
 * - KEEP_REASON_DECISIONS: Its changes have approvals that were not applied, or conflicts that were not resolved. An approval of a change that the context does not have any more
 * keeps it although force is set, since Apply would still write what was approved.
 * - KEEP_REASON_STAGED: It has staged commits that were not pushed.
 * - KEEP_REASON_SITE: A site shows its files.
 * - KEEP_REASON_CHANGES: It has changes that were not applied: a review lists them, and can apply or discard them. Ignored files are none, nor are paths that are
 * never applied, such as .git. Or it has commits in a repository of its own that no remote-tracking branch has.
 * - KEEP_REASON_SNAPSHOTS: It has snapshots that hold such changes: those of the time of the snapshot that were never applied as the snapshot has them.
 */
export type KeepReason =
  | "KEEP_REASON_UNSPECIFIED"
  | "KEEP_REASON_NO_RULE"
  | "KEEP_REASON_TOO_YOUNG"
  | "KEEP_REASON_RECENTLY_USED"
  | "KEEP_REASON_UNDER_LIMIT"
  | "KEEP_REASON_SEEDING"
  | "KEEP_REASON_OPERATION"
  | "KEEP_REASON_TOKEN"
  | "KEEP_REASON_SESSION"
  | "KEEP_REASON_HANDLE"
  | "KEEP_REASON_PROCESS"
  | "KEEP_REASON_SUBMITTED"
  | "KEEP_REASON_DECISIONS"
  | "KEEP_REASON_STAGED"
  | "KEEP_REASON_SITE"
  | "KEEP_REASON_CHANGES"
  | "KEEP_REASON_SNAPSHOTS";

/** A reason for which a collection keeps a context. */
export interface KeptContext {
  /** Its kind. */
  reason?: KeepReason;
  /** The reason in words. */
  text?: string;
}

/** Request of Kill. */
export interface KillRequest {
  /** How long after SIGTERM the server sends SIGKILL, in ms: up to 60000. 5000 if it is not set. */
  graceMs?: string;
  /** The process. */
  processId?: string;
}

/** Response of Kill. */
export interface KillResponse {
  /** The process, which has ended. */
  process?: Process;
}

/** Request of Lchown. */
export interface LchownRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** New group; required; -1 leaves it. */
  gid?: string;
  /** Only if the name itself has this etag, which Lstat returns; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** New owner; required; -1 leaves it. */
  uid?: string;
}

/** Response of Lchown. */
export interface LchownResponse {
  /** The etag that the file has now. */
  etag?: string;
}

/** A change that `all`, or a directory, does not select, or selects without the hunks that were rejected. */
export interface LeftOut {
  /** How many of its hunks are not selected: these are rejected, and the others are selected. 0 means that nothing of the change is selected. */
  hunks?: number;
  /** The path, absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
  /** Why: "ignored", "unstable", "rejected" (an earlier decision rejects it), or a value of Change.sensitive or Change.barred. */
  reason?: string;
}

/**
 * What a hunk does to a line.
 * - LINE_KIND_UNSPECIFIED: It stays.
 * - LINE_KIND_REMOVED: It is removed.
 * - LINE_KIND_ADDED: It is added.
 */
export type LineKind =
  | "LINE_KIND_UNSPECIFIED"
  | "LINE_KIND_REMOVED"
  | "LINE_KIND_ADDED";

/** Lines of a file. A line ends with a line feed; the last one may have none. */
export interface LineRange {
  /** How many; 0 means all from start on. */
  count?: string;
  /** The first line, from 1; 0 means 1. */
  start?: string;
  /** Reads the file no further than these lines, so that the reply has no total_lines. */
  uncounted?: boolean;
}

/** Request of Link. */
export interface LinkRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** The new name. */
  dest?: string;
  /** "*": only if nothing has the name dest; otherwise ABORTED (EEXIST). See FsService on conditions. */
  destIfNoneMatch?: string;
  /** Only if path has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** The existing file. */
  path?: string;
  /** Takes dest's place when it is not UTF-8; both set is EINVAL. */
  rawDest?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Link. */
export interface LinkResponse {
  /** The etag that dest has now. */
  etag?: string;
}

/** Request of ListBranches. */
export interface ListBranchesRequest {
  /** The context; empty means the panel's own. */
  contextId?: string;
  /** The repository. */
  repo?: string;
}

/** Response of ListBranches. */
export interface ListBranchesResponse {
  /** The branches. */
  branches?: GitBranch[];
}

/** Request of ListChanges. */
export interface ListChangesRequest {
  /** What the context is compared with; not set means its base. */
  against?: Against;
  /** The context. */
  contextId?: string;
  /** Lists the content of ignored directories file by file instead of as one change. */
  ignored?: boolean;
  /** Shows what a journal entry changed instead. It excludes against. Errors: ENOENT (the context has no such entry). */
  journalId?: string;
  /** Only these paths and what is below them; empty means all. */
  paths?: string[];
  /** Further paths, which are not UTF-8. */
  rawPaths?: string[];
}

/** Response of ListChanges. */
export interface ListChangesResponse {
  /**
   * A change.
   * Only one is set of: change, summary.
   */
  change?: Change;
  /**
   * The end.
   * Only one is set of: change, summary.
   */
  summary?: ChangesSummary;
}

/** Request of ListConflicts. */
export interface ListConflictsRequest {
  /** The context. */
  contextId?: string;
}

/** Response of ListConflicts. */
export interface ListConflictsResponse {
  /** The conflicts, by path. */
  conflicts?: RecordedConflict[];
}

/** Request of ListContexts. */
export interface ListContextsRequest {
  /** Only contexts whose labels match all of these: "key=value", "key" for any value, "!key" for contexts without the label. At most 32. */
  labelSelectors?: string[];
  /** Measures each on disk; see GetContextRequest. */
  sizes?: boolean;
}

/** Response of ListContexts. */
export interface ListContextsResponse {
  /** The contexts. */
  contexts?: Context[];
}

/** Request of ListHandles. */
export interface ListHandlesRequest {
  /** Only those of this context; empty means all. */
  contextId?: string;
}

/** Response of ListHandles. */
export interface ListHandlesResponse {
  /** The handles, by owner and fd. */
  handles?: Handle[];
}

/** Request of ListJournal. */
export interface ListJournalRequest {
  /** Only entries of this context; empty means all. A panel must name one. */
  contextId?: string;
  /** For hosts: only entries of contexts whose labels match, as in ListContextsRequest. A context that was deleted has no labels. */
  labelSelectors?: string[];
  /** At most so many entries; 0 means 100, which is the most. */
  pageSize?: number;
  /** next_page_token of the page before. */
  pageToken?: string;
  /** Only entries that touched this path or something below it. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
}

/** Response of ListJournal. */
export interface ListJournalResponse {
  /** The entries, newest first. */
  entries?: JournalEntry[];
  /** There are more if it is not empty. */
  nextPageToken?: string;
}

/** Request of ListPanels. */
export interface ListPanelsRequest {
  /** Only panels whose labels match all of these: "key=value", "key" for any value, "!key" for panels without the label. At most 32. */
  labelSelectors?: string[];
}

/** Response of ListPanels. */
export interface ListPanelsResponse {
  /** The panels. */
  panels?: Panel[];
}

/** Request of ListProcesses. */
export interface ListProcessesRequest {
  /** The context; empty for all that the caller may see. */
  contextId?: string;
  /**
   * next_page_token of the page before.
   * Errors: EINVAL (it is no such token).
   */
  pageToken?: string;
  /** Leaves out the processes that have ended. */
  running?: boolean;
}

/** Response of ListProcesses. */
export interface ListProcessesResponse {
  /** There are more if it is not empty. */
  nextPageToken?: string;
  /** The processes. A page has as many as fit in 1 MiB, and at least one if there is one. */
  processes?: Process[];
}

/** Request of ListProfiles. */
export type ListProfilesRequest = Record<string, never>;

/** Response of ListProfiles. */
export interface ListProfilesResponse {
  /** The profiles, sorted by name. */
  profiles?: ExecProfile[];
}

/** Request of ListRepositories. */
export interface ListRepositoriesRequest {
  /** The context; empty means the panel's own. */
  contextId?: string;
}

/** Response of ListRepositories. */
export interface ListRepositoriesResponse {
  /** The repositories. */
  repositories?: GitRepository[];
}

/** Request of ListSites. */
export interface ListSitesRequest {
  /** Lists only the sites of this context. */
  contextId?: string;
}

/** Response of ListSites. */
export interface ListSitesResponse {
  /** The open sites. */
  sites?: Site[];
}

/** Request of ListSnapshots. */
export interface ListSnapshotsRequest {
  /** The context. */
  contextId?: string;
}

/** Response of ListSnapshots. */
export interface ListSnapshotsResponse {
  /** The snapshots. */
  snapshots?: SnapshotInfo[];
}

/** Request of ListStaged. */
export interface ListStagedRequest {
  /** The context; empty means the panel's own, and for a host that acts for no panel all contexts. */
  contextId?: string;
  /** Pushed ones are listed too. */
  withPushed?: boolean;
}

/** Response of ListStaged. */
export interface ListStagedResponse {
  /** The staged commits, newest first. */
  staged?: StagedCommit[];
}

/** Request of ListTemplates. */
export type ListTemplatesRequest = Record<string, never>;

/** Response of ListTemplates. */
export interface ListTemplatesResponse {
  /** The templates. */
  templates?: BuiltTemplate[];
}

/** Request of ListZones. */
export interface ListZonesRequest {
  /** The context; empty means the panel's own. */
  contextId?: string;
  /** Measures `bytes` of each zone. */
  measure?: boolean;
}

/** Response of ListZones. */
export interface ListZonesResponse {
  /** How the zones are kept. */
  mode?: ZoneMode;
  /** The zones. */
  zones?: Zone[];
}

/** Request of Lstat. */
export interface LstatRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Lstat. */
export interface LstatResponse {
  /** The etag that the attributes belong to. */
  etag?: string;
  /** The attributes. */
  stat?: Stat;
}

/** Request of Lutimes. */
export interface LutimesRequest {
  /** Access time, ns since the epoch; required. */
  atimeNs?: string;
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Only if the name itself has this etag, which Lstat returns; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** Modification time, ns since the epoch; required. */
  mtimeNs?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Lutimes. */
export interface LutimesResponse {
  /** The etag that the file has now. */
  etag?: string;
}

/** Samples of the past. */
export interface MetricsHistory {
  /** The time between two samples, in ms. */
  intervalMs?: number;
  /** Oldest first, 720 at most. */
  samples?: MetricsSample[];
}

/** What the server measured at a time. */
export interface MetricsSample {
  /** The calls that run now, streams included. */
  calls?: number;
  /** The contexts that exist; not set when they could not be counted. */
  contexts?: number;
  /**
   * What the contexts and their snapshots take on disk alone, without what they share. It is measured while a client watches, for a
   * 20th of the time, and not set before it was measured.
   */
  contextsBytes?: string;
  /** What may still be written to the disk of the contexts; not set if the system does not tell. */
  diskFreeBytes?: string;
  /** Those of them that failed, per second. */
  errorsPerSecond?: number;
  /** Open handles. */
  handles?: number;
  /**
   * How long half of these calls took at most, in seconds, to the precision of the buckets of ctxfs_rpc_duration_seconds; not set if there
   * were none. Streams without an end are left out of the three latencies.
   */
  latencyP50Seconds?: number;
  /** How long 95 in 100 of these calls took at most, in seconds. */
  latencyP95Seconds?: number;
  /** How long 99 in 100 of these calls took at most, in seconds. */
  latencyP99Seconds?: number;
  /** Calls that ended since the sample before, per second. Calls of streams without an end count when they end. */
  operationsPerSecond?: number;
  /** The panels that are open; not set when they could not be counted. */
  panels?: number;
  /** Processes that run; not set when they could not be counted. */
  processes?: number;
  /** Open sessions. */
  sessions?: number;
  /** When, ns since the epoch. */
  timeNs?: string;
}

/** Request of Mkdir. */
export interface MkdirRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** "*": only if nothing has this name; otherwise ABORTED (EEXIST). See FsService on conditions. */
  ifNoneMatch?: string;
  /**
   * As a number: 420 is 0o644.
   * Only one is set of: mode, modeOctal.
   */
  mode?: number;
  /**
   * As an octal string: "0644".
   * Only one is set of: mode, modeOctal.
   */
  modeOctal?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** Makes missing parents as well; an existing directory is no error. */
  recursive?: boolean;
}

/** Response of Mkdir. */
export interface MkdirResponse {
  /** The etag that what was made has. */
  etag?: string;
  /** With recursive: the first directory that was made; absent when all existed. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Request of Mkdtemp. */
export interface MkdtempRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Path and beginning of the name. */
  prefix?: string;
  /** Takes prefix's place when it is not UTF-8; both set is EINVAL. */
  rawPrefix?: string;
}

/** Response of Mkdtemp. */
export interface MkdtempResponse {
  /** The etag that what was made has. */
  etag?: string;
  /** The directory made. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** The network of a command. */
export interface Network {
  /**
   * The mode. A command cannot choose HOST if its profile has another.
   * Errors: EACCES (the profile does not permit the mode).
   */
  mode?: NetworkMode;
  /**
   * Names to permit besides those of the profile, such as "example.com", or "*.example.com" for every name below it. Names without a mode
   * mean ALLOWED. Addresses are not names.
   */
  names?: string[];
}

/**
 * Which network a command has.
 * - NETWORK_MODE_UNSPECIFIED: As the profile says.
 * - NETWORK_MODE_NONE: Its own loopback and nothing else.
 * - NETWORK_MODE_ALLOWED: No route, but a proxy of the server's on the sandbox's loopback. It connects to the permitted names only.
 * - NETWORK_MODE_HOST: The network of the machine, without any rule. A profile of the operator's must have it.
 */
export type NetworkMode =
  | "NETWORK_MODE_UNSPECIFIED"
  | "NETWORK_MODE_NONE"
  | "NETWORK_MODE_ALLOWED"
  | "NETWORK_MODE_HOST";

/** What the proxy refused. */
export interface NetworkRefusal {
  /** How often. */
  count?: string;
  /** The name that the command asked for: the first 253 bytes, the most that DNS permits. Bytes that are not UTF-8 are escaped. */
  name?: string;
  /** The port. */
  port?: number;
  /** Why. */
  reason?: string;
}

/** What a network permits. */
export interface NetworkRules {
  /** The mode; never UNSPECIFIED. */
  mode?: NetworkMode;
  /** The permitted names. */
  names?: string[];
  /** The permitted ports. */
  ports?: number[];
}

/**
 * What Rebase does with a path that cannot be merged.
 * - ON_CONFLICT_UNSPECIFIED: Rebase fails with CONFLICT, and does nothing.
 * - ON_CONFLICT_RECORD: The context keeps its file. The conflict is recorded, and ListConflicts lists it until ResolveConflict is called. The base stays.
 * - ON_CONFLICT_MARKERS: Like ON_CONFLICT_RECORD, but a text gets the merge of both sides with conflict markers, labelled context, base and workspace. The markers are longer
 * than any that the file has.
 * - ON_CONFLICT_KEEP_CONTEXT: The context's lines win where both sides changed the same lines. A file that is no text, or that one side removed, stays what it is in
 * the context.
 * - ON_CONFLICT_TAKE_WORKSPACE: The workspace's lines win where both sides changed the same lines. A file that is no text, or that one side removed, becomes what it is
 * in the workspace. Where a directory of the context stands in the way of a file, or a file in the way of a directory, its files are removed; Undo brings
 * them back.
 */
export type OnConflict =
  | "ON_CONFLICT_UNSPECIFIED"
  | "ON_CONFLICT_RECORD"
  | "ON_CONFLICT_MARKERS"
  | "ON_CONFLICT_KEEP_CONTEXT"
  | "ON_CONFLICT_TAKE_WORKSPACE";

/**
 * What happens to a process when the last Run or Attach that is connected to it ends early: without the process's exit and without detach.
 * - ON_DISCONNECT_UNSPECIFIED: As ON_DISCONNECT_KILL for Run, as ON_DISCONNECT_KEEP for Start.
 * - ON_DISCONNECT_KILL: The process gets SIGPIPE when it writes, and the server kills it 1 s later. A process of Start is ended too if no caller attaches within
 * 30 s.
 * - ON_DISCONNECT_KEEP: The process continues. FollowOutput and Attach return to it. If it is 4 MiB ahead of a reader that left, it first waits up to 30 s.
 */
export type OnDisconnect =
  | "ON_DISCONNECT_UNSPECIFIED"
  | "ON_DISCONNECT_KILL"
  | "ON_DISCONNECT_KEEP";

/** Request of OpenConsole. */
export interface OpenConsoleRequest {
  /** How long the code can be used, in ms; 0 means two minutes, which is also the most. */
  ttlMs?: string;
}

/** Response of OpenConsole. */
export interface OpenConsoleResponse {
  /** The code alone. */
  code?: string;
  /** Until when the code can be used, ns since the epoch. */
  expiresNs?: string;
  /** The page, with the code in the fragment, which browsers send to no server. Whoever opens it first has the console. */
  url?: string;
}

/** Request of OpenPanel. */
export interface OpenPanelRequest {
  /** Shares this context instead of the panel's own. */
  contextId?: string;
  /**
   * Labels that the panel gets beside those that it has, as of SetPanelLabels. Its context gets them too if it is the panel's own, or if this call
   * made it.
   */
  labels?: Record<string, string>;
  /** The panel: panels/editor. */
  panelId?: string;
  /** Mutations of its context are refused to this panel. rights do not depend on it. */
  readOnly?: boolean;
  /** The panel's rights beyond its own context; empty means none. EINVAL for one that the server does not know. */
  rights?: PanelRight[];
  /**
   * The scope: seeds the context from these repositories and folders of the workspace alone, each relative to the workspace. Empty means all
   * repositories. They keep their paths. It counts when the context is seeded; later it has to be empty or the same. EINVAL for one that does not
   * exist, with a list of what does, and together with a template.
   */
  seedFrom?: string[];
  /**
   * Makes the context from this template, a folder or file of the workspace. Empty means the context-template.yml in
   * the folder that the panel's ID names, and without one a copy of the workspace.
   */
  template?: string;
  /** Life of the token; 0 means the server's default, 24 h. */
  ttlMs?: string;
  /** The panel may use unsafe_noctx contexts, which start empty; without context_id it gets one of its own. */
  unsafe?: boolean;
  /**
   * The zones of the context. Not set means the context-zones.yml in the folder that the panel's ID names, and without one no zones. It counts when
   * the context is seeded; later it has to be missing or the same. EINVAL for a layout that cannot be. EACCES if that file asks for direct zones:
   * it gives them only if the server was started with --trust-zone-files.
   */
  zones?: ZoneLayout;
}

/** Response of OpenPanel. */
export interface OpenPanelResponse {
  /** Their size. */
  bytes?: string;
  /** Its context. */
  contextId?: string;
  /** How long the call took. */
  durationMs?: string;
  /** When it ends, ns since the epoch. */
  expiresNs?: string;
  /** Files that were seeded into the context. */
  files?: string;
  /** The panel. */
  panelId?: string;
  /** Electron session partition: "persist:" and the context ID. */
  partition?: string;
  /** The token's rights. */
  rights?: PanelRight[];
  /** This call waited for a seeding. */
  seeded?: boolean;
  /**
   * Why the template's repositories could not be asked whether they have moved; the panel then keeps the context that
   * it has. Empty when they were, or there is no template.
   */
  templateUnasked?: string;
  /** Bearer token, shown once; the server keeps its hash. */
  token?: string;
  /** How the zones of its context are kept. ZONE_MODE_DIRECT: the panel works in real directories, unreviewed. */
  zoneMode?: ZoneMode;
}

/** Request of Open. */
export interface OpenRequest {
  /**
   * Writes to a hidden new file that takes the path's place, whole and on the disk, at Close with commit; a handle that ends
   * otherwise leaves nothing. Only with flags w, wx, w+ and wx+: EINVAL.
   */
  atomic?: boolean;
  /**
   * The client instance whose lease (Hold) this handle ends with; on a Session its own is meant. Empty means none: the
   * handle lives until Close, ClosePanel or the idle timeout. An instance without a lease is EINVAL.
   */
  clientInstance?: string;
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /**
   * Node's string: r, r+, rs, rs+, sr, sr+, w, wx, xw, w+, wx+, xw+, a, ax, xa, a+, ax+, xa+, as, sa, as+, sa+.
   * Only one is set of: flags, flagsNumber.
   */
  flags?: string;
  /**
   * open(2) flags by their Linux numbers.
   * Only one is set of: flags, flagsNumber.
   */
  flagsNumber?: number;
  /** Only if the file has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** "*": only if nothing has this name; otherwise ABORTED (EEXIST). See FsService on conditions. */
  ifNoneMatch?: string;
  /**
   * As a number: 420 is 0o644.
   * Only one is set of: mode, modeOctal.
   */
  mode?: number;
  /**
   * As an octal string: "0644".
   * Only one is set of: mode, modeOctal.
   */
  modeOctal?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Open. */
export interface OpenResponse {
  /** The handle; a number is never used again. */
  fd?: number;
}

/** Request of OpenSite. */
export interface OpenSiteRequest {
  /** Context to serve; empty means the caller's own panel's. */
  contextId?: string;
  /** What the site serves. */
  options?: SiteOptions;
  /** Life of the site; 0 means 24 h. */
  ttlMs?: string;
}

/** Response of OpenSite. */
export interface OpenSiteResponse {
  /** Where the hub is; empty without SiteOptions.hub. */
  hubUrl?: string;
  /** Origin of the URL. In the path form all sites share it, and documents have an opaque one. */
  origin?: string;
  /** The site. */
  site?: Site;
  /** Where the site is, with a slash at the end. Shown once; treat it like a password. */
  url?: string;
}

/** Request of Opendir. */
export interface OpendirRequest {
  /** Entries in one message, 1 to 10,000; 0 means 256. */
  bufferSize?: number;
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** Lists what is below as well; links are not followed. */
  recursive?: boolean;
  /** Fills stat. */
  withStats?: boolean;
}

/** Response of Opendir. */
export interface OpendirResponse {
  /** Some entries. */
  entries?: DirEntryBatch;
}

/** A context that changes the same paths as another one. */
export interface OtherContext {
  /** The context. */
  contextId?: string;
  /** When the changes of the other context were listed last, ns since the epoch. */
  listedNs?: string;
  /** How many paths both change. Of a context with more than 1,000 changes only the first 1,000 paths count. */
  pathCount?: number;
  /** The paths that both change, absolute in the context, at most 100. */
  paths?: string[];
}

/** A part of an output stream. */
export interface Output {
  /** The bytes. */
  data?: string;
  /** How many bytes before offset the server dropped and does not send. data is empty if no others follow. */
  dropped?: string;
  /** The offset of the data in the stream, in bytes. */
  offset?: string;
  /** The stream. */
  stream?: OutputStream;
}

/**
 * An output stream.
 * - OUTPUT_STREAM_UNSPECIFIED: Not known.
 * - OUTPUT_STREAM_STDOUT: Standard output.
 * - OUTPUT_STREAM_STDERR: Standard error.
 * - OUTPUT_STREAM_PTY: Everything that was written to the terminal.
 */
export type OutputStream =
  | "OUTPUT_STREAM_UNSPECIFIED"
  | "OUTPUT_STREAM_STDOUT"
  | "OUTPUT_STREAM_STDERR"
  | "OUTPUT_STREAM_PTY";

/** A panel. */
export interface Panel {
  /** Its context. */
  contextId?: string;
  /** Open handles. */
  handles?: number;
  /** Labels that its host gave it. */
  labels?: Record<string, string>;
  /** It has not been closed. */
  open?: boolean;
  /** When it was last opened, ns since the epoch. */
  openedNs?: string;
  /** The panel: panels/editor. */
  panelId?: string;
  /** Mutations are refused. */
  readOnly?: boolean;
  /** The rights that its next token has. */
  rights?: PanelRight[];
  /** Tokens that have not expired. */
  tokens?: number;
}

/**
 * What a panel may do beyond its own context. A panel has no right that OpenPanel did not name.
 * - PANEL_RIGHT_UNSPECIFIED: Not a right.
 * - PANEL_RIGHT_REVIEW: The panel reviews: it reads the changes of other contexts, decides on them, applies and undoes them, and reads what the workspace
 * holds of their files. It names them by context_id. It has no other access to them, and never reviews a context with its own work: its own
 * context, one that was derived from its ID, or a copy of one of these.
 * - PANEL_RIGHT_EXEC: The panel runs commands in its own context through ExecService. A read-only panel's commands see the context read-only.
 * - PANEL_RIGHT_GIT_PUSH: The panel pushes commits that were staged in its own context (GitService.Push).
 */
export type PanelRight =
  | "PANEL_RIGHT_UNSPECIFIED"
  | "PANEL_RIGHT_REVIEW"
  | "PANEL_RIGHT_EXEC"
  | "PANEL_RIGHT_GIT_PUSH";

/** Request of PlanSeed. */
export interface PlanSeedRequest {
  /** How many of the largest directories to name; 0 means 10. */
  largest?: number;
  /** The scope, as in OpenPanelRequest. */
  seedFrom?: string[];
}

/** Response of PlanSeed. */
export interface PlanSeedResponse {
  /** Their size. */
  bytes?: string;
  /** Files and links that would be copied. */
  files?: string;
  /** The largest directories, largest first. */
  largest?: DirectorySize[];
  /** The workspace's repositories. */
  repositories?: Repository[];
  /** What would be left out. */
  skipped?: SkippedEntries[];
  /** Why the size guard would refuse, and the remedies; empty when it would not. */
  tooLarge?: string;
}

/** A command that was started. */
export interface Process {
  /** The program and its arguments. */
  argv?: string[];
  /** The context in which it runs. */
  contextId?: string;
  /** The working directory, from the context's root. */
  cwd?: string;
  /** Its exit; absent while it runs. */
  exit?: Exit;
  /** Its labels. */
  labels?: Record<string, string>;
  /** The limits that the command has, and what enforces each. */
  limits?: EnforcedLimit[];
  /** Its name; empty if it has none. */
  name?: string;
  /** Identifies the process, also after it ended. */
  processId?: string;
  /** The profile. */
  profile?: string;
  /** Its terminal, with the present size; absent if it has none. */
  pty?: Pty;
  /** Takes argv's place when an argument is not UTF-8: the program and all its arguments. */
  rawArgv?: string[];
  /** Takes cwd's place when it is not UTF-8. */
  rawCwd?: string;
  /** What the proxy refused to the sandbox while the process ran: the first 32 different requests. */
  refusals?: NetworkRefusal[];
  /** The shared sandbox; empty for one of its own. */
  sandbox?: string;
  /** When it was started, in ns since the epoch. */
  startedNs?: string;
  /** How many bytes it wrote to standard error. */
  stderrBytes?: string;
  /** How many bytes it wrote to standard output, or to its terminal. */
  stdoutBytes?: string;
}

/** A terminal. */
export interface Pty {
  /** Its width in characters: 80 if it is 0, up to 65535. */
  cols?: number;
  /** Its height in lines: 24 if it is 0, up to 65535. */
  rows?: number;
  /** The variable TERM; xterm-256color if it is empty. */
  term?: string;
}

/**
 * What Pull does with paths that cannot be merged.
 * - PULL_CONFLICT_UNSPECIFIED: Nothing is pulled: GIT_CONFLICT.
 * - PULL_CONFLICT_MARKERS: Texts get conflict markers, in git's form. Content that is no text fails with GIT_CONFLICT.
 * - PULL_CONFLICT_OURS: The context's version stays where both changed the same lines.
 * - PULL_CONFLICT_THEIRS: The ref's version replaces the context's where both changed the same lines.
 */
export type PullConflict =
  | "PULL_CONFLICT_UNSPECIFIED"
  | "PULL_CONFLICT_MARKERS"
  | "PULL_CONFLICT_OURS"
  | "PULL_CONFLICT_THEIRS";

/**
 * What Pull did to a path.
 * - PULL_OUTCOME_UNSPECIFIED: Not known.
 * - PULL_OUTCOME_CREATED: The context did not have it.
 * - PULL_OUTCOME_UPDATED: The context had the base's version, and has the ref's now.
 * - PULL_OUTCOME_MERGED: Both had changed it, and the context has the merge.
 * - PULL_OUTCOME_CONFLICT: Both had changed it, and the versions cannot be merged: on_conflict was used.
 * - PULL_OUTCOME_DELETED: The ref does not have it any more, and the context had not changed it.
 * - PULL_OUTCOME_UNCHANGED: The context had the ref's version already.
 */
export type PullOutcome =
  | "PULL_OUTCOME_UNSPECIFIED"
  | "PULL_OUTCOME_CREATED"
  | "PULL_OUTCOME_UPDATED"
  | "PULL_OUTCOME_MERGED"
  | "PULL_OUTCOME_CONFLICT"
  | "PULL_OUTCOME_DELETED"
  | "PULL_OUTCOME_UNCHANGED";

/** Request of Pull. */
export interface PullRequest {
  /** The context; empty means the panel's own. */
  contextId?: string;
  /**
   * A directory of the context that the files are put in, each at its path in the repository. Empty means the repository's own place. The
   * files become changes of the context if the directory belongs to another repository or to none.
   */
  dest?: string;
  /** Says what would be done, and does nothing. */
  dryRun?: boolean;
  /** What happens to paths that cannot be merged. */
  onConflict?: PullConflict;
  /** Files and directories of the repository, relative to it; empty means the whole tree. */
  paths?: string[];
  /** Takes dest's place when it is not UTF-8. */
  rawDest?: string;
  /** Further paths, which are not UTF-8. */
  rawPaths?: string[];
  /**
   * A branch, tag or commit; empty means what the workspace's repository has checked out. With `remote` it is the remote's, and empty means its HEAD.
   * A panel names a branch, a tag, a remote-tracking branch (refs/remotes/…), or a commit that one of these contains or that the context was seeded
   * with: GIT_NO_REF for others, such as refs/stash and commits that nothing names any more. A host names any commit. From a remote, a panel gets
   * what the remote gives to the server, but for refs of other kinds.
   */
  ref?: string;
  /** The name of a remote of the repository; empty means the workspace's repository itself. */
  remote?: string;
  /** The repository. */
  repo?: string;
}

/** Part of the response of Pull. */
export interface PullResponse {
  /**
   * What was done, or would be done, to a path; by path. They come once all is done.
   * Only one is set of: file, summary.
   */
  file?: PulledFile;
  /**
   * The end.
   * Only one is set of: file, summary.
   */
  summary?: PullSummary;
}

/** The end of Pull. */
export interface PullSummary {
  /** The commit that was pulled. */
  commit?: string;
  /** The journal entry, for Undo; 0 in a dry run, and if nothing changed. */
  entry?: string;
  /** How many paths had each outcome, by PullOutcome. */
  outcomes?: Record<string, number>;
}

/** What Pull did to a path. */
export interface PulledFile {
  /** What was done. */
  outcome?: PullOutcome;
  /** The path, absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
}

/**
 * What Push does if the target branch moved since Stage.
 * - PUSH_MOVED_UNSPECIFIED: It fails with GIT_NON_FAST_FORWARD.
 * - PUSH_MOVED_MERGE: It merges: the pushed commit is a merge of the branch and the staged commit.
 */
export type PushMoved =
  | "PUSH_MOVED_UNSPECIFIED"
  | "PUSH_MOVED_MERGE";

/**
 * How far a Push is.
 * - PUSH_PHASE_UNSPECIFIED: Not known.
 * - PUSH_PHASE_CHECKING: It looks at the target.
 * - PUSH_PHASE_MERGING: It merges the branch and the staged commit.
 * - PUSH_PHASE_PUSHING: It brings the objects to the target, and moves the branch.
 * - PUSH_PHASE_ADVANCING: It makes the context's base what was pushed.
 */
export type PushPhase =
  | "PUSH_PHASE_UNSPECIFIED"
  | "PUSH_PHASE_CHECKING"
  | "PUSH_PHASE_MERGING"
  | "PUSH_PHASE_PUSHING"
  | "PUSH_PHASE_ADVANCING";

/** Request of Push. */
export interface PushRequest {
  /** The branch to move; empty means the staged commit's. */
  branch?: string;
  /** The branch is created if it does not exist. A branch that Stage named itself (ctxfs/…) is created without this. */
  createBranch?: boolean;
  /** Checks everything, and pushes nothing. */
  dryRun?: boolean;
  /** The commit that was reviewed. It has to be StagedCommit.commit. */
  expectedCommit?: string;
  /** The staged commit. */
  id?: string;
  /** What happens if the branch moved. */
  onMoved?: PushMoved;
  /** The name of the remote, for PUSH_TARGET_REMOTE; empty means origin. */
  remote?: string;
  /** Where to push to. */
  target?: PushTarget;
}

/** Part of the response of Push. */
export interface PushResponse {
  /**
   * How far it is.
   * Only one is set of: phase, result.
   */
  phase?: PushPhase;
  /**
   * The end.
   * Only one is set of: phase, result.
   */
  result?: PushResult;
}

/** Where a staged commit was pushed to. */
export interface PushResult {
  /** The branch without refs/heads/. */
  branch?: string;
  /** The commit that the branch names now: the staged one, or a merge. */
  commit?: string;
  /** What the branch named before; empty if it was created. */
  previous?: string;
  /** When, ns since the epoch; 0 in a dry run. */
  pushedNs?: string;
  /** The remote's name. */
  remote?: string;
  /** Where it went to. */
  target?: PushTarget;
  /** The address of the remote without user and password, or the path of the repository in the workspace. */
  url?: string;
}

/**
 * Where Push pushes to.
 * - PUSH_TARGET_UNSPECIFIED: A branch of the workspace's repository that no working tree has checked out.
 * - PUSH_TARGET_WORKTREE: The branch that the workspace's repository has checked out, with its index and the files of the working tree. Files that the user
 * changed otherwise stay as they are.
 * - PUSH_TARGET_REMOTE: A branch of the remote.
 */
export type PushTarget =
  | "PUSH_TARGET_UNSPECIFIED"
  | "PUSH_TARGET_WORKTREE"
  | "PUSH_TARGET_REMOTE";

/** Request of ReadAudit. */
export interface ReadAuditRequest {
  /** Read what is before this cursor of an entry; empty means from the end. It cannot be combined with follow. */
  before?: string;
  /** Only entries about this context. */
  contextId?: string;
  /** Continue with the entries that come. */
  follow?: boolean;
  /** The most entries of the past; 0 means 100, and the maximum is 1000. */
  limit?: number;
  /** Only entries of this RPC, such as "WriteFile". */
  op?: string;
  /** Only entries of this panel. */
  panelId?: string;
}

/** Response of ReadAudit. */
export interface ReadAuditResponse {
  /**
   * A line of the log.
   * Only one is set of: entry, ready.
   */
  entry?: AuditEntry;
  /**
   * The past was sent.
   * Only one is set of: entry, ready.
   */
  ready?: AuditReady;
}

/** Request of ReadFile. */
export interface ReadFileRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /**
   * Node's name of the encoding of the reply's text: utf8, utf-8, utf16le, utf-16le, ucs2, ucs-2,
   * latin1, binary, ascii, hex, base64, base64url. Empty or "buffer" means bytes. Unknown is EINVAL.
   */
  encoding?: string;
  /** Reads from this handle's position to the end instead of a path. */
  fd?: number;
  /**
   * Node's string: r, r+, rs, rs+, sr, sr+, w, wx, xw, w+, wx+, xw+, a, ax, xa, a+, ax+, xa+, as, sa, as+, sa+.
   * Only one is set of: flag, flagNumber.
   */
  flag?: string;
  /**
   * open(2) flags by their Linux numbers.
   * Only one is set of: flag, flagNumber.
   */
  flagNumber?: number;
  /** Only these lines, with their ends. Not with fd or encoding utf16le: EINVAL. */
  lines?: LineRange;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of ReadFile. */
export interface ReadFileResponse {
  /**
   * As bytes; no encoding applies.
   * Only one is set of: data, text.
   */
  data?: string;
  /** The etag that the content belongs to. */
  etag?: string;
  /** The bytes were not valid in the encoding: text does not give them back. */
  lossy?: boolean;
  /**
   * As text in the encoding.
   * Only one is set of: data, text.
   */
  text?: string;
  /** With lines: how many lines the file has. Absent with lines.uncounted, and when more than 64 MiB follow the lines that were asked for. */
  totalLines?: string;
}

/** Request of Read. */
export interface ReadRequest {
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /**
   * Node's name of the encoding of the reply's text: utf8, utf-8, utf16le, utf-16le, ucs2, ucs-2,
   * latin1, binary, ascii, hex, base64, base64url. Empty or "buffer" means bytes. Unknown is EINVAL.
   */
  encoding?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
  /** Bytes to read, at most 3.5 MiB; absent means 16 KiB. */
  length?: string;
  /** Where to start, in bytes from the beginning; absent or -1 means the handle's own position, which then moves. */
  position?: string;
}

/** Response of Read. */
export interface ReadResponse {
  /** Bytes read; fewer than asked for, or 0, at the end of the file. */
  bytesRead?: string;
  /**
   * As bytes; no encoding applies.
   * Only one is set of: data, text.
   */
  data?: string;
  /** The bytes were not valid in the encoding: text does not give them back. */
  lossy?: boolean;
  /**
   * As text in the encoding.
   * Only one is set of: data, text.
   */
  text?: string;
}

/** Request of ReadStream. */
export interface ReadStreamRequest {
  /** Bytes in one message, 1 to 1 MiB; 0 means 256 KiB. */
  chunkSize?: number;
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Last byte, inclusive as in Node; absent means the end of the file. */
  end?: string;
  /** Reads from this handle instead of a path. */
  fd?: number;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** First byte; absent means 0, with fd its position. */
  start?: string;
}

/** Response of ReadStream. */
export interface ReadStreamResponse {
  /**
   * A chunk.
   * Only one is set of: start, data.
   */
  data?: string;
  /**
   * Comes first: the file's attributes when it was opened.
   * Only one is set of: start, data.
   */
  start?: ReadStreamStart;
}

/** Comes before the chunks. */
export interface ReadStreamStart {
  /** The etag that the attributes belong to. */
  etag?: string;
  /** The attributes. */
  stat?: Stat;
}

/** Request of ReadVersion. */
export interface ReadVersionRequest {
  /** The context. */
  contextId?: string;
  /** The path, absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
  /** Which version. */
  version?: Version;
}

/** Response of ReadVersion. */
export interface ReadVersionResponse {
  /** A part of the content, or a link's target. Its number is below 100, so that sessions carry it. */
  data?: string;
  /** The version; in the first message only. */
  version?: FileVersion;
}

/** Request of Readdir. */
export interface ReaddirRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** Lists what is below as well; links are not followed. */
  recursive?: boolean;
  /** Fills type. */
  withFileTypes?: boolean;
  /** Fills type and stat (lstat), in the same pass. */
  withStats?: boolean;
}

/** Response of Readdir. */
export interface ReaddirResponse {
  /** The entries, parents before children, otherwise in the directory's order. */
  entries?: DirEntry[];
}

/** Request of Readlink. */
export interface ReadlinkRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Readlink. */
export interface ReadlinkResponse {
  /** Takes target's place when it is not UTF-8; both set is EINVAL. */
  rawTarget?: string;
  /** The target. */
  target?: string;
}

/** Request of Readv. */
export interface ReadvRequest {
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
  /** Sizes of the buffers, together at most 3.5 MiB. */
  lengths?: string[];
  /** Where to start, in bytes from the beginning; absent or -1 means the handle's own position, which then moves. */
  position?: string;
}

/** Response of Readv. */
export interface ReadvResponse {
  /** Bytes read in all. */
  bytesRead?: string;
  /** What was read, to be laid into the buffers in order. */
  data?: string;
}

/** Request of Realpath. */
export interface RealpathRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Realpath. */
export interface RealpathResponse {
  /** The resolved path. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Request of Rebase. */
export interface RebaseRequest {
  /** The context. */
  contextId?: string;
  /** Does nothing, and says what would be done. */
  dryRun?: boolean;
  /** What happens to paths that both sides changed and that cannot be merged. */
  onConflict?: OnConflict;
  /** Only these paths and what is below them; empty means all. */
  paths?: string[];
  /** Further paths, which are not UTF-8. */
  rawPaths?: string[];
}

/** Response of Rebase. */
export interface RebaseResponse {
  /** The conflicts that were recorded, and those of the named paths that an earlier Rebase recorded. */
  conflicts?: RecordedConflict[];
  /** What was done to the context, by path. Paths with a recorded conflict are in conflicts only. */
  files?: AppliedFile[];
  /** The journal entry; 0 for a dry run, and if the workspace changed nothing. */
  journalId?: string;
  /**
   * Decisions that were taken back, because what they were about is not there any more. No hunk_ids means the decision on the whole change. Not
   * set for a dry run.
   */
  stale?: SelectedChange[];
}

/** A path that Rebase could not merge, and that is not resolved. */
export interface RecordedConflict {
  /** The base's version; not set if the base has no file there. */
  base?: FileVersion;
  /** The context's version when Rebase recorded the conflict; not set if the context had no file there. */
  context?: FileVersion;
  /** Why it could not be merged. */
  kind?: ConflictKind;
  /** Rebase wrote the file with conflict markers. */
  markers?: boolean;
  /** The path, absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
  /** When Rebase recorded it, ns since the epoch; 0 in a dry run. */
  recordedNs?: string;
  /** The workspace's version when Rebase recorded the conflict; not set if the workspace had no file there. */
  workspace?: FileVersion;
}

/** Request of RemoveProcess. */
export interface RemoveProcessRequest {
  /** The process. */
  processId?: string;
}

/** Response of RemoveProcess. */
export type RemoveProcessResponse = Record<string, never>;

/** Request of Rename. */
export interface RenameRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Where to. */
  dest?: string;
  /** Only if dest has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  destIfMatch?: string;
  /** "*": only if nothing has the name dest; otherwise ABORTED (EEXIST). See FsService on conditions. */
  destIfNoneMatch?: string;
  /** Only if path has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** What to move. */
  path?: string;
  /** Takes dest's place when it is not UTF-8; both set is EINVAL. */
  rawDest?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Rename. */
export interface RenameResponse {
  /** The etag that dest has now. */
  etag?: string;
}

/** Request of RenewSite. */
export interface RenewSiteRequest {
  /** The site. */
  siteId?: string;
  /** Life of the site from now; 0 means 24 h. */
  ttlMs?: string;
}

/** Response of RenewSite. */
export interface RenewSiteResponse {
  /** The site. */
  site?: Site;
}

/** Request of RenewToken. */
export interface RenewTokenRequest {
  /** The panel: panels/editor. */
  panelId?: string;
  /** Life of the token; 0 means the server's default. */
  ttlMs?: string;
}

/** Response of RenewToken. */
export interface RenewTokenResponse {
  /** When it ends, ns since the epoch. */
  expiresNs?: string;
  /** Bearer token, shown once; the server keeps its hash. */
  token?: string;
}

/** A git repository of the workspace. */
export interface Repository {
  /** Branch; empty when detached. */
  branch?: string;
  /** It has uncommitted changes. */
  dirty?: boolean;
  /** Commit; empty before the first. */
  head?: string;
  /** Relative to the workspace; "." is the workspace itself. */
  path?: string;
}

/** Request of Resize. */
export interface ResizeRequest {
  /** The width in characters: 1 to 65535. */
  cols?: number;
  /** The process. */
  processId?: string;
  /** The height in lines: 1 to 65535. */
  rows?: number;
}

/** Response of Resize. */
export type ResizeResponse = Record<string, never>;

/**
 * What ResolveConflict makes the context's file.
 * - RESOLUTION_UNSPECIFIED: Not allowed.
 * - RESOLUTION_CONTEXT: The file stays what it is in the context now: it was merged by hand, or the context's version wins.
 * - RESOLUTION_WORKSPACE: The workspace's version of the conflict.
 * - RESOLUTION_BASE: The base's version: the changes of both sides go.
 * - RESOLUTION_CONTENT: The content of the request. The file keeps its mode.
 */
export type Resolution =
  | "RESOLUTION_UNSPECIFIED"
  | "RESOLUTION_CONTEXT"
  | "RESOLUTION_WORKSPACE"
  | "RESOLUTION_BASE"
  | "RESOLUTION_CONTENT";

/** Request of ResolveConflict. */
export interface ResolveConflictRequest {
  /** The content for RESOLUTION_CONTENT, at most 4 MiB. */
  content?: string;
  /** The context. */
  contextId?: string;
  /**
   * Version.sha256 of the context's file that was looked at. If it is set and the context holds another file by now, ResolveConflict fails
   * with STALE_REVISION.
   */
  ifSha256?: string;
  /** The path, absolute in the context. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
  /** What the context's file becomes. */
  resolution?: Resolution;
}

/** Response of ResolveConflict. */
export interface ResolveConflictResponse {
  /** What was done to the context's file. */
  file?: AppliedFile;
  /** The journal entry. */
  journalId?: string;
}

/** Request of ResolvePath. */
export interface ResolvePathRequest {
  /** The context. */
  contextId?: string;
  /** The path, absolute in the context. It may name something that does not exist in a directory that does. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
}

/** Response of ResolvePath. */
export interface ResolvePathResponse {
  /** The path on the server's disk. */
  dir?: string;
  /** Takes dir's place when it is not UTF-8. */
  rawDir?: string;
}

/** What a template resolves to. */
export interface ResolvedTemplate {
  /** The files, from the workspace's root: the template first, its oldest ancestor last. */
  chain?: string[];
  /** What stands in the context, by path. */
  deps?: TemplateDep[];
  /** SHA-256 of what is built, in hex. Its first 12 digits stand in context IDs: safe_tpl_HASH12_NAME. */
  hash?: string;
}

/** Request of Restore. */
export interface RestoreRequest {
  /** The context. */
  contextId?: string;
  /** Restores the context although it has changes that were not applied, which are lost unless the snapshot has them. */
  discardChanges?: boolean;
  /** Name of the snapshot. */
  name?: string;
}

/** Response of Restore. */
export interface RestoreResponse {
  /** The context; its generation has risen. */
  context?: Context;
}

/**
 * A step of a review.
 * - REVIEW_EVENT_UNSPECIFIED: The watch has begun.
 * - REVIEW_EVENT_SUBMITTED: SubmitReview.
 * - REVIEW_EVENT_DECIDED: Decide.
 * - REVIEW_EVENT_APPLIED: Apply.
 * - REVIEW_EVENT_DISCARDED: Discard.
 * - REVIEW_EVENT_UNDONE: Undo.
 * - REVIEW_EVENT_OVERFLOW: Events were lost: the client was too slow. Call GetReview.
 * - REVIEW_EVENT_REBASED: Rebase, ResolveConflict, or GitService.Pull.
 */
export type ReviewEvent =
  | "REVIEW_EVENT_UNSPECIFIED"
  | "REVIEW_EVENT_SUBMITTED"
  | "REVIEW_EVENT_DECIDED"
  | "REVIEW_EVENT_APPLIED"
  | "REVIEW_EVENT_DISCARDED"
  | "REVIEW_EVENT_UNDONE"
  | "REVIEW_EVENT_OVERFLOW"
  | "REVIEW_EVENT_REBASED";

/**
 * How far a review is.
 * - REVIEW_STATE_UNSPECIFIED: The context has no changes.
 * - REVIEW_STATE_OPEN: It has changes.
 * - REVIEW_STATE_SUBMITTED: SubmitReview was called, and nothing was decided or changed since.
 * - REVIEW_STATE_PARTLY_DECIDED: A part of the changes is approved or rejected.
 * - REVIEW_STATE_DECIDED: All of them are approved or rejected.
 */
export type ReviewState =
  | "REVIEW_STATE_UNSPECIFIED"
  | "REVIEW_STATE_OPEN"
  | "REVIEW_STATE_SUBMITTED"
  | "REVIEW_STATE_PARTLY_DECIDED"
  | "REVIEW_STATE_DECIDED";

/** Request of Rm. */
export interface RmRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** A missing path is no error. */
  force?: boolean;
  /** Only if the name itself has this etag, which Lstat returns; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** Removes directories with their content. */
  recursive?: boolean;
}

/** Response of Rm. */
export interface RmResponse {
  /** Entries removed. */
  removed?: string;
}

/** Request of Rmdir. */
export interface RmdirRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Only if the name itself has this etag, which Lstat returns; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Rmdir. */
export type RmdirResponse = Record<string, never>;

/** Request of Run. */
export interface RunRequest {
  /** What to run. */
  command?: Command;
}

/** Response of Run. */
export interface RunResponse {
  /**
   * The last message: the process, which has ended.
   * Only one is set of: started, output, exited.
   */
  exited?: Process;
  /**
   * Output.
   * Only one is set of: started, output, exited.
   */
  output?: Output;
  /**
   * The first message: the process, which runs.
   * Only one is set of: started, output, exited.
   */
  started?: Process;
}

/**
 * A step of seeding.
 * - SEED_PHASE_UNSPECIFIED: Not known.
 * - SEED_PHASE_WAITING: Another process seeds.
 * - SEED_PHASE_SCANNING: Looking at the workspace.
 * - SEED_PHASE_LAYERING: Copying the workspace into a layer.
 * - SEED_PHASE_COPYING: Making the folder from the layer.
 * - SEED_PHASE_RECORDING: Recording it.
 * - SEED_PHASE_BUILDING: Writing a template's repositories into a layer.
 */
export type SeedPhase =
  | "SEED_PHASE_UNSPECIFIED"
  | "SEED_PHASE_WAITING"
  | "SEED_PHASE_SCANNING"
  | "SEED_PHASE_LAYERING"
  | "SEED_PHASE_COPYING"
  | "SEED_PHASE_RECORDING"
  | "SEED_PHASE_BUILDING";

/** How far a seeding is. */
export interface SeedProgress {
  /** Bytes copied in this step. */
  bytesDone?: string;
  /** Bytes to copy; 0 when not known yet. */
  bytesTotal?: string;
  /** Files made in this step. */
  filesDone?: string;
  /** Files to make; 0 when not known yet. */
  filesTotal?: string;
  /** The step. */
  phase?: SeedPhase;
}

/** A change, or hunks of it. */
export interface SelectedChange {
  /** Must be the change's ID, if set: the selection fails with STALE_REVISION when the change is another one by now. */
  changeId?: string;
  /** Only these hunks; empty means the whole change. */
  hunkIds?: string[];
  /** The path, absolute in the context. A directory selects what `all` selects below it. */
  path?: string;
  /** Takes path's place when it is not UTF-8. */
  rawPath?: string;
}

/** Changes that are named one by one. */
export interface SelectedChanges {
  /** The changes. */
  changes?: SelectedChange[];
}

/** Some changes. */
export interface Selection {
  /**
   * All that are neither barred, sensitive nor ignored.
   * Only one is set of: all, approved, changes, patch.
   */
  all?: boolean;
  /**
   * All that are approved.
   * Only one is set of: all, approved, changes, patch.
   */
  approved?: boolean;
  /**
   * These.
   * Only one is set of: all, approved, changes, patch.
   */
  changes?: SelectedChanges;
  /**
   * The hunks of this patch: a unified diff, or one by git. Each must be a hunk that there is.
   * Only one is set of: all, approved, changes, patch.
   */
  patch?: string;
  /**
   * The change_id of each change that the caller has seen. If it is not empty, the call fails with STALE_REVISION when the selection has another change,
   * and does nothing. It says so for `all` and for directories, whose changes the caller does not name. It does not matter to `approved` and `patch`, and
   * to changes of which hunk_ids are set: these name what was seen.
   */
  seen?: string[];
}

/** Request of SendInput. */
export interface SendInputRequest {
  /** The bytes; up to 1 MiB. */
  data?: string;
  /** The process. */
  processId?: string;
}

/** Response of SendInput. */
export type SendInputResponse = Record<string, never>;

/** Request of SendSignal. */
export interface SendSignalRequest {
  /** The process. */
  processId?: string;
  /** The number of the signal, as Linux counts: 1 to 64. */
  signal?: number;
}

/** Response of SendSignal. */
export type SendSignalResponse = Record<string, never>;

/** Request of SetLabels. */
export interface SetLabelsRequest {
  /** The context. */
  contextId?: string;
  /** Labels to set. A key has 1 to 63 of a-z 0-9 . _ / -, and begins with a letter or a digit. A value has up to 256 bytes of printable UTF-8. */
  put?: Record<string, string>;
  /** Keys to remove; one may be absent. */
  remove?: string[];
}

/** Response of SetLabels. */
export interface SetLabelsResponse {
  /** All labels that the context has now. */
  labels?: Record<string, string>;
}

/** Request of SetPanelLabels. */
export interface SetPanelLabelsRequest {
  /** The panel: panels/editor. */
  panelId?: string;
  /** Labels to set, as in SetLabelsRequest. */
  put?: Record<string, string>;
  /** Keys to remove; one may be absent. */
  remove?: string[];
}

/** Response of SetPanelLabels. */
export interface SetPanelLabelsResponse {
  /** All labels that the panel has now. */
  labels?: Record<string, string>;
}

/** An open site. */
export interface Site {
  /** The context that it shows. */
  contextId?: string;
  /** When it expires, ns since the epoch. */
  expiresNs?: string;
  /** When it was opened, ns since the epoch. */
  openedNs?: string;
  /** What it serves. */
  options?: SiteOptions;
  /** The panel with which it ends; empty if a host opened it for none. */
  panelId?: string;
  /** Names the site in calls. It does not give access to the site. */
  siteId?: string;
}

/**
 * How a site's URL is made. Browsers isolate the two forms differently.
 * - SITE_FORM_UNSPECIFIED: As SITE_FORM_HOST.
 * - SITE_FORM_HOST: http://CAPABILITY.localhost:PORT/p. The site has an origin of its own: storage, cookies, workers and root-absolute
 * URLs work. For whole apps.
 * - SITE_FORM_PATH: http://files.localhost:PORT/CAPABILITY/p. The browser gives every document an opaque origin (Content-Security-Policy:
 * sandbox): no storage, no cookies, no root-absolute URLs. For untrusted fragments, and as the base of a srcdoc.
 */
export type SiteForm =
  | "SITE_FORM_UNSPECIFIED"
  | "SITE_FORM_HOST"
  | "SITE_FORM_PATH";

/** What a site serves, and how. */
export interface SiteOptions {
  /** Adds a base element with the site's root to HTML documents that have none. */
  base?: boolean;
  /** How the URL is made. */
  form?: SiteForm;
  /** Serves names that begin with a dot. Without it only .well-known is served. */
  hidden?: boolean;
  /**
   * Serves the hub at /__ctxfs/hub.html, for sites in the host form: a page that a parent shows in a frame, and that keeps the site's files in the
   * browser with a service worker, so that pages are shown without the server. A parent can put files of its own before the site's. No other
   * page of the site can register a worker.
   */
  hub?: boolean;
  /** Name of the file that stands for its directory; empty means index.html. */
  index?: string;
  /**
   * Sends Cross-Origin-Embedder-Policy: require-corp. A page of the host form may then use SharedArrayBuffer, and a parent that
   * sends this header itself may show the site. The pages load from other origins only what permits it with
   * Cross-Origin-Resource-Policy or CORS.
   */
  isolate?: boolean;
  /** Directories without an index file are listed: as HTML, or as JSON for clients that accept application/json. */
  listing?: boolean;
  /**
   * Adds a script to HTML documents that reloads them after a change of a file below root. Changed style sheets are
   * replaced without a reload.
   */
  liveReload?: boolean;
  /** Origins that may show the site in a frame, such as http://localhost:5173; at most 16. The site itself always may. */
  parents?: string[];
  /** What pages may load. */
  policy?: SitePolicy;
  /** Directory that the site's "/" shows; empty means the context's root. Links in it may lead to other files of the context. */
  root?: string;
  /**
   * Name of a snapshot of the context. The site shows what the snapshot has, which no change, restore or fork of the context changes. Browsers
   * keep its files for a year, without asking again. The site ends when the snapshot is deleted. Without a name the site shows the context
   * as it is. A site of a snapshot has no live_reload.
   */
  snapshot?: string;
  /** Navigations to a missing path without an extension get the root's index file, with status 200. Other requests get 404. */
  spa?: boolean;
}

/**
 * What the pages of a site may load. Every preset keeps a page out of other sites.
 * - SITE_POLICY_UNSPECIFIED: As SITE_POLICY_OPEN.
 * - SITE_POLICY_OPEN: Anything.
 * - SITE_POLICY_NO_NETWORK: Only files of the site, and data: and blob: URLs. Inline scripts run. Browsers without
 * Connection-Allowlist (Chrome has it from version 152 on) let a page navigate itself elsewhere.
 * - SITE_POLICY_STRICT: As SITE_POLICY_NO_NETWORK, without inline scripts, eval and plug-ins.
 */
export type SitePolicy =
  | "SITE_POLICY_UNSPECIFIED"
  | "SITE_POLICY_OPEN"
  | "SITE_POLICY_NO_NETWORK"
  | "SITE_POLICY_STRICT";

/** What was left out for one reason. */
export interface SkippedEntries {
  /** Entries left out; a directory is one. */
  entries?: string;
  /** Files in them; -1 when not counted. */
  files?: string;
  /** The exclude or the ignore file. */
  reason?: string;
}

/** A snapshot of a context. */
export interface SnapshotInfo {
  /** The space on disk that it takes alone. Extents that the file system shares count in full. */
  bytes?: string;
  /** When it was taken, ns since the epoch. */
  createdNs?: string;
  /** Its name. */
  name?: string;
}

/** Request of Snapshot. */
export interface SnapshotRequest {
  /** The context. */
  contextId?: string;
  /** Name of the snapshot: 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with a dot; two that differ only by case are one. */
  name?: string;
}

/** Response of Snapshot. */
export interface SnapshotResponse {
  /** The snapshot. */
  snapshot?: SnapshotInfo;
}

/** Request of Stage. */
export interface StageRequest {
  /** "Name <email>"; empty means the repository's, or the server's user's. */
  author?: string;
  /**
   * The branch that the commit goes on top of and that Push moves. A branch that does not exist begins at what is checked out. Empty means
   * ctxfs/PANEL/SLUG, with a slug of the message.
   */
  branch?: string;
  /** The context; empty means the panel's own. */
  contextId?: string;
  /**
   * Files and directories whose changes are staged, absolute in the context; empty means all changes of the repository that the
   * ignore files do not exclude. A file that did not change is no error unless none did.
   */
  files?: string[];
  /** The message of the commit, up to 64 KiB. */
  message?: string;
  /** Further files and directories, whose names are not UTF-8. */
  rawFiles?: string[];
  /** The repository; empty means the one that `files` are in. */
  repo?: string;
}

/** Response of Stage. */
export interface StageResponse {
  /** The staged commit with its files and diffs. */
  staged?: StagedCommit;
}

/** A staged commit. */
export interface StagedCommit {
  /** "Name <email>". */
  author?: string;
  /** The branch without refs/heads/. */
  branch?: string;
  /** The ID of the git commit. */
  commit?: string;
  /** The context. */
  contextId?: string;
  /** When it was made, ns since the epoch. */
  createdNs?: string;
  /** Why its record cannot be read; empty if it can. Of a damaged one only id and context_id are set, and hosts alone see it. It can be discarded. */
  damaged?: string;
  /** How many files the commit changes. */
  fileCount?: number;
  /** The files, at most 10000: GitDiff streams all of them. ListStaged leaves their diffs out, and has at most 10000 files in all. */
  files?: GitFile[];
  /** Its ID: 26 characters that cannot be guessed. */
  id?: string;
  /** The message with the trailers that Stage added: Ctxfs-Panel (if a panel staged it) and Ctxfs-Context. */
  message?: string;
  /** The panel that staged it; empty for a host. */
  panelId?: string;
  /** The parent: what the branch named, or would begin at, when it was staged. */
  parent?: string;
  /** Where it was pushed to; not set before. */
  pushed?: PushResult;
  /** The repository. */
  repo?: string;
}

/** Request of Start. */
export interface StartRequest {
  /** What to run. */
  command?: Command;
}

/** Response of Start. */
export interface StartResponse {
  /** The process. */
  process?: Process;
}

/** Attributes of a file, as stat(2) gives them. Times are ns since the epoch, saturating. */
export interface Stat {
  /** Last access. */
  atimeNs?: string;
  /** Creation; 0 when not known. */
  birthtimeNs?: string;
  /** Preferred size of I/O, in bytes. */
  blksize?: string;
  /** Units of 512 bytes on the disk. */
  blocks?: string;
  /** Last change of attributes. */
  ctimeNs?: string;
  /** Device. */
  dev?: string;
  /** Group. */
  gid?: number;
  /** Inode number. */
  ino?: string;
  /** Full st_mode: type and permission bits. */
  mode?: number;
  /** Last change of content. */
  mtimeNs?: string;
  /** Names of the file. */
  nlink?: string;
  /** Device it stands for. */
  rdev?: string;
  /** Bytes. */
  size?: string;
  /** What it is. */
  type?: FileType;
  /** Owner. */
  uid?: number;
}

/** Request of Stat. */
export interface StatRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Stat. */
export interface StatResponse {
  /** The etag that the attributes belong to. */
  etag?: string;
  /** The attributes. */
  stat?: Stat;
}

/** Request of Statfs. */
export interface StatfsRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Statfs. */
export interface StatfsResponse {
  /** Free blocks for ordinary users. */
  bavail?: string;
  /** Free blocks. */
  bfree?: string;
  /** All blocks. */
  blocks?: string;
  /** Block size in bytes. */
  bsize?: string;
  /** Free inodes. */
  ffree?: string;
  /** All inodes. */
  files?: string;
  /** Magic number of the file system. */
  type?: string;
}

/** An error, as google.rpc.Status. */
export interface Status {
  /** The gRPC code, such as 5 for NOT_FOUND. */
  code: number;
  /** A google.rpc.ErrorInfo of the domain ctxfs: its reason is the errno's name, and its metadata have errno, syscall, path, dest and hint. A google.rpc.RetryInfo says when to call again. */
  details?: Any[];
  /** The error for people: ENOENT: no such file or directory, open '/a.txt'. */
  message: string;
}

/** The last line of a stream that has failed. */
export interface StreamError {
  error: Status;
}

/** Request of SubmitReview. */
export interface SubmitReviewRequest {
  /** The context. */
  contextId?: string;
  /** What the reviewer should know, at most 64 KiB. */
  message?: string;
  /** One line, at most 200 bytes. */
  title?: string;
}

/** Response of SubmitReview. */
export interface SubmitReviewResponse {
  /** The revision that was submitted. */
  revision?: string;
  /** The counts. */
  summary?: ChangesSummary;
}

/** Request of Symlink. */
export interface SymlinkRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** "*": only if nothing has this name; otherwise ABORTED (EEXIST). See FsService on conditions. */
  ifNoneMatch?: string;
  /** The link to make. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** Takes target's place when it is not UTF-8; both set is EINVAL. */
  rawTarget?: string;
  /** What it points to; an absolute target means the context's root. */
  target?: string;
}

/** Response of Symlink. */
export interface SymlinkResponse {
  /** The etag that what was made has. */
  etag?: string;
}

/** A repository at a commit. */
export interface TemplateDep {
  /** The commit that the ref means, in hex. */
  commit?: string;
  /** Which templates say so, the oldest ancestor's first. */
  from?: TemplatePosition[];
  /** Where it is put, from the context's root. */
  path?: string;
  /** The ref as the template has it; HEAD when it has none. */
  ref?: string;
  /** The repository as the template has it. */
  repo?: string;
  /** The repository: "workspace:packages/tools" or "git:https://host/packages/tools". */
  source?: string;
}

/** A place in a template. */
export interface TemplatePosition {
  /** Column, from 1; 0 when it is not known. */
  column?: number;
  /** Line, from 1. */
  line?: number;
  /** The file, from the workspace's root. */
  template?: string;
}

/** How far a build is. */
export interface TemplateProgress {
  /** Their size. */
  bytes?: string;
  /** The path that is being written; empty while another process builds. */
  dep?: string;
  /** Repositories that are complete. */
  depsDone?: number;
  /** Repositories in all. */
  depsTotal?: number;
  /** Files and links written. */
  files?: string;
}

/** The template is built. */
export interface TemplateReady {
  /** This call built it; it was not there before. */
  built?: boolean;
  /** How long the call took. */
  durationMs?: string;
  /** The template. */
  template?: BuiltTemplate;
}

/** A change of a text: of old_text, or of the lines from start_line to end_line. */
export interface TextEdit {
  /** Replaces every occurrence of old_text. */
  all?: boolean;
  /**
   * The last line to replace. start_line - 1 replaces none: new_text is inserted before start_line. The last of the new lines gets the end
   * that the last replaced line has, if any.
   */
  endLine?: string;
  /** The text that takes its place. */
  newText?: string;
  /**
   * The text to replace, byte for byte. It must occur exactly once, unless all is set. In a file whose lines all end in CRLF, a line
   * feed alone stands for one.
   */
  oldText?: string;
  /** Instead of old_text: the first line to replace, from 1. */
  startLine?: string;
}

/** Request of Truncate. */
export interface TruncateRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Only if the file has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** New size in bytes; absent means 0. */
  len?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Truncate. */
export interface TruncateResponse {
  /** The etag that the file has now. */
  etag?: string;
}

/** Request of Undo. */
export interface UndoRequest {
  /**
   * If set, the commits of the entry are undone as well: each repository gets a further commit, on top of what it has by now, that takes back what the
   * entry's commit changed. Its branch is the entry's, so branch must be empty. The message may be empty.
   */
  commit?: CommitOptions;
  /** Does nothing, and says what would be done. */
  dryRun?: boolean;
  /** The entry. */
  journalId?: string;
}

/** Response of Undo. */
export interface UndoResponse {
  /** The further commits, by repository. */
  commits?: Commit[];
  /** What was done, by path. */
  files?: AppliedFile[];
  /** The new entry; 0 for a dry run. */
  journalId?: string;
  /** What a command changed and its entry does not have, so that it is not taken back: new directories that the ignore files exclude. */
  leftOut?: LeftOut[];
  /** How many were left out. */
  leftOutCount?: number;
}

/** Request of Unlink. */
export interface UnlinkRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Only if the name itself has this etag, which Lstat returns; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Unlink. */
export type UnlinkResponse = Record<string, never>;

/** Request of Utimes. */
export interface UtimesRequest {
  /** Access time, ns since the epoch; required. */
  atimeNs?: string;
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** Only if the file has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** Modification time, ns since the epoch; required. */
  mtimeNs?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of Utimes. */
export interface UtimesResponse {
  /** The etag that the file has now. */
  etag?: string;
}

/**
 * A version of a file.
 * - VERSION_UNSPECIFIED: Not known.
 * - VERSION_BASE: The base's.
 * - VERSION_CONTEXT: The context's.
 * - VERSION_WORKSPACE: The workspace's; for reviewers. A panel with PANEL_RIGHT_REVIEW reads it at the paths that the context changed, ignored ones left out: EACCES elsewhere.
 * - VERSION_APPROVED: The base with the approved changes.
 * - VERSION_MERGED: For hosts: the three versions of an unresolved conflict, merged with markers around the lines that conflict.
 * - VERSION_CONFLICT_CONTEXT: For hosts: the context's version of an unresolved conflict, as it was when Rebase recorded it.
 * - VERSION_CONFLICT_WORKSPACE: For hosts: the workspace's version of an unresolved conflict, as it was when Rebase recorded it.
 */
export type Version =
  | "VERSION_UNSPECIFIED"
  | "VERSION_BASE"
  | "VERSION_CONTEXT"
  | "VERSION_WORKSPACE"
  | "VERSION_APPROVED"
  | "VERSION_MERGED"
  | "VERSION_CONFLICT_CONTEXT"
  | "VERSION_CONFLICT_WORKSPACE";

/** Request of Wait. */
export interface WaitRequest {
  /** The process. */
  processId?: string;
}

/** Response of Wait. */
export interface WaitResponse {
  /** The process, which has ended. */
  process?: Process;
}

/** Request of WatchChanges. */
export interface WatchChangesRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** The cursor of the last message that the caller has dealt with. Empty begins at the present end of the feed. */
  cursor?: string;
  /** Whether the call continues after ready; unset means true. With false it ends there. */
  follow?: boolean;
  /** Only changes that may be about this path, or about what is below it; empty means all. It need not exist, and links in it are not followed. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
}

/** Response of WatchChanges. */
export interface WatchChangesResponse {
  /**
   * A call changed something.
   * Only one is set of: ready, change, reset, keepalive.
   */
  change?: FeedChange;
  /**
   * Nothing was sent for 30 s; the feed lives.
   * Only one is set of: ready, change, reset, keepalive.
   */
  keepalive?: FeedKeepalive;
  /**
   * All changes up to now were sent. It comes once.
   * Only one is set of: ready, change, reset, keepalive.
   */
  ready?: FeedReady;
  /**
   * Changes are missing: read everything again. The feed continues after it.
   * Only one is set of: ready, change, reset, keepalive.
   */
  reset?: FeedReset;
}

/** A change, in the terms of fs.watch. */
export interface WatchEvent {
  /** "rename" when a name came or went, "change" when content or attributes changed. */
  eventType?: string;
  /** Path relative to what is watched; of a watched file its name. */
  filename?: string;
  /** Takes filename's place when it is not UTF-8; both set is EINVAL. */
  rawFilename?: string;
}

/** The watch lives. */
export type WatchKeepalive = Record<string, never>;

/** Request of WatchMetrics. */
export type WatchMetricsRequest = Record<string, never>;

/** Response of WatchMetrics. */
export interface WatchMetricsResponse {
  /**
   * The samples of up to an hour before the call. It is the first message.
   * Only one is set of: history, sample.
   */
  history?: MetricsHistory;
  /**
   * A new sample.
   * Only one is set of: history, sample.
   */
  sample?: MetricsSample;
}

/** Events were lost. */
export type WatchOverflow = Record<string, never>;

/** The watch is in place. */
export type WatchReady = Record<string, never>;

/** Request of Watch. */
export interface WatchRequest {
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /** A file or a directory. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /** Watches what is below as well, new directories included. */
  recursive?: boolean;
}

/** Response of Watch. */
export interface WatchResponse {
  /**
   * Something changed.
   * Only one is set of: ready, event, overflow, keepalive.
   */
  event?: WatchEvent;
  /**
   * Nothing happened for 30 s; the watch lives.
   * Only one is set of: ready, event, overflow, keepalive.
   */
  keepalive?: WatchKeepalive;
  /**
   * Events were lost because the caller reads too slowly: list again.
   * Only one is set of: ready, event, overflow, keepalive.
   */
  overflow?: WatchOverflow;
  /**
   * The watch is in place.
   * Only one is set of: ready, event, overflow, keepalive.
   */
  ready?: WatchReady;
}

/** Request of WatchReview. */
export interface WatchReviewRequest {
  /** The context. */
  contextId?: string;
}

/** Response of WatchReview. */
export interface WatchReviewResponse {
  /** What happened. */
  event?: ReviewEvent;
  /** The journal entry of an Apply, a Discard, an Undo, a Rebase or a ResolveConflict. */
  journalId?: string;
  /** The revision after it, if it is known. */
  revision?: string;
}

/** Request of WriteFile. */
export interface WriteFileRequest {
  /** The file changes whole or not at all, and is on the disk before the answer; only with flag "w" or "wx". */
  atomic?: boolean;
  /** Context to work in; empty means the caller's own panel's. */
  contextId?: string;
  /**
   * As bytes; no encoding applies.
   * Only one is set of: data, text.
   */
  data?: string;
  /** Node's name of the encoding in which text becomes bytes; empty means utf8. Unknown is EINVAL. */
  encoding?: string;
  /** Writes to this handle from its position instead of a path. */
  fd?: number;
  /**
   * Node's string: r, r+, rs, rs+, sr, sr+, w, wx, xw, w+, wx+, xw+, a, ax, xa, a+, ax+, xa+, as, sa, as+, sa+.
   * Only one is set of: flag, flagNumber.
   */
  flag?: string;
  /**
   * open(2) flags by their Linux numbers.
   * Only one is set of: flag, flagNumber.
   */
  flagNumber?: number;
  /** Flushes the content to the disk before answering. */
  flush?: boolean;
  /** Only if the file has this etag; otherwise ABORTED (ESTALE). See FsService on conditions. */
  ifMatch?: string;
  /** "*": only if nothing has this name; otherwise ABORTED (EEXIST). See FsService on conditions. */
  ifNoneMatch?: string;
  /**
   * As a number: 420 is 0o644.
   * Only one is set of: mode, modeOctal.
   */
  mode?: number;
  /**
   * As an octal string: "0644".
   * Only one is set of: mode, modeOctal.
   */
  modeOctal?: string;
  /** Virtual path from the context's root; a missing leading slash means the same. */
  path?: string;
  /** Takes path's place when it is not UTF-8; both set is EINVAL. */
  rawPath?: string;
  /**
   * As text in the encoding.
   * Only one is set of: data, text.
   */
  text?: string;
}

/** Response of WriteFile. */
export interface WriteFileResponse {
  /** Bytes written. */
  bytesWritten?: string;
  /** The etag that the file has with this content; empty when it was written by handle. */
  etag?: string;
}

/** Request of Write. */
export interface WriteRequest {
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /**
   * As bytes; no encoding applies.
   * Only one is set of: data, text.
   */
  data?: string;
  /** Node's name of the encoding in which text becomes bytes; empty means utf8. Unknown is EINVAL. */
  encoding?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
  /** Where to start, in bytes from the beginning; absent or -1 means the handle's own position, which then moves. */
  position?: string;
  /**
   * As text in the encoding.
   * Only one is set of: data, text.
   */
  text?: string;
}

/** Response of Write. */
export interface WriteResponse {
  /** Bytes written. */
  bytesWritten?: string;
  /** The handle's own position afterwards, when the write used it: of a file opened to append, the end of what was written. */
  position?: string;
}

/** Request of Writev. */
export interface WritevRequest {
  /** The buffers. */
  buffers?: string[];
  /** Context of the handle; empty, or EBADF when the handle is not of it. */
  contextId?: string;
  /** Handle from Open; another owner's, a closed or an idled-out one is EBADF. */
  fd?: number;
  /** Where to start, in bytes from the beginning; absent or -1 means the handle's own position, which then moves. */
  position?: string;
}

/** Response of Writev. */
export interface WritevResponse {
  /** Bytes written in all. */
  bytesWritten?: string;
}

/** A zone of a context. */
export interface Zone {
  /** Sum of the sizes of its files; -1 if ListZones was not asked to measure. */
  bytes?: string;
  /** Its directory on the server. For hosts only. */
  dir?: string;
  /** What it is seeded from. */
  from?: string[];
  /** How long gc keeps its files, in ms; 0 means always. */
  keepMs?: string;
  /** How many bytes it may hold; 0 means no limit but the context's. */
  maxBytes?: string;
  /** Its files are never changes. */
  neverCommit?: boolean;
  /** Its path; "/" for a context without zones. */
  path?: string;
  /** Mutations fail with EROFS. */
  readOnly?: boolean;
}

/** Zones of a context. */
export interface ZoneLayout {
  /** How they are kept. */
  mode?: ZoneMode;
  /** The zones. */
  zones?: ZoneSpec[];
}

/**
 * How the zones of a context are kept.
 * - ZONE_MODE_UNSPECIFIED: No zones: the context is one folder.
 * - ZONE_MODE_SANDBOXED: Directories of the context's own folder.
 * - ZONE_MODE_DIRECT: Real directories of the workspace, or below --zone-dir.
 */
export type ZoneMode =
  | "ZONE_MODE_UNSPECIFIED"
  | "ZONE_MODE_SANDBOXED"
  | "ZONE_MODE_DIRECT";

/** A zone of a layout. */
export interface ZoneSpec {
  /**
   * DIRECT: the directory, relative to the workspace, or absolute and below --zone-dir. It has to exist. EINVAL if it is that of another zone, or
   * one is in the other.
   */
  dir?: string;
  /**
   * SANDBOXED: what the zone is seeded from: "repositories" for all repositories of the workspace, or folders of the workspace, as in
   * OpenPanelRequest.seed_from. At most one zone has it. Empty means that the zone starts empty.
   */
  from?: string[];
  /** `ctxfs gc` removes files of a zone with never_commit that were not modified for so long, in ms; 0 means that it keeps them. */
  keepMs?: string;
  /** How many bytes it may hold; 0 means no limit but the context's. Only in SANDBOXED zones. */
  maxBytes?: string;
  /** Its files are never changes: they are in no status, diff, review or commit. */
  neverCommit?: boolean;
  /** Its path: one name, such as "/workspace". */
  path?: string;
  /** Mutations fail with EROFS. */
  readOnly?: boolean;
}

/** The methods that answer once. */
export interface Calls {
  "ConsoleService/EndConsole": { request: EndConsoleRequest; response: EndConsoleResponse };
  "ConsoleService/OpenConsole": { request: OpenConsoleRequest; response: OpenConsoleResponse };
  "ContextService/CollectGarbage": { request: CollectGarbageRequest; response: CollectGarbageResponse };
  "ContextService/DeleteContext": { request: DeleteContextRequest; response: DeleteContextResponse };
  "ContextService/DeleteSnapshot": { request: DeleteSnapshotRequest; response: DeleteSnapshotResponse };
  "ContextService/Fork": { request: ForkRequest; response: ForkResponse };
  "ContextService/GetContext": { request: GetContextRequest; response: GetContextResponse };
  "ContextService/GetInfo": { request: GetInfoRequest; response: GetInfoResponse };
  "ContextService/ListContexts": { request: ListContextsRequest; response: ListContextsResponse };
  "ContextService/ListSnapshots": { request: ListSnapshotsRequest; response: ListSnapshotsResponse };
  "ContextService/PlanSeed": { request: PlanSeedRequest; response: PlanSeedResponse };
  "ContextService/Restore": { request: RestoreRequest; response: RestoreResponse };
  "ContextService/SetLabels": { request: SetLabelsRequest; response: SetLabelsResponse };
  "ContextService/Snapshot": { request: SnapshotRequest; response: SnapshotResponse };
  "ExecService/CloseInput": { request: CloseInputRequest; response: CloseInputResponse };
  "ExecService/ExplainExec": { request: ExplainExecRequest; response: ExplainExecResponse };
  "ExecService/GetProcess": { request: GetProcessRequest; response: GetProcessResponse };
  "ExecService/Kill": { request: KillRequest; response: KillResponse };
  "ExecService/ListProcesses": { request: ListProcessesRequest; response: ListProcessesResponse };
  "ExecService/ListProfiles": { request: ListProfilesRequest; response: ListProfilesResponse };
  "ExecService/RemoveProcess": { request: RemoveProcessRequest; response: RemoveProcessResponse };
  "ExecService/Resize": { request: ResizeRequest; response: ResizeResponse };
  "ExecService/SendInput": { request: SendInputRequest; response: SendInputResponse };
  "ExecService/SendSignal": { request: SendSignalRequest; response: SendSignalResponse };
  "ExecService/Start": { request: StartRequest; response: StartResponse };
  "ExecService/Wait": { request: WaitRequest; response: WaitResponse };
  "FsService/Access": { request: AccessRequest; response: AccessResponse };
  "FsService/AppendFile": { request: AppendFileRequest; response: AppendFileResponse };
  "FsService/Batch": { request: BatchRequest; response: BatchResponse };
  "FsService/Chmod": { request: ChmodRequest; response: ChmodResponse };
  "FsService/Chown": { request: ChownRequest; response: ChownResponse };
  "FsService/Close": { request: CloseRequest; response: CloseResponse };
  "FsService/CopyFile": { request: CopyFileRequest; response: CopyFileResponse };
  "FsService/Cp": { request: CpRequest; response: CpResponse };
  "FsService/EditFile": { request: EditFileRequest; response: EditFileResponse };
  "FsService/Exists": { request: ExistsRequest; response: ExistsResponse };
  "FsService/Extract": { request: ExtractRequest; response: ExtractResponse };
  "FsService/Fchmod": { request: FchmodRequest; response: FchmodResponse };
  "FsService/Fchown": { request: FchownRequest; response: FchownResponse };
  "FsService/Fdatasync": { request: FdatasyncRequest; response: FdatasyncResponse };
  "FsService/Fstat": { request: FstatRequest; response: FstatResponse };
  "FsService/Fsync": { request: FsyncRequest; response: FsyncResponse };
  "FsService/Ftruncate": { request: FtruncateRequest; response: FtruncateResponse };
  "FsService/Futimes": { request: FutimesRequest; response: FutimesResponse };
  "FsService/Lchown": { request: LchownRequest; response: LchownResponse };
  "FsService/Link": { request: LinkRequest; response: LinkResponse };
  "FsService/ListHandles": { request: ListHandlesRequest; response: ListHandlesResponse };
  "FsService/Lstat": { request: LstatRequest; response: LstatResponse };
  "FsService/Lutimes": { request: LutimesRequest; response: LutimesResponse };
  "FsService/Mkdir": { request: MkdirRequest; response: MkdirResponse };
  "FsService/Mkdtemp": { request: MkdtempRequest; response: MkdtempResponse };
  "FsService/Open": { request: OpenRequest; response: OpenResponse };
  "FsService/Read": { request: ReadRequest; response: ReadResponse };
  "FsService/ReadFile": { request: ReadFileRequest; response: ReadFileResponse };
  "FsService/Readdir": { request: ReaddirRequest; response: ReaddirResponse };
  "FsService/Readlink": { request: ReadlinkRequest; response: ReadlinkResponse };
  "FsService/Readv": { request: ReadvRequest; response: ReadvResponse };
  "FsService/Realpath": { request: RealpathRequest; response: RealpathResponse };
  "FsService/Rename": { request: RenameRequest; response: RenameResponse };
  "FsService/Rm": { request: RmRequest; response: RmResponse };
  "FsService/Rmdir": { request: RmdirRequest; response: RmdirResponse };
  "FsService/Stat": { request: StatRequest; response: StatResponse };
  "FsService/Statfs": { request: StatfsRequest; response: StatfsResponse };
  "FsService/Symlink": { request: SymlinkRequest; response: SymlinkResponse };
  "FsService/Truncate": { request: TruncateRequest; response: TruncateResponse };
  "FsService/Unlink": { request: UnlinkRequest; response: UnlinkResponse };
  "FsService/Utimes": { request: UtimesRequest; response: UtimesResponse };
  "FsService/Write": { request: WriteRequest; response: WriteResponse };
  "FsService/WriteFile": { request: WriteFileRequest; response: WriteFileResponse };
  "FsService/Writev": { request: WritevRequest; response: WritevResponse };
  "GatewayService/CloseSite": { request: CloseSiteRequest; response: CloseSiteResponse };
  "GatewayService/ListSites": { request: ListSitesRequest; response: ListSitesResponse };
  "GatewayService/OpenSite": { request: OpenSiteRequest; response: OpenSiteResponse };
  "GatewayService/RenewSite": { request: RenewSiteRequest; response: RenewSiteResponse };
  "GitService/DiscardStaged": { request: DiscardStagedRequest; response: DiscardStagedResponse };
  "GitService/GetStaged": { request: GetStagedRequest; response: GetStagedResponse };
  "GitService/ListBranches": { request: ListBranchesRequest; response: ListBranchesResponse };
  "GitService/ListRepositories": { request: ListRepositoriesRequest; response: ListRepositoriesResponse };
  "GitService/ListStaged": { request: ListStagedRequest; response: ListStagedResponse };
  "GitService/Stage": { request: StageRequest; response: StageResponse };
  "PanelService/ClosePanel": { request: ClosePanelRequest; response: ClosePanelResponse };
  "PanelService/ListPanels": { request: ListPanelsRequest; response: ListPanelsResponse };
  "PanelService/OpenPanel": { request: OpenPanelRequest; response: OpenPanelResponse };
  "PanelService/RenewToken": { request: RenewTokenRequest; response: RenewTokenResponse };
  "PanelService/SetPanelLabels": { request: SetPanelLabelsRequest; response: SetPanelLabelsResponse };
  "ReviewService/Apply": { request: ApplyRequest; response: ApplyResponse };
  "ReviewService/Decide": { request: DecideRequest; response: DecideResponse };
  "ReviewService/Discard": { request: DiscardRequest; response: DiscardResponse };
  "ReviewService/GetReview": { request: GetReviewRequest; response: GetReviewResponse };
  "ReviewService/ListConflicts": { request: ListConflictsRequest; response: ListConflictsResponse };
  "ReviewService/ListJournal": { request: ListJournalRequest; response: ListJournalResponse };
  "ReviewService/Rebase": { request: RebaseRequest; response: RebaseResponse };
  "ReviewService/ResolveConflict": { request: ResolveConflictRequest; response: ResolveConflictResponse };
  "ReviewService/SubmitReview": { request: SubmitReviewRequest; response: SubmitReviewResponse };
  "ReviewService/Undo": { request: UndoRequest; response: UndoResponse };
  "TemplateService/ExplainTemplate": { request: ExplainTemplateRequest; response: ExplainTemplateResponse };
  "TemplateService/ListTemplates": { request: ListTemplatesRequest; response: ListTemplatesResponse };
  "ZoneService/ClearZone": { request: ClearZoneRequest; response: ClearZoneResponse };
  "ZoneService/ExplainZones": { request: ExplainZonesRequest; response: ExplainZonesResponse };
  "ZoneService/ListZones": { request: ListZonesRequest; response: ListZonesResponse };
  "ZoneService/ResolvePath": { request: ResolvePathRequest; response: ResolvePathResponse };
}

/** The methods that answer with a stream. */
export interface Streams {
  "ConsoleService/ReadAudit": { request: ReadAuditRequest; response: ReadAuditResponse };
  "ConsoleService/WatchMetrics": { request: WatchMetricsRequest; response: WatchMetricsResponse };
  "ContextService/EnsureContext": { request: EnsureContextRequest; response: EnsureContextResponse };
  "ExecService/FollowOutput": { request: FollowOutputRequest; response: FollowOutputResponse };
  "ExecService/Run": { request: RunRequest; response: RunResponse };
  "FsService/Export": { request: ExportRequest; response: ExportResponse };
  "FsService/Glob": { request: GlobRequest; response: GlobResponse };
  "FsService/Grep": { request: GrepRequest; response: GrepResponse };
  "FsService/Hold": { request: HoldRequest; response: HoldResponse };
  "FsService/Opendir": { request: OpendirRequest; response: OpendirResponse };
  "FsService/ReadStream": { request: ReadStreamRequest; response: ReadStreamResponse };
  "FsService/Watch": { request: WatchRequest; response: WatchResponse };
  "FsService/WatchChanges": { request: WatchChangesRequest; response: WatchChangesResponse };
  "GitService/GitDiff": { request: GitDiffRequest; response: GitDiffResponse };
  "GitService/GitStatus": { request: GitStatusRequest; response: GitStatusResponse };
  "GitService/Pull": { request: PullRequest; response: PullResponse };
  "GitService/Push": { request: PushRequest; response: PushResponse };
  "ReviewService/ApplyChecked": { request: ApplyCheckedRequest; response: ApplyCheckedResponse };
  "ReviewService/GetDiff": { request: GetDiffRequest; response: GetDiffResponse };
  "ReviewService/ListChanges": { request: ListChangesRequest; response: ListChangesResponse };
  "ReviewService/ReadVersion": { request: ReadVersionRequest; response: ReadVersionResponse };
  "ReviewService/WatchReview": { request: WatchReviewRequest; response: WatchReviewResponse };
  "TemplateService/BuildTemplate": { request: BuildTemplateRequest; response: BuildTemplateResponse };
}
