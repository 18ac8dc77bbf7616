import { fromBinary } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import { asBuffer, nameOf, textBytes } from "../fs/bytes.js";
import { FileType } from "../gen/ctxfs/v1/fs_types_pb.js";
import * as pb from "../gen/ctxfs/v1/review_pb.js";
import type * as own from "./types.js";

/** The words for the numbers of an enum. */
export type Words<N extends number, W> = Readonly<Record<N, W>>;

const decisions: Words<pb.Decision, own.Decision> = {
  [pb.Decision.UNSPECIFIED]: "pending", [pb.Decision.APPROVED]: "approved", [pb.Decision.REJECTED]: "rejected",
};
/** The numbers of decisions. */
export const decisionNumbers = { pending: pb.Decision.UNSPECIFIED, approved: pb.Decision.APPROVED, rejected: pb.Decision.REJECTED } as const;
const changeKinds: Words<pb.ChangeKind, own.Change["kind"]> = {
  [pb.ChangeKind.UNSPECIFIED]: "unknown", [pb.ChangeKind.ADDED]: "added", [pb.ChangeKind.MODIFIED]: "modified", [pb.ChangeKind.DELETED]: "deleted",
  [pb.ChangeKind.TYPE_CHANGED]: "type-changed", [pb.ChangeKind.MODE_CHANGED]: "mode-changed",
};
const contentKinds: Words<pb.ContentKind, own.Change["content"]> = {
  [pb.ContentKind.UNSPECIFIED]: "none", [pb.ContentKind.TEXT]: "text", [pb.ContentKind.BINARY]: "binary", [pb.ContentKind.SYMLINK]: "symlink",
  [pb.ContentKind.TOO_LARGE]: "too-large", [pb.ContentKind.TREE]: "tree",
};
const lineKinds: Words<pb.LineKind, own.DiffLine["kind"]> = {
  [pb.LineKind.UNSPECIFIED]: "context", [pb.LineKind.REMOVED]: "removed", [pb.LineKind.ADDED]: "added",
};
const states: Words<pb.ReviewState, own.ReviewStatus["state"]> = {
  [pb.ReviewState.UNSPECIFIED]: "none", [pb.ReviewState.OPEN]: "open", [pb.ReviewState.SUBMITTED]: "submitted",
  [pb.ReviewState.PARTLY_DECIDED]: "partly-decided", [pb.ReviewState.DECIDED]: "decided",
};
const events: Words<pb.ReviewEvent, own.ReviewStep["event"]> = {
  [pb.ReviewEvent.UNSPECIFIED]: "started", [pb.ReviewEvent.SUBMITTED]: "submitted", [pb.ReviewEvent.DECIDED]: "decided", [pb.ReviewEvent.APPLIED]: "applied",
  [pb.ReviewEvent.DISCARDED]: "discarded", [pb.ReviewEvent.UNDONE]: "undone", [pb.ReviewEvent.REBASED]: "rebased",
  [pb.ReviewEvent.OVERFLOW]: "overflow",
};
const appliedKinds: Words<pb.AppliedKind, own.AppliedFile["kind"]> = {
  [pb.AppliedKind.UNSPECIFIED]: "unchanged", [pb.AppliedKind.CREATED]: "created", [pb.AppliedKind.WRITTEN]: "written", [pb.AppliedKind.REMOVED]: "removed",
};
const journalKinds: Words<pb.JournalKind, own.JournalEntry["kind"]> = {
  [pb.JournalKind.UNSPECIFIED]: "unknown", [pb.JournalKind.APPLY]: "apply", [pb.JournalKind.DISCARD]: "discard", [pb.JournalKind.UNDO]: "undo",
  [pb.JournalKind.REBASE]: "rebase", [pb.JournalKind.RESOLVE]: "resolve", [pb.JournalKind.EXEC]: "exec",
  [pb.JournalKind.PULL]: "pull", [pb.JournalKind.PUSH]: "push",
};
const conflictKinds: Words<pb.ConflictKind, own.Conflict["kind"]> = {
  [pb.ConflictKind.UNSPECIFIED]: "unknown", [pb.ConflictKind.CONTENT]: "content", [pb.ConflictKind.MODIFY_DELETE]: "modify-delete",
  [pb.ConflictKind.DELETE_MODIFY]: "delete-modify", [pb.ConflictKind.ADD_ADD]: "add-add", [pb.ConflictKind.BINARY]: "binary", [pb.ConflictKind.TYPE]: "type",
  [pb.ConflictKind.DIRECTORY_IN_THE_WAY]: "directory-in-the-way", [pb.ConflictKind.CHANGED_MEANWHILE]: "changed-meanwhile",
};
/** The versions that can be read, by their names here. */
export const versions = {
  base: pb.Version.BASE, context: pb.Version.CONTEXT, workspace: pb.Version.WORKSPACE, approved: pb.Version.APPROVED, merged: pb.Version.MERGED,
  "conflict-context": pb.Version.CONFLICT_CONTEXT, "conflict-workspace": pb.Version.CONFLICT_WORKSPACE,
} as const;
/** What rebase can do with conflicts. */
export const onConflicts = {
  refuse: pb.OnConflict.UNSPECIFIED, record: pb.OnConflict.RECORD, markers: pb.OnConflict.MARKERS, context: pb.OnConflict.KEEP_CONTEXT,
  workspace: pb.OnConflict.TAKE_WORKSPACE,
} as const;
/** What resolve can make of a file. */
export const resolutions = { context: pb.Resolution.CONTEXT, workspace: pb.Resolution.WORKSPACE, base: pb.Resolution.BASE } as const;

