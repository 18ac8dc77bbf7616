// A patch as text, with a colour for each kind of line: the signs of the lines are there too.
import { EditorState, RangeSetBuilder } from "@codemirror/state";
import { Decoration, EditorView, ViewPlugin, type DecorationSet, type ViewUpdate } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { look, readOnly, specialChars, visibleLines } from "../editor/theme";

export function PatchView({ text, label }: { text: string; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!place.current) return;
    const view = new EditorView({ parent: place.current, state: EditorState.create({ doc: text, extensions: [look, readOnly(label), EditorState.lineSeparator.of("\n"), specialChars, colours] }) });
    return () => view.destroy();
  }, [text, label]);
  return <div className="rv-patch" ref={place} />;
}

const added = Decoration.line({ class: "rv-added" });
const removed = Decoration.line({ class: "rv-removed" });
const place = Decoration.line({ class: "rv-marker" });

const colours = ViewPlugin.fromClass(class {
  decorations: DecorationSet;
  constructor(view: EditorView) {
    this.decorations = build(view);
  }
  update(update: ViewUpdate): void {
    if (update.docChanged || update.viewportChanged) this.decorations = build(update.view);
  }
}, { decorations: (plugin) => plugin.decorations });

function build(view: EditorView): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  for (const line of visibleLines(view)) {
    const kind = kindOf(line.text);
    if (kind) builder.add(line.from, line.from, kind);
  }
  return builder.finish();
}

function kindOf(line: string): Decoration | undefined {
  if (/^(?:@@|diff |index |--- |\+\+\+ )/.test(line)) return place;
  return line.startsWith("+") ? added : line.startsWith("-") ? removed : undefined;
}
