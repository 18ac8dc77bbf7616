import { presentableDiff } from "@codemirror/merge";
import type { Part, TextDiff } from "./rows";

/** Ranges of characters that differ within the lines of a part, by line. */
export interface Marks {
  before: ReadonlyMap<number, readonly Range[]>;
  after: ReadonlyMap<number, readonly Range[]>;
}

export type Range = readonly [from: number, to: number];

const none: Marks = { before: new Map(), after: new Map() };
const maxChars = 20_000;

/**
 * Finds the words that differ between the removed and the added lines of a part. It finds none where nearly all of it differs, and in parts
 * that are too large to compare while somebody scrolls.
 */
export function marksOf(diff: TextDiff, part: Part): Marks {
  if (part.beforeLines === 0 || part.afterLines === 0) return none;
  const removed = diff.before.slice(part.before, part.before + part.beforeLines);
  const added = diff.after.slice(part.after, part.after + part.afterLines);
  const a = removed.join("\n");
  const b = added.join("\n");
  if (a.length + b.length > maxChars) return none;
  const changes = presentableDiff(a, b, { scanLimit: 500, timeout: 50 });
  const changed = changes.reduce((sum, c) => sum + c.toA - c.fromA + c.toB - c.fromB, 0);
  if (changed > 0.7 * (a.length + b.length)) return none;
  return {
    before: byLine(removed, part.before, changes.map((c) => [c.fromA, c.toA])),
    after: byLine(added, part.after, changes.map((c) => [c.fromB, c.toB])),
  };
}

function byLine(lines: readonly string[], first: number, ranges: readonly Range[]): Map<number, Range[]> {
  const out = new Map<number, Range[]>();
  let at = 0;
  let next = 0;
  for (const [i, line] of lines.entries()) {
    const end = at + line.length;
    const found: Range[] = [];
    while (next < ranges.length) {
      const [from, to] = ranges[next] as Range;
      if (from > end) break;
      if (Math.max(from, at) < Math.min(to, end)) found.push([Math.max(from, at) - at, Math.min(to, end) - at]);
      if (to > end) break;
      next++;
    }
    if (found.length > 0) out.set(first + i, found);
    at = end + 1;
  }
  return out;
}
