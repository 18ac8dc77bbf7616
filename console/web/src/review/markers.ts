// Conflict markers, as `git merge-file --zdiff3` writes them with the labels context, base and workspace.

/** A conflict in a merged text. Offsets are of characters; `to` is after the last newline. */
export interface Marked {
  from: number;
  to: number;
  context: string;
  base: string;
  workspace: string;
}

export type Choice = "context" | "workspace" | "both" | "base";

/** A line that is a marker, up to `to`, which is after its newline. */
interface Mark {
  sign: string;
  from: number;
  to: number;
}

/** Finds the conflicts of a text, in its order. Markers that are not in pairs are text. The time grows with the text only, whatever it holds. */
export function findMarked(text: string): Marked[] {
  const { begins, bySize } = marksOf(text);
  const out: Marked[] = [];
  let after = 0;
  for (const { size, at } of begins) {
    const marks = bySize.get(size);
    const begin = marks?.[at];
    if (!marks || !begin || begin.from < after) continue;
    const found = read(text, marks, at);
    // Where one conflict has no end, no later one of this size has.
    if (!found) {
      bySize.delete(size);
      continue;
    }
    out.push(found);
    after = found.to;
  }
  return out;
}

// Lists the markers by their size, and in the order of the text those that begin a conflict. In a file with CRLF the markers end in it too.
function marksOf(text: string): { begins: { size: number; at: number }[]; bySize: Map<number, Mark[]> } {
  const begins: { size: number; at: number }[] = [];
  const bySize = new Map<number, Mark[]>();
  const line = /(?:^|\n)(?:(<{7,}) context|(\|{7,}) base|(={7,})|(>{7,}) workspace)\r?(?=\n|$)/g;
  for (let match = line.exec(text); match; match = line.exec(text)) {
    const run = match[1] ?? match[2] ?? match[3] ?? match[4] ?? "";
    const marks = bySize.get(run.length) ?? [];
    bySize.set(run.length, marks);
    const sign = run.charAt(0);
    if (sign === "<") begins.push({ size: run.length, at: marks.length });
    const end = match.index + match[0].length;
    marks.push({ sign, from: match[0].startsWith("\n") ? match.index + 1 : match.index, to: Math.min(end + 1, text.length) });
  }
  return { begins, bySize };
}

function read(text: string, marks: readonly Mark[], begin: number): Marked | undefined {
  const sides: string[] = [];
  let i = begin;
  let at = marks[begin]?.to ?? 0;
  for (const sign of ["|", "=", ">"]) {
    do i++; while (i < marks.length && marks[i]?.sign !== sign);
    const mark = marks[i];
    if (!mark) return undefined;
    sides.push(text.slice(at, mark.from));
    at = mark.to;
  }
  const [context = "", base = "", workspace = ""] = sides;
  return { from: marks[begin]?.from ?? 0, to: at, context, base, workspace };
}

/** The text that takes the place of a conflict. */
export function chosen(conflict: Marked, choice: Choice): string {
  if (choice !== "both") return conflict[choice];
  const { context, workspace } = conflict;
  return context + (context === "" || context.endsWith("\n") ? "" : "\n") + workspace;
}