/** Converts a path. */
export function pathOf({ path, rawPath }: { path: string; rawPath: Uint8Array }): own.ReviewPath {
  return rawPath.length === 0 ? { path } : { path: nameOf("", rawPath, "utf8") as string, rawPath: asBuffer(rawPath) };
}

function versionOf(v: pb.FileVersion | undefined): own.FileVersion | undefined {
  if (!v) return undefined;
  const type = v.type === FileType.FILE ? "file" : v.type === FileType.SYMLINK ? "symlink" : "other";
  return { type, mode: v.mode, size: Number(v.size), sha256: v.sha256 };
}

/** Converts a change. */
export function changeOf(c: pb.Change): own.Change {
  const { changeId, renamedFrom, repository, addedLines, removedLines, hunks, approvedHunks, rejectedHunks, comment, ignored, sensitive, barred, drifted, unstable, lineEndingsOnly } = c;
  return {
    ...pathOf(c), changeId, kind: changeKinds[c.kind], content: contentKinds[c.content], before: versionOf(c.before), after: versionOf(c.after), renamedFrom, repository,
    addedLines, removedLines, hunks, approvedHunks, rejectedHunks, decision: decisions[c.decision], comment, ignored, sensitive, barred, drifted, unstable,
    lineEndingsOnly, treeEntries: Number(c.treeEntries), treeBytes: Number(c.treeBytes),
  };
}

/** Converts a summary; what is missing is 0. */
export function countsOf(s: pb.ChangesSummary | undefined): own.ChangeCounts {
  return {
    revision: s?.revision ?? "", count: s?.changes ?? 0, addedLines: Number(s?.addedLines ?? 0n), removedLines: Number(s?.removedLines ?? 0n),
    drifted: s?.drifted ?? 0, approved: s?.approved ?? 0, rejected: s?.rejected ?? 0,
  };
}

/** Converts a hunk. */
export function hunkOf({ hunkId, beforeStart, beforeLines, afterStart, afterLines, lines, decision, comment }: pb.Hunk): own.Hunk {
  return { hunkId, beforeStart, beforeLines, afterStart, afterLines, lines: lines.map(lineOf), decision: decisions[decision], comment };
}

function lineOf({ kind, text, data, noNewline, cut }: pb.DiffLine): own.DiffLine {
  return { kind: lineKinds[kind], text: nameOf(text, data, "utf8") as string, noNewline, cut };
}

/** Converts the state of a review. */
export function statusOf(r: pb.GetReviewResponse): own.ReviewStatus {
  const submitted = r.submittedNs === 0n ? undefined : { title: r.title, message: r.message, revision: r.submittedRevision, at: dateOf(r.submittedNs) };
  return { ...countsOf(r.summary), state: states[r.state], submitted };
}

/** Converts a time. */
export function dateOf(ns: bigint): Date {
  return new Date(Number(ns / 1_000_000n));
}

/** Converts a step of a review. */
export function stepOf({ event, journalId }: pb.WatchReviewResponse): own.ReviewStep {
  return { event: events[event], journalId: Number(journalId) };
}

/** What the answers of apply, undo and others have in common. */
interface AppliedMessage {
  journalId: bigint;
  files: pb.AppliedFile[];
  commits?: pb.Commit[];
  leftOut?: pb.LeftOut[];
  leftOutCount?: number;
}

