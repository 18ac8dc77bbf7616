// Keys of the views, and the dialog at "?" that lists those that work now.
import { useEffect, useRef, useSyncExternalStore } from "react";
import { Dialog } from "./dialog";

export interface Hotkey {
  /** As KeyboardEvent.key says: "j", "ArrowDown", "?". With modifiers: "Ctrl+Enter", where Ctrl is Command on a Mac. */
  key: string;
  /** What it does, for the help dialog. */
  label: string;
  run: (event: KeyboardEvent) => void;
  /** Works while a text is being typed as well. */
  inFields?: boolean;
}

interface Group {
  title: string;
  keys: readonly Hotkey[];
}

let groups: readonly Group[] = [];
let helpOpen = false;
const listeners = new Set<() => void>();

/** Makes keys work while the component is there. Of two that use a key, the one that came last gets it. */
export function useHotkeys(title: string, keys: readonly Hotkey[]): void {
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });
  const shape = keys.map((key) => `${key.key}\t${key.label}`).join("\n");
  useEffect(() => {
    const group: Group = { title, keys: latest.current.map((key, i) => ({ ...key, run: (event) => latest.current[i]?.run(event) })) };
    groups = [...groups, group];
    notify();
    return () => {
      groups = groups.filter((other) => other !== group);
      notify();
    };
  }, [title, shape]);
}

/** Opens the list of keys. */
export function showKeys(): void {
  helpOpen = true;
  notify();
}

export function HotkeyHelp() {
  const open = useSyncExternalStore(subscribe, () => helpOpen);
  const shown = useSyncExternalStore(subscribe, () => groups);
  if (!open) return null;
  return (
    <Dialog title="Keys" onClose={() => { helpOpen = false; notify(); }}>
      {shown.filter((group) => group.keys.length > 0).map((group) => (
        <section key={group.title} className="stack">
          <h3>{group.title}</h3>
          <dl className="keys">
            {group.keys.map((key) => [
              <dt key={`${key.key}-key`}><kbd>{spoken(key.key)}</kbd></dt>,
              <dd key={`${key.key}-label`}>{key.label}</dd>,
            ])}
          </dl>
        </section>
      ))}
    </Dialog>
  );
}

/** Listens on the document; the shell calls it once. */
export function listenForKeys(): () => void {
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    const name = nameOf(event);
    const typing = isTyping(event);
    for (const group of [...groups].reverse()) {
      const key = group.keys.find((candidate) => candidate.key === name && (candidate.inFields === true || !typing));
      if (!key) continue;
      event.preventDefault();
      key.run(event);
      return;
    }
  };
  document.addEventListener("keydown", onKeyDown);
  return () => document.removeEventListener("keydown", onKeyDown);
}

function nameOf(event: KeyboardEvent): string {
  // Shift is part of the character for "?" and "J", and is named for keys that have none.
  const shift = event.shiftKey && event.key.length > 1 ? "Shift+" : "";
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${event.altKey ? "Alt+" : ""}${shift}${event.key}`;
}

function isTyping(event: KeyboardEvent): boolean {
  // A text that cannot be edited, such as a shown file, leaves the keys to the view.
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable) return true;
  return target.matches("textarea, select, input:not([type=checkbox]):not([type=radio]):not([type=button])");
}

function spoken(key: string): string {
  const names: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", " ": "Space", Escape: "Esc" };
  return key.split("+").map((part) => names[part] ?? part).join(" + ");
}

function notify(): void {
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
