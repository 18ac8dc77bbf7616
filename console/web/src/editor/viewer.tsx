// A text that can be read, searched and copied, with its lines numbered.
import { defaultKeymap } from "@codemirror/commands";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { syntaxOf } from "./languages";
import { look, readOnly, specialChars } from "./theme";

interface ViewerProps {
  text: string;
  /** Its language is by this path's name. */
  path: string;
  label: string;
}

export default function Viewer({ text, path, label }: ViewerProps) {
  const parent = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!parent.current) return;
    const editor = new EditorView({
      parent: parent.current,
      state: EditorState.create({
        doc: text,
        extensions: [look, readOnly(label), lineNumbers(), specialChars, drawSelection(), search({ top: true }), keymap.of([...searchKeymap, ...defaultKeymap]), syntaxOf(path)],
      }),
    });
    return () => editor.destroy();
  }, [text, path, label]);
  return <div className="editor" ref={parent} />;
}
