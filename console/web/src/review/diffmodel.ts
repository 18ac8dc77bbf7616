// What the parts of a diff in CodeMirror share: both versions with their syntax, and what is shown of them.
import type { LanguageSupport } from "@codemirror/language";
import { StateEffect, StateField } from "@codemirror/state";
import type { Tree } from "@lezer/common";
import { classHighlighter, highlightTree } from "@lezer/highlight";
import type { FileState } from "./decisions";
import { marksOf, type Marks } from "./intraline";
import { crlfOnly, rowText, type Form, type Layout, type Row, type TextDiff } from "./rows";
import { lineStarts } from "./text";

/** What the header of a part shows. */
export interface PartState {
  state: FileState;
  comment: string;
}

export type Act = "approve" | "reject" | "remark" | "reset";

export interface DiffOptions {
  form: Form;
  /** Breaks long lines, in the unified form. */
  wrap: boolean;
  /** Names the file for screen readers. */
  path: string;
  /** The parts can be decided on. */
  decidable: boolean;
  language: Promise<LanguageSupport | null>;
  onAct: (part: number, act: Act) => void;
  onSelect: (part: number) => void;
}

export type Side = "before" | "after" | "unified";

/** What all editors of a diff show. */
export interface Shown {
  layout: Layout;
  parts: readonly PartState[];
  current: number;
}

export const setShown = StateEffect.define<Shown>();
/** Says that the syntax is known by now. */
export const setColours = StateEffect.define();

/** What the widgets and colours of one editor know. */
export interface Context {
  side: Side;
  model: Model;
  options: DiffOptions;
  onGap: (id: number) => void;
}

export const shownField = StateField.define<Shown>({
  create: () => ({ layout: { rows: [], gaps: [], starts: [] }, parts: [], current: 0 }),
  update: (value, tr) => {
    for (const effect of tr.effects) if (effect.is(setShown)) return effect.value;
    return value;
  },
});

const maxColoured = 1 << 20;

/** A diff with what is computed of it once: the syntax of both versions, and the words that differ. */
export class Model {
  readonly hideReturns: boolean;
  readonly starts: { before: number[]; after: number[] };
  trees: { before: Tree; after: Tree } | undefined;
  private readonly marks = new Map<number, Marks>();
  private readonly spans = { before: new Map<number, Span[]>(), after: new Map<number, Span[]>() };

  constructor(readonly diff: TextDiff) {
    this.hideReturns = crlfOnly(diff);
    this.starts = { before: lineStarts(diff.before), after: lineStarts(diff.after) };
  }

  /** Parses both versions. It returns false if they are too large. */
  parse(support: LanguageSupport): boolean {
    const before = this.diff.before.join("\n");
    const after = this.diff.after.join("\n");
    if (before.length + after.length > maxColoured) return false;
    const { parser } = support.language;
    this.trees = { before: parser.parse(before), after: parser.parse(after) };
    return true;
  }

  text(row: Row, side: Side): string {
    const text = rowText(this.diff, row, side);
    return this.hideReturns && text.endsWith("\r") ? text.slice(0, -1) : text;
  }

  marksOf(part: number): Marks {
    let marks = this.marks.get(part);
    if (marks === undefined) {
      const found = this.diff.parts[part];
      marks = found === undefined ? { before: new Map(), after: new Map() } : marksOf(this.diff, found);
      this.marks.set(part, marks);
    }
    return marks;
  }

  /** Returns the syntax of a line. It looks at the lines after it too, since the next question is about them. */
  spansOf(version: "before" | "after", line: number): readonly Span[] {
    const known = this.spans[version];
    const tree = this.trees?.[version];
    if (tree && !known.has(line)) colour(tree, this.starts[version], line, Math.min(line + ahead, this.diff[version].length), known);
    return known.get(line) ?? [];
  }

  /** Says which version's line a side shows in a row. */
  lineOf(row: Row, side: Side): { version: "before" | "after"; line: number } | undefined {
    if (side === "unified") return row.after >= 0 ? { version: "after", line: row.after } : { version: "before", line: row.before };
    const line = side === "before" ? row.before : row.after;
    return line < 0 ? undefined : { version: side, line };
  }
}

/** A part of a line that has a colour. */
export interface Span {
  from: number;
  to: number;
  classes: string;
}

const ahead = 64;

// Finding the begin of a range in a long file takes time, so many lines are done at once.
function colour(tree: Tree, starts: readonly number[], first: number, end: number, into: Map<number, Span[]>): void {
  for (let line = first; line < end; line++) into.set(line, []);
  let line = first;
  const startOf = (n: number) => starts[n] ?? 0;
  const put = (from: number, to: number, classes: string) => {
    while (line + 1 < end && startOf(line + 1) <= from) line++;
    // A comment or a text may go over several lines.
    for (let n = line; n < end && startOf(n) < to; n++) {
      const span = { from: Math.max(from, startOf(n)) - startOf(n), to: Math.min(to, startOf(n + 1) - 1) - startOf(n), classes };
      if (span.from < span.to) into.get(n)?.push(span);
    }
  };
  highlightTree(tree, classHighlighter, put, startOf(first), startOf(end));
}
