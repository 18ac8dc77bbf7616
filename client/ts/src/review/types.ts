/** What reviews take and give. docs/how-to/review.md explains the words. */

/** How changes are counted. */
export interface ChangeCounts {
  /** Names what the context holds against its base. Any other change has another revision. */
  revision: string;
  /** Changes that were listed. */
  count: number;
  addedLines: number;
  removedLines: number;
  /** How many of the paths the workspace has changed since; 0 for a panel's own changes. */
  drifted: number;
  /** How many are approved, and how many rejected, as a whole or in part. */
  approved: number;
  rejected: number;
}

/** A path of a context. */
export interface ReviewPath {
  /** Absolute in the context. Bytes that are not UTF-8 are shown as U+FFFD. */
  path: string;
  /** The path's bytes, if they are not UTF-8. */
  rawPath?: Buffer;
}

/** What a reviewer decided. "pending" is nothing yet. */
export type Decision = "pending" | "approved" | "rejected";

/** A version of a file. */
export interface FileVersion {
  type: "file" | "symlink" | "other";
  /** Permission bits. */
  mode: number;
  /** Bytes of the content, or of the link's target. */
  size: number;
  /**
   * Of the content or of the link's target, in hex. "" for a new ignored directory and for what can never be applied. A content with
   * a block of 4 KiB of zeros beyond its first 64 MiB has another name, which depends on its bytes alone.
   */
  sha256: string;
}

/** A difference between the base of a context and what it holds. */
export interface Change extends ReviewPath {
  /** Names the change: any other content or mode has another ID. */
  changeId: string;
  kind: "unknown" | "added" | "modified" | "deleted" | "type-changed" | "mode-changed";
  /** How its content can be shown. "tree" is a new ignored directory with all that it holds. */
  content: "none" | "text" | "binary" | "symlink" | "too-large" | "tree";
  before: FileVersion | undefined;
  after: FileVersion | undefined;
  /** The deleted file that has exactly this content; "" if there is none. */
  renamedFrom: string;
  /** The git repository that it belongs to; "" outside of repositories. */
  repository: string;
  addedLines: number;
  removedLines: number;
  /** How many hunks there are, and how many of them are approved and rejected. */
  hunks: number;
  approvedHunks: number;
  rejectedHunks: number;
  /** The decision on the whole change. */
  decision: Decision;
  /** The reviewer's remark. */
  comment: string;
  /** "all" does not select it: ignored by the workspace, or sensitive, which says why. */
  ignored: boolean;
  sensitive: readonly string[];
  /** Why it can never be applied; "" if it can. */
  barred: string;
  /** The workspace has changed it since; false for a panel's own changes. */
  drifted: boolean;
  /** Another program was writing the file. It cannot be decided on. */
  unstable: boolean;
  lineEndingsOnly: boolean;
  /** What a "tree" holds. */
  treeEntries: number;
  treeBytes: number;
}

/** The changes of a context. */
export interface Changes extends ChangeCounts {
  changes: Change[];
}

/** A line of a hunk. */
export interface DiffLine {
  kind: "context" | "removed" | "added";
  /** Without the newline. Bytes that are not UTF-8 are shown as U+FFFD. */
  text: string;
  /** It is the last line and has no newline. */
  noNewline: boolean;
  /** Only the first 4 KiB are here: readVersion returns all. */
  cut: boolean;
}

/** A run of changed lines, with lines of context around it. */
export interface Hunk {
  /** Names the hunk, by its content and not by its line numbers. "" for a deletion, which is decided as a whole. */
  hunkId: string;
  /** Where it removes and adds lines, from 1, and how many. */
  beforeStart: number;
  beforeLines: number;
  afterStart: number;
  afterLines: number;
  lines: DiffLine[];
  decision: Decision;
  comment: string;
}

/** A change with its hunks. */
export interface FileDiff {
  change: Change;
  hunks: Hunk[];
}

/** How far a review is. */
export interface ReviewStatus extends ChangeCounts {
  /** "none" is a context without changes. */
  state: "none" | "open" | "submitted" | "partly-decided" | "decided";
  /** What submit said last, and when; undefined if it was never called. */
  submitted: { title: string; message: string; revision: string; at: Date } | undefined;
}

