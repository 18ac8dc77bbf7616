import { RangeSetBuilder, type Range as CmRange } from "@codemirror/state";
import { Decoration, GutterMarker, ViewPlugin, gutter, type DecorationSet, type EditorView, type ViewUpdate } from "@codemirror/view";
import { visibleLines } from "../editor/theme";
import { setColours, setShown, shownField, type Context, type Model, type Side } from "./diffmodel";
import type { Row } from "./rows";

const maxLine = 10_000;

class Label extends GutterMarker {
  constructor(private readonly text: string, override readonly elementClass: string) {
    super();
  }

  override eq(other: Label): boolean {
    return other.text === this.text && other.elementClass === this.elementClass;
  }

  override toDOM(): Node {
    return document.createTextNode(this.text);
  }
}

// Line numbers of each version that the side shows, and a sign for changed lines: colour is never the only difference.
export function gutters({ side, model }: Context) {
  const rowAt = (view: EditorView, at: number): Row | undefined => view.state.field(shownField).layout.rows[view.state.doc.lineAt(at).number - 1];
  const numbers = (version: "before" | "after") =>
    gutter({
      class: "rv-numbers",
      lineMarker: (view, line) => {
        const row = rowAt(view, line.from);
        const n = row?.[version] ?? -1;
        return new Label(n < 0 ? "" : String(n + 1), lineClass(row, side));
      },
      initialSpacer: () => new Label(String(model.diff[version].length), ""),
    });
  const signs = gutter({
    class: "rv-signs",
    lineMarker: (view, line) => {
      const row = rowAt(view, line.from);
      const cls = lineClass(row, side);
      return new Label(cls.includes("rv-removed") ? "−" : cls.includes("rv-added") ? "+" : " ", cls);
    },
    initialSpacer: () => new Label("+", ""),
  });
  if (side === "unified") return [numbers("before"), numbers("after"), signs];
  return [numbers(side), signs];
}

function lineClass(row: Row | undefined, side: Side): string {
  if (row === undefined || row.part < 0) return "";
  if (side === "unified") return row.after < 0 ? "rv-removed" : "rv-added";
  if (side === "before") return row.before < 0 ? "rv-filler" : "rv-removed";
  return row.after < 0 ? "rv-filler" : "rv-added";
}

// Colours of the visible lines: what they are in the diff, their syntax, and the words that differ.
export function colours(context: Context) {
  return ViewPlugin.fromClass(
    class {
      decorations: DecorationSet;
      constructor(view: EditorView) {
        this.decorations = build(view, context);
      }
      update(update: ViewUpdate): void {
        const told = update.transactions.some((tr) => tr.effects.some((e) => e.is(setShown) || e.is(setColours)));
        if (told || update.docChanged || update.viewportChanged) this.decorations = build(update.view, context);
      }
    },
    { decorations: (plugin) => plugin.decorations },
  );
}

const changedText = Decoration.mark({ class: "rv-word" });

function build(view: EditorView, { side, model }: Context): DecorationSet {
  const { layout: l, current } = view.state.field(shownField);
  const builder = new RangeSetBuilder<Decoration>();
  for (const line of visibleLines(view)) {
    const row = l.rows[line.number - 1];
    if (row !== undefined) decorateLine(builder, row, line.from, line.length, side, model, row.part >= 0 && row.part === current);
  }
  return builder.finish();
}

function decorateLine(builder: RangeSetBuilder<Decoration>, row: Row, at: number, length: number, side: Side, model: Model, current: boolean): void {
  const cls = [lineClass(row, side), current && "rv-current-line"].filter(Boolean).join(" ");
  if (cls) builder.add(at, at, Decoration.line({ class: cls }));
  const shown = model.lineOf(row, side);
  if (shown === undefined || length === 0 || length > maxLine) return;
  const ranges: CmRange<Decoration>[] = [];
  if (row.part >= 0) {
    for (const [from, to] of model.marksOf(row.part)[shown.version].get(shown.line) ?? []) {
      if (from < length) ranges.push(changedText.range(at + from, at + Math.min(to, length)));
    }
  }
  for (const { from, to, classes } of model.spansOf(shown.version, shown.line)) {
    if (from < length) ranges.push(Decoration.mark({ class: classes }).range(at + from, at + Math.min(to, length)));
  }
  ranges.sort((a, b) => a.from - b.from || a.value.startSide - b.value.startSide);
  for (const range of ranges) builder.add(range.from, range.to, range.value);
}
