import type { AppliedFile, Change, FileVersion, GoneDecision, JournalEntry, LeftOut } from "../gen/api";
import type { FileState } from "./decisions";
import { count, size } from "../ui/format";
import { shownPath } from "./text";

const kinds: Record<string, [letter: string, word: string]> = {
  CHANGE_KIND_ADDED: ["A", "added"],
  CHANGE_KIND_MODIFIED: ["M", "modified"],
  CHANGE_KIND_DELETED: ["D", "deleted"],
  CHANGE_KIND_TYPE_CHANGED: ["T", "type changed"],
  CHANGE_KIND_MODE_CHANGED: ["X", "mode changed"],
};

/** A letter and a word for what a change does, as in `ctxfs changes`. */
export function kindOf(change: Change): { letter: string; word: string } {
  const [letter, word] = kinds[change.kind ?? ""] ?? ["?", "changed"];
  return { letter, word };
}

/** A sign and a word for a decision: colour is never the only difference. */
export const stateWords: Record<FileState, { sign: string; word: string }> = {
  approved: { sign: "✓", word: "approved" },
  rejected: { sign: "✕", word: "rejected" },
  partly: { sign: "±", word: "decided in part" },
  pending: { sign: "○", word: "pending" },
};

/** What a reviewer should know of a change, as `ctxfs changes` says it. */
export function remarksOf(c: Change): string[] {
  const out: string[] = [];
  if (c.content === "CONTENT_KIND_BINARY") out.push("binary");
  if (c.content === "CONTENT_KIND_SYMLINK") out.push("link");
  if (c.content === "CONTENT_KIND_TOO_LARGE") out.push(size(Math.max(sizeOf(c.before), sizeOf(c.after))));
  if (c.content === "CONTENT_KIND_TREE") out.push(`${count(c.treeEntries, "file")}, ${size(c.treeBytes)}`);
  if (c.renamedFrom) out.push(`was ${shownPath(c.renamedFrom)}`);
  if (c.ignored) out.push("ignored");
  if (c.sensitive?.length) out.push(`sensitive: ${c.sensitive.join(", ")}`);
  if (c.barred) out.push(`never applied: ${c.barred}`);
  if (c.unstable) out.push("being written");
  if (c.lineEndingsOnly) out.push("line endings only");
  if (c.drifted) out.push("also changed in the workspace");
  if (c.unresolved) out.push("conflict");
  return out;
}

export function sizeOf(v: FileVersion | undefined): number {
  return Number(v?.size ?? 0);
}

/** A mode as `ls -l` and chmod write it: "0755". */
export function modeOf(v: FileVersion | undefined): string {
  return v === undefined ? "" : `0${((v.mode ?? 0) & 0o7777).toString(8).padStart(3, "0")}`;
}

/** "Modify-delete" and so on: why both sides cannot be merged. */
export function conflictWord(kind = ""): string {
  return (
    {
      CONFLICT_KIND_CONTENT: "Both changed the same lines.",
      CONFLICT_KIND_MODIFY_DELETE: "The context changed the file, and the workspace deleted it.",
      CONFLICT_KIND_DELETE_MODIFY: "The context deleted the file, and the workspace changed it.",
      CONFLICT_KIND_ADD_ADD: "Both added the path with different content.",
      CONFLICT_KIND_BINARY: "Both changed a file that cannot be merged line by line: it is binary or too large.",
      CONFLICT_KIND_TYPE: "Both changed the type, or the target of a link.",
      CONFLICT_KIND_DIRECTORY_IN_THE_WAY: "A directory stands at the path, or a file where a directory is needed.",
      CONFLICT_KIND_CHANGED_MEANWHILE: "A program changed the file meanwhile, or has it open for writing.",
    }[kind] ?? "It cannot be merged."
  );
}

/** What was decided, and what has become of the change. */
export function goneWord({ decision, actor, replaced }: GoneDecision): string {
  const approved = decision === "DECISION_APPROVED";
  const what = `${approved ? "approved" : "rejected"}${actor ? ` by ${actor}` : ""}, and ${replaced ? "changed since" : "gone"}`;
  if (approved) return `${what}; Apply still writes what was approved`;
  return replaced ? `${what}; what it has now is not rejected` : what;
}

/** Says what "Approve all" did. The list has the first of the changes that it left out, in whole or in part. */
export function approvedAllText(leftOut: readonly LeftOut[], leftOutCount: number): string {
  if (leftOutCount === 0) return "Approved all changes";
  const parts = leftOut.filter(({ hunks = 0 }) => hunks > 0).length;
  const whole = leftOutCount - parts;
  const left = [...(whole > 0 ? [count(whole, "file")] : []), ...(parts > 0 ? [`rejected hunks of ${count(parts, "file")}`] : [])];
  return `Approved all but ${left.join(" and ")}: decide on these one by one`;
}

/** What was done to a file. */
export function appliedWord(f: AppliedFile): string {
  const word = applied[f.kind ?? ""] ?? "was as it should be already";
  return f.merged ? `${word}, merged with the other side's changes` : word;
}

const applied: Record<string, string> = { APPLIED_KIND_CREATED: "created", APPLIED_KIND_WRITTEN: "written", APPLIED_KIND_REMOVED: "removed" };

const entries: Record<string, string> = {
  JOURNAL_KIND_APPLY: "Apply",
  JOURNAL_KIND_DISCARD: "Discard",
  JOURNAL_KIND_UNDO: "Undo",
  JOURNAL_KIND_REBASE: "Rebase",
  JOURNAL_KIND_RESOLVE: "Conflict resolved",
  JOURNAL_KIND_EXEC: "Command",
  JOURNAL_KIND_PULL: "Pull",
  JOURNAL_KIND_PUSH: "Push",
};

export function entryWord(e: JournalEntry): string {
  const word = entries[e.kind ?? ""] ?? "Entry";
  return Number(e.undoes ?? 0) > 0 ? `${word} of entry ${e.undoes}` : word;
}

/** "/" is the workspace's own repository. */
export function repositoryWord(path: string | undefined): string {
  return path === undefined || path === "/" || path === "" ? "the workspace's repository" : shownPath(path);
}

/** A commit's ID for people. */
export function short(commit: string | undefined): string {
  return (commit ?? "").slice(0, 10);
}
