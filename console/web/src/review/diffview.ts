// A diff in CodeMirror: one document of rows for each side, so that the rows of both sides stand beside each other without measuring, and only the
// visible ones are in the page. Content is text of the document; nothing of it becomes markup.
import { EditorState, type ChangeSpec } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { readOnly, specialChars } from "../editor/theme";
import { colours, gutters } from "./diffcolours";
import { Model, setColours, setShown, shownField, type Context, type DiffOptions, type PartState, type Shown, type Side } from "./diffmodel";
import { widgets } from "./diffwidgets";
import { layout, type Layout, type TextDiff } from "./rows";

export interface DiffHandle {
  /** Shows decisions, and which part is the current one. */
  show: (parts: readonly PartState[], current: number) => void;
  scrollTo: (part: number) => void;
  destroy: () => void;
}

/** Shows a diff in an element, which becomes what scrolls. */
export function showDiff(parent: HTMLElement, diff: TextDiff, options: DiffOptions): DiffHandle {
  const open = new Set<number>();
  let gone = false;
  const model = new Model(diff);
  let shown: Shown = { layout: layout(diff, options.form, open), parts: [], current: 0 };
  const reveal = (gap: number) => {
    open.add(gap);
    shown = { ...shown, layout: layout(diff, options.form, open) };
    for (const pane of panes) pane.show(shown);
  };
  const sides: Side[] = options.form === "split" ? ["before", "after"] : ["unified"];
  const panes = sides.map((side) => new Pane(parent, side, model, options, shown, reveal));
  const last = panes[panes.length - 1] as Pane;
  if (panes.length === 2) followSideways(panes[0] as Pane, last);
  void options.language.then((support) => {
    if (!support || gone || !model.parse(support)) return;
    for (const pane of panes) pane.view.dispatch({ effects: setColours.of(null) });
  });
  return {
    show: (parts, current) => {
      shown = { ...shown, parts, current };
      for (const pane of panes) pane.show(shown);
    },
    scrollTo: (part) => last.scrollTo(part),
    destroy: () => {
      gone = true;
      for (const pane of panes) pane.destroy();
    },
  };
}

/** One editor of a diff. */
class Pane {
  readonly view: EditorView;
  private shown: Shown;
  private readonly observer: ResizeObserver;

  constructor(parent: HTMLElement, readonly side: Side, private readonly model: Model, options: DiffOptions, shown: Shown, onGap: (id: number) => void) {
    this.shown = shown;
    const label = { before: "Before", after: "After", unified: "Diff" }[side];
    const context: Context = { side, model, options, onGap };
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        doc: this.doc(shown.layout),
        extensions: [
          EditorState.lineSeparator.of("\n"),
          readOnly(`${label}: ${options.path}`),
          EditorView.editorAttributes.of({ class: `rv-pane rv-${side}` }),
          specialChars,
          side === "unified" && options.wrap ? EditorView.lineWrapping : [],
          shownField.init(() => shown),
          widgets(context),
          gutters(context),
          colours(context),
          EditorView.domEventHandlers({ mousedown: (event, view) => selectAt(event, view, options) }),
        ],
      }),
    });
    // Headers are as wide as what is in sight, however long the lines are.
    this.observer = new ResizeObserver(() => {
      const gutters = this.view.dom.querySelector<HTMLElement>(".cm-gutters")?.offsetWidth ?? 0;
      this.view.dom.style.setProperty("--rv-left", `${gutters}px`);
      this.view.dom.style.setProperty("--rv-width", `${this.view.scrollDOM.clientWidth - gutters}px`);
    });
    this.observer.observe(this.view.scrollDOM);
  }

  show(shown: Shown): void {
    const changes = shown.layout === this.shown.layout ? undefined : this.changes(shown.layout);
    this.shown = shown;
    this.view.dispatch({ changes, effects: setShown.of(shown) });
  }

  scrollTo(part: number): void {
    const row = this.shown.layout.starts[part] ?? 0;
    const line = Math.min(row + 1, this.view.state.doc.lines);
    this.view.dispatch({ effects: EditorView.scrollIntoView(this.view.state.doc.line(line).from, { y: "start", yMargin: 72, x: "start" }) });
  }

  destroy(): void {
    this.observer.disconnect();
    this.view.destroy();
  }

  private doc(of: Layout): string {
    return of.rows.map((row) => this.model.text(row, this.side)).join("\n");
  }

  // Rows are only added by opening gaps, so what differs is one run of lines; the rest of the document, and where it is scrolled to, stay.
  private changes(next: Layout): ChangeSpec {
    const old = this.view.state.doc;
    const text = this.doc(next);
    let from = 0;
    const oldText = old.toString();
    const least = Math.min(oldText.length, text.length);
    while (from < least && oldText.charCodeAt(from) === text.charCodeAt(from)) from++;
    let end = 0;
    while (end < least - from && oldText.charCodeAt(oldText.length - 1 - end) === text.charCodeAt(text.length - 1 - end)) end++;
    return { from, to: oldText.length - end, insert: text.slice(from, text.length - end) };
  }
}

function selectAt(event: MouseEvent, view: EditorView, options: DiffOptions): boolean {
  const at = view.posAtCoords({ x: event.clientX, y: event.clientY });
  if (at === null) return false;
  const row = view.state.field(shownField).layout.rows[view.state.doc.lineAt(at).number - 1];
  if (row !== undefined && row.part >= 0) options.onSelect(row.part);
  return false;
}

function followSideways(a: Pane, b: Pane): void {
  const follow = (from: EditorView, to: EditorView) => {
    from.scrollDOM.addEventListener("scroll", () => {
      if (to.scrollDOM.scrollLeft !== from.scrollDOM.scrollLeft) to.scrollDOM.scrollLeft = from.scrollDOM.scrollLeft;
    }, { passive: true });
  };
  follow(a.view, b.view);
  follow(b.view, a.view);
}