/** A step of a review. After "overflow", which is sent to a slow program, steps are missing: ask for the state. */
export interface ReviewStep {
  event: "started" | "submitted" | "decided" | "applied" | "discarded" | "undone" | "rebased" | "overflow";
  /** The journal entry of what was applied, discarded, undone or rebased; 0 for others. */
  journalId: number;
}

/** What apply or undo did to a file of the workspace. */
export interface AppliedFile extends ReviewPath {
  kind: "unchanged" | "created" | "written" | "removed";
  /** The workspace's own changes of the file were kept. */
  merged: boolean;
}

/** What apply or undo did. */
export interface Applied {
  /** The journal entry, for undo; 0 for a dry run. */
  journalId: number;
  files: AppliedFile[];
  /** The commits that were made, one for each repository; none without a target that commits. */
  commits: Commit[];
  /** Changes that "all", or a directory, left out of the selection: the first 100. */
  leftOut: LeftOut[];
  /** How many were left out. */
  leftOutCount: number;
}

/** A change that "all", or a directory, does not select, or selects without the hunks that were rejected. */
export interface LeftOut extends ReviewPath {
  /** "ignored", "unstable", "rejected", or why the change is sensitive or barred. */
  reason: string;
  /** How many of its hunks are not selected. 0 means that nothing of the change is selected. */
  hunks: number;
}

/** A commit that apply made. */
export interface Commit {
  /** Absolute in the context; "/" is the workspace's own. */
  repository: string;
  /** In hex; "" in a dry run. */
  commitId: string;
  /** What it moved: "refs/heads/NAME", or "HEAD" if that was detached. */
  ref: string;
  /** "" for the first commit. */
  parent: string;
  /** "Name <email>". */
  author: string;
  committer: string;
}

/** What a context can be compared with instead of its base: the workspace (for reviewers), a revision that submit returned, a snapshot, or another context. */
export type Against = "workspace" | { revision: string } | { snapshot: string } | { contextId: string };

/** A conflict that rebase recorded, and that is not resolved. */
export interface RecordedConflict extends Conflict {
  /** The versions of the three sides; undefined where there was no file. */
  base: FileVersion | undefined;
  context: FileVersion | undefined;
  workspace: FileVersion | undefined;
  /** The context's file has conflict markers. */
  markers: boolean;
  /** When it was recorded; undefined in a dry run. */
  at: Date | undefined;
}

/** What rebase did. */
export interface Rebased {
  /** The journal entry, for undo; 0 for a dry run, and if the workspace changed nothing. */
  journalId: number;
  /** What was done to the context. Files with a conflict are in conflicts only. */
  files: AppliedFile[];
  conflicts: RecordedConflict[];
  /** Decisions that were taken back, because what they were about is not there any more. No hunk means the whole change. */
  stale: (ReviewPath & { hunkIds: string[] })[];
}

/** Something that was done, and can be undone. */
export interface JournalEntry extends Applied {
  kind: "unknown" | "apply" | "discard" | "undo" | "rebase" | "resolve" | "exec" | "pull" | "push";
  contextId: string;
  /** The panel that did it, or "host". */
  actor: string;
  at: Date;
  /** The entry that it undid, and the one that undid it; 0 if there is none. */
  undoes: number;
  undoneBy: number;
  /** The command line, if a command did it; "" otherwise. */
  command: string;
}

/** The files that a refusal is about. */
export interface RefusedFiles {
  /** As many of them as fit into an error. */
  files: Conflict[];
  /** How many there are. */
  fileCount: number;
  /** The call of the API that lists them all, such as "ReviewService/ListChanges"; "" if files has them all. */
  listedBy: string;
}

/** A file that could not be merged, or that a refusal is about for another reason: its kind is "unknown" then. */
export interface Conflict extends ReviewPath {
  kind: "unknown" | "content" | "modify-delete" | "delete-modify" | "add-add" | "binary" | "type" | "directory-in-the-way" | "changed-meanwhile";
}

/** A change that a program selects: a path, a Change as changes() gives it, or hunks of one. A directory selects what is below it. */
export type SelectedChange = string | { path: string; rawPath?: Uint8Array; changeId?: string; hunkIds?: readonly string[] };

/** Some changes. "all" is all that are neither barred, sensitive nor ignored; a patch selects its hunks, which must exist. */
export type Selection = "all" | "approved" | readonly SelectedChange[] | { patch: string | Uint8Array };