/** Converts what apply or undo did. */
export function appliedOf({ journalId, files, commits = [], leftOut = [], leftOutCount = 0 }: AppliedMessage): own.Applied {
  return {
    leftOut: leftOut.map(leftOutOf), leftOutCount,
    journalId: Number(journalId), files: files.map((f) => ({ ...pathOf(f), kind: appliedKinds[f.kind], merged: f.merged })),
    commits: commits.map(({ repository, commitId, ref, parent, author, committer }) => ({ repository, commitId, ref, parent, author, committer })),
  };
}

/** Converts a conflict that rebase recorded. */
export function recordedOf(c: pb.RecordedConflict): own.RecordedConflict {
  const at = c.recordedNs === 0n ? undefined : dateOf(c.recordedNs);
  return { ...pathOf(c), kind: conflictKinds[c.kind], base: versionOf(c.base), context: versionOf(c.context), workspace: versionOf(c.workspace), markers: c.markers, at };
}

/** Converts what rebase did. */
export function rebasedOf(r: pb.RebaseResponse): own.Rebased {
  const { journalId, files } = appliedOf(r);
  return { journalId, files, conflicts: r.conflicts.map(recordedOf), stale: r.stale.map((s) => ({ ...pathOf(s), hunkIds: s.hunkIds })) };
}

/** Makes the message of what changes are compared with. */
export function againstOf(given: own.Against | undefined): pb.Against | undefined {
  if (given === undefined) return undefined;
  const $typeName = "ctxfs.v1.Against";
  if (given === "workspace") return { $typeName, what: { case: "workspace", value: true } };
  if ("revision" in given) return { $typeName, what: { case: "revision", value: given.revision } };
  if ("snapshot" in given) return { $typeName, what: { case: "snapshot", value: given.snapshot } };
  return { $typeName, what: { case: "contextId", value: given.contextId } };
}

/** Converts a journal entry. */
export function entryOf(e: pb.JournalEntry): own.JournalEntry {
  const { contextId, actor, command } = e;
  return { ...appliedOf(e), kind: journalKinds[e.kind], contextId, actor, command, at: dateOf(e.doneNs), undoes: Number(e.undoes), undoneBy: Number(e.undoneBy) };
}

/** Returns the files that a refusal is about, which are among the details of its error. */
export function refusedOf(details: readonly Any[]): own.RefusedFiles {
  const found = details.find(({ typeUrl }) => typeUrl.endsWith(`/${pb.RefusedFilesSchema.typeName}`));
  const { files, fileCount, listedBy } = fromBinary(pb.RefusedFilesSchema, found?.value ?? new Uint8Array(0));
  return { files: files.map((f) => ({ ...pathOf(f), kind: conflictKinds[f.kind] })), fileCount, listedBy };
}

/** Converts a change that a selection left out. */
export function leftOutOf(l: pb.LeftOut): own.LeftOut {
  return { ...pathOf(l), reason: l.reason, hunks: l.hunks };
}

/** Makes the message of a selection. */
export function selectionOf(given: own.Selection, seen?: readonly Pick<own.Change, "changeId">[]): pb.Selection {
  // For the server an empty list means that the caller does not say what it has seen. A caller that has seen nothing says so by an ID that no change has.
  const ids = seen?.length === 0 ? [""] : (seen ?? []).map(({ changeId }) => changeId);
  return { $typeName: "ctxfs.v1.Selection", what: whatOf(given), seen: ids };
}

function whatOf(given: own.Selection): pb.Selection["what"] {
  if (given === "all" || given === "approved") return { case: given, value: true };
  if (typeof given === "object" && "patch" in given) return { case: "patch", value: typeof given.patch === "string" ? textBytes(given.patch) : given.patch };
  if (!Array.isArray(given)) throw new TypeError(`a selection is "all", "approved", an array of changes or { patch }, not ${JSON.stringify(given)}`);
  const changes = (given as readonly own.SelectedChange[]).map(selectedOf);
  return { case: "changes", value: { $typeName: "ctxfs.v1.SelectedChanges", changes } };
}

function selectedOf(given: own.SelectedChange): pb.SelectedChange {
  const { path, rawPath, changeId = "", hunkIds = [] } = typeof given === "string" ? { path: given } : given;
  return { $typeName: "ctxfs.v1.SelectedChange", path: rawPath ? "" : path, rawPath: rawPath ?? new Uint8Array(0), changeId, hunkIds: [...hunkIds] };
}
