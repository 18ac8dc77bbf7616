import type { Change, Hunk } from "../gen/api";
import { bytesOf } from "../api";
import { decode, lacksNewline, splitLines } from "./text";

/** A part of a change that is decided on by itself: a hunk, or the whole change if it has none. */
export interface Part {
  /** The hunk's ID; "" for the whole change. */
  id: string;
  /** The first line before and after, from 0, and how many there are. */
  before: number;
  beforeLines: number;
  after: number;
  afterLines: number;
}

/** A text change with both versions as a whole. */
export interface TextDiff {
  before: readonly string[];
  after: readonly string[];
  /** In the order of the file. */
  parts: readonly Part[];
  /** The last line has no newline. */
  beforeOpen: boolean;
  afterOpen: boolean;
}

/**
 * A row of a diff. A changed row belongs to a part. Line numbers are from 0; -1 says that the row shows no line of that version. A split diff
 * shows both lines of a row beside each other, a unified diff has one version's line in each changed row.
 */
export interface Row {
  before: number;
  after: number;
  /** The index of the part; -1 for lines that both versions have. */
  part: number;
}

/** Unchanged lines that are left out above a row. */
export interface Gap {
  row: number;
  /** The first left-out line of the version before, which names the gap. */
  id: number;
  lines: number;
}

export interface Layout {
  rows: readonly Row[];
  gaps: readonly Gap[];
  /** The first row of each part. */
  starts: readonly number[];
}

export type Form = "split" | "unified";

/** Describes the hunks of a change as parts. A change without hunks is one part, from its first line to its last. */
export function partsOf(hunks: readonly Hunk[], before: readonly string[], after: readonly string[]): Part[] {
  if (hunks.length === 0) return [{ id: "", before: 0, beforeLines: before.length, after: 0, afterLines: after.length }];
  return hunks.map((h) => ({
    id: h.hunkId ?? "",
    before: first(h.beforeStart, h.beforeLines),
    beforeLines: h.beforeLines ?? 0,
    after: first(h.afterStart, h.afterLines),
    afterLines: h.afterLines ?? 0,
  }));
}

// A run without lines is named by the line that it comes after.
function first(start = 0, lines = 0): number {
  return lines > 0 ? start - 1 : start;
}

/**
 * Puts both versions and the hunks together. It returns undefined if they do not belong together, since the context changed between the calls:
 * what a person sees has to be what the hunk's ID covers.
 */
export function textDiff(change: Change, hunks: readonly Hunk[], before: string, after: string): TextDiff | undefined {
  const a = splitLines(before);
  const b = splitLines(after);
  const parts = partsOf(hunks, a, b);
  const diff = { before: a, after: b, parts, beforeOpen: lacksNewline(before), afterOpen: lacksNewline(after) };
  if (hunks.length === 0) return (change.hunks ?? 0) === 0 && (a.length === 0 || b.length === 0) ? diff : undefined;
  let atA = 0;
  let atB = 0;
  for (const [i, part] of parts.entries()) {
    if (!sameRun(a, atA, part.before, b, atB, part.after)) return undefined;
    if (!hasLines(hunks[i] as Hunk, diff, part)) return undefined;
    atA = part.before + part.beforeLines;
    atB = part.after + part.afterLines;
  }
  return sameRun(a, atA, a.length, b, atB, b.length) ? diff : undefined;
}

function sameRun(a: readonly string[], fromA: number, toA: number, b: readonly string[], fromB: number, toB: number): boolean {
  if (toA - fromA !== toB - fromB || toA > a.length || toB > b.length || toA < fromA) return false;
  for (let i = 0; i < toA - fromA; i++) if (a[fromA + i] !== b[fromB + i]) return false;
  return true;
}

