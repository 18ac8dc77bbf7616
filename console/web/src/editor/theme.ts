// What all editors share. Their colours are theme.css's, so one theme serves light and dark.
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension, type Line } from "@codemirror/state";
import { EditorView, highlightSpecialChars } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const view = EditorView.theme({
  "&": { backgroundColor: "var(--bg)", color: "var(--text)", fontSize: "12.5px", height: "100%" },
  "&.cm-focused": { outline: "none" },
  "&.cm-focused .cm-content": { boxShadow: "inset 2px 0 0 var(--focus)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", padding: "6px 0" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--bg)", color: "var(--text-dim)", borderRight: "1px solid var(--border)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--bg-hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--bg-selected)" },
  ".cm-content ::selection": { backgroundColor: "var(--bg-selected)" },
  ".cm-panels": { backgroundColor: "var(--bg-raised)", color: "var(--text)", borderColor: "var(--border)" },
  ".cm-panel.cm-search": { fontFamily: "var(--sans)", fontSize: "13px" },
  ".cm-panel.cm-search label": { fontSize: "13px" },
  ".cm-panel.cm-search [name=close]": { color: "var(--text)", width: "24px", height: "24px" },
  ".cm-textfield": { backgroundColor: "var(--bg)", color: "var(--text)", border: "1px solid var(--border-strong)", borderRadius: "4px" },
  ".cm-button": { backgroundColor: "var(--bg)", backgroundImage: "none", color: "var(--text)", border: "1px solid var(--border-strong)", borderRadius: "4px" },
  ".cm-searchMatch": { backgroundColor: "var(--warn-bg)", outline: "1px solid var(--warn)" },
  ".cm-searchMatch-selected": { backgroundColor: "var(--bg-selected)", outline: "2px solid var(--accent)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--bg-selected)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--bg-sunken)", border: "1px solid var(--border)", color: "var(--text-dim)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.controlKeyword, tags.moduleKeyword, tags.operatorKeyword, tags.definitionKeyword], color: "var(--syntax-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp, tags.attributeValue], color: "var(--syntax-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.unit], color: "var(--syntax-number)" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment, tags.meta], color: "var(--syntax-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.attributeName, tags.labelName, tags.macroName], color: "var(--syntax-name)" },
  { tag: [tags.typeName, tags.className, tags.namespace, tags.tagName], color: "var(--syntax-type)" },
  { tag: [tags.heading], color: "var(--syntax-name)", fontWeight: "600" },
  { tag: [tags.link, tags.url], color: "var(--accent)" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.strong, fontWeight: "600" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

/** The look of every editor: give it to each EditorView. */
export const look: Extension = [view, syntaxHighlighting(colours)];

/** Marks characters that do not show, or that change the order of those around them: what a person reads is what the file holds. */
export const specialChars: Extension = highlightSpecialChars({ addSpecialChars: /[\u180e\u200c-\u200d\u202a-\u202e\u2060-\u2069\u3164\u{e0000}-\u{e007f}]/gu });

/** Makes a text readable but not writable, and still reachable by keys. */
export function readOnly(label: string): Extension {
  return [
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ tabindex: "0", "aria-label": label, "aria-readonly": "true" }),
  ];
}

/** Gives the lines in sight, each once and in their order. */
export function* visibleLines({ state: { doc }, visibleRanges }: EditorView): Generator<Line> {
  let next = 0;
  for (const { from, to } of visibleRanges) {
    for (let at = Math.max(next, from); at <= to; at = next) {
      const line = doc.lineAt(at);
      yield line;
      if (line.number === doc.lines) return;
      next = line.to + 1;
    }
  }
}
