// The editor of a merged text: buttons above each conflict take one side, both or the base.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { EditorState, StateField, type Range } from "@codemirror/state";
import { Decoration, EditorView, keymap, lineNumbers, WidgetType, type DecorationSet } from "@codemirror/view";
import { syntaxOf } from "../editor/languages";
import { look, specialChars } from "../editor/theme";
import { chosen, findMarked, type Choice, type Marked } from "./markers";

export interface ResultEditor {
  replace: (text: string) => void;
  destroy: () => void;
}

/** Shows an editor for a text, and reports each change of it. */
export function showResult(parent: HTMLElement, text: string, path: string, onChange: (text: string) => void): ResultEditor {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        look, EditorState.lineSeparator.of("\n"), lineNumbers(), specialChars, history(), keymap.of([...historyKeymap, ...defaultKeymap]),
        EditorView.contentAttributes.of({ "aria-label": `Result: ${path}` }),
        conflicts, syntaxOf(path),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange(update.state.sliceDoc());
        }),
      ],
    }),
  });
  return {
    replace: (to) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: to } }),
    destroy: () => view.destroy(),
  };
}

const inside: Readonly<Record<"context" | "base" | "workspace" | "marker", Decoration>> = {
  context: Decoration.line({ class: "rv-side-context" }),
  base: Decoration.line({ class: "rv-side-base" }),
  workspace: Decoration.line({ class: "rv-side-workspace" }),
  marker: Decoration.line({ class: "rv-marker" }),
};

const conflicts = StateField.define<DecorationSet>({
  create: decorate,
  update: (value, tr) => (tr.docChanged ? decorate(tr.state) : value),
  provide: (field) => EditorView.decorations.from(field),
});

function decorate(state: EditorState): DecorationSet {
  const ranges: Range<Decoration>[] = [];
  const found = findMarked(state.sliceDoc());
  for (const [i, conflict] of found.entries()) {
    ranges.push(Decoration.widget({ widget: new Choices(i, found.length), block: true, side: -1 }).range(conflict.from));
    lines(state, conflict, ranges);
  }
  return Decoration.set(ranges, true);
}

function lines(state: EditorState, conflict: Marked, ranges: Range<Decoration>[]): void {
  const sides = ["context", "base", "workspace"] as const;
  let at = state.doc.lineAt(conflict.from);
  for (const side of sides) {
    ranges.push(inside.marker.range(at.from));
    const end = at.to + 1 + conflict[side].length;
    for (at = state.doc.line(at.number + 1); at.from < end; at = state.doc.line(at.number + 1)) ranges.push(inside[side].range(at.from));
  }
  ranges.push(inside.marker.range(at.from));
}

class Choices extends WidgetType {
  constructor(private readonly index: number, private readonly total: number) {
    super();
  }

  override eq(other: Choices): boolean {
    return other.index === this.index && other.total === this.total;
  }

  toDOM(view: EditorView): HTMLElement {
    const outer = document.createElement("div");
    outer.className = "rv-choices";
    const label = document.createElement("span");
    label.textContent = `Conflict ${this.index + 1} of ${this.total}`;
    outer.append(label);
    const choices: [Choice, string][] = [["context", "Take context"], ["workspace", "Take workspace"], ["both", "Take both"], ["base", "Take base"]];
    for (const [choice, text] of choices) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "button small";
      button.textContent = text;
      button.setAttribute("aria-label", `${text}, conflict ${this.index + 1}`);
      button.addEventListener("click", () => this.take(view, choice));
      outer.append(button);
    }
    return outer;
  }

  override ignoreEvent(): boolean {
    return true;
  }

  private take(view: EditorView, choice: Choice): void {
    const conflict = findMarked(view.state.sliceDoc())[this.index];
    if (!conflict) return;
    view.dispatch({ changes: { from: conflict.from, to: conflict.to, insert: chosen(conflict, choice) }, selection: { anchor: conflict.from }, scrollIntoView: true });
    view.focus();
  }
}