function hasLines(h: Hunk, diff: TextDiff, part: Part): boolean {
  let a = part.before;
  let b = part.after;
  for (const line of h.lines ?? []) {
    if (line.kind === "LINE_KIND_REMOVED") {
      if (!isLine(line, diff.before, a++, diff.beforeOpen)) return false;
    } else if (line.kind === "LINE_KIND_ADDED") {
      if (!isLine(line, diff.after, b++, diff.afterOpen)) return false;
    }
  }
  return a === part.before + part.beforeLines && b === part.after + part.afterLines;
}

function isLine(line: NonNullable<Hunk["lines"]>[number], lines: readonly string[], at: number, open: boolean): boolean {
  const there = lines[at];
  if (there === undefined) return false;
  if ((line.noNewline ?? false) !== (open && at === lines.length - 1)) return false;
  if (line.cut) return line.data !== undefined || there.startsWith((line.text ?? "").replace(/\ufffd+$/, ""));
  return there === (line.data === undefined ? (line.text ?? "") : decode(bytesOf(line.data)).text);
}

/** Lays the rows out. Unchanged lines that are further than margin from a change are left out, except in the gaps of `open`. */
export function layout(diff: TextDiff, form: Form, open: ReadonlySet<number> = new Set(), margin = 3): Layout {
  const rows: Row[] = [];
  const gaps: Gap[] = [];
  const starts: number[] = [];
  let atA = 0;
  let atB = 0;
  const same = (to: number, headMargin: number, tailMargin: number) => {
    const lines = to - atA;
    const left = lines - headMargin - tailMargin;
    const hide = left > 3 && !open.has(atA + headMargin);
    for (let i = 0; i < lines; i++) {
      if (hide && i === headMargin) {
        gaps.push({ row: rows.length, id: atA + headMargin, lines: left });
        i += left - 1;
        continue;
      }
      rows.push({ before: atA + i, after: atB + i, part: -1 });
    }
    atA += lines;
    atB += lines;
  };
  for (const [i, part] of diff.parts.entries()) {
    same(part.before, i === 0 ? 0 : margin, margin);
    starts.push(rows.length);
    pushPart(rows, part, i, form);
    atA = part.before + part.beforeLines;
    atB = part.after + part.afterLines;
  }
  same(diff.before.length, margin, 0);
  return { rows, gaps, starts };
}

function pushPart(rows: Row[], part: Part, index: number, form: Form): void {
  if (form === "unified") {
    for (let i = 0; i < part.beforeLines; i++) rows.push({ before: part.before + i, after: -1, part: index });
    for (let i = 0; i < part.afterLines; i++) rows.push({ before: -1, after: part.after + i, part: index });
    return;
  }
  for (let i = 0; i < Math.max(part.beforeLines, part.afterLines); i++) {
    rows.push({ before: i < part.beforeLines ? part.before + i : -1, after: i < part.afterLines ? part.after + i : -1, part: index });
  }
}

/** The text of a row, as one side of a split diff or as the unified one shows it. */
export function rowText(diff: TextDiff, row: Row, side: "before" | "after" | "unified"): string {
  if (side === "before") return row.before < 0 ? "" : (diff.before[row.before] ?? "");
  if (side === "after") return row.after < 0 ? "" : (diff.after[row.after] ?? "");
  return row.after < 0 ? (diff.before[row.before] ?? "") : (diff.after[row.after] ?? "");
}

/** Where a part is, in words: "lines 3–7". */
export function partLines(part: Part): string {
  const [from, n] = part.afterLines > 0 ? [part.after, part.afterLines] : [part.before, part.beforeLines];
  if (n === 0) return "no lines";
  return n === 1 ? `line ${from + 1}` : `lines ${from + 1}–${from + n}`;
}

/** All lines of both versions end with "\r": the ending is not shown then. */
export function crlfOnly(diff: TextDiff): boolean {
  const all = (lines: readonly string[]) => lines.every((l) => l.endsWith("\r"));
  return diff.before.length + diff.after.length > 0 && all(diff.before) && all(diff.after);
}
