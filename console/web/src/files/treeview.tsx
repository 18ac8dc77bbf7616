// The tree on the page. One element has the focus, and names the current row: rows out of sight are not in the page.
import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import { asApiError } from "../api";
import { useVirtual } from "../ui";
import { shownName } from "./names";
import { isDirectory, keyOf, last, type Row } from "./tree";
import type { Tree } from "./usetree";

const rowHeight = 26;

interface TreeViewProps {
  tree: Tree;
  /** The path that the viewer shows. */
  shown: readonly string[];
  onOpen: (names: readonly string[]) => void;
}

export function TreeView({ tree, shown, onOpen }: TreeViewProps) {
  const id = useId();
  const { rows, toggle } = tree;
  const [current, setCurrent] = useState(keyOf(shown));
  const { scroller, from, to, reveal } = useVirtual(rows.length, rowHeight);
  const index = Math.max(0, rows.findIndex((row) => row.key === current));
  const select = (at: number) => {
    const row = rows[Math.min(rows.length - 1, Math.max(0, at))];
    if (!row) return;
    setCurrent(row.key);
    reveal(rows.indexOf(row));
  };
  const activate = (row: Row) => {
    setCurrent(row.key);
    if (row.note) return;
    if (isDirectory(row.node)) toggle(row);
    else onOpen(row.node.names);
  };
  const typed = useRef({ text: "", at: 0 });
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[index];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 400) / rowHeight) - 1);
    const actions: Record<string, () => void> = {
      ArrowDown: () => select(index + 1),
      ArrowUp: () => select(index - 1),
      PageDown: () => select(index + page),
      PageUp: () => select(index - page),
      Home: () => select(0),
      End: () => select(rows.length - 1),
      ArrowRight: () => (row.expanded === false ? toggle(row, true) : row.expanded && select(index + 1)),
      ArrowLeft: () => (row.expanded ? toggle(row, false) : select(parentIndex(rows, index))),
      Enter: () => activate(row),
      " ": () => activate(row),
    };
    const action = actions[event.key] ?? typeAhead(event.key, typed.current, rows, index, select);
    if (!action) return;
    // Another key ends the word that is being typed.
    if (event.key in actions) typed.current.text = "";
    event.preventDefault();
    action();
  };
  // What the route names is shown when its directory was read.
  const path = keyOf(shown);
  const there = rows.some((row) => row.key === path);
  useEffect(() => {
    if (path === "" || !there) return;
    setCurrent(path);
    reveal(rows.findIndex((row) => row.key === path));
    // Only a new path moves the list, not each row that comes.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [path, there]);
  return (
    <div className="tree" ref={scroller} role="tree" aria-label="Files" tabIndex={0} aria-activedescendant={rows.length > 0 ? `${id}-${String(index)}` : undefined} onKeyDown={onKeyDown}>
      <div role="none" style={{ height: rows.length * rowHeight, position: "relative" }}>
        {rows.slice(from, to).map((row, i) => (
          <TreeRow key={row.key} id={`${id}-${String(from + i)}`} row={row} top={(from + i) * rowHeight} current={from + i === index} shown={row.key === path} onClick={() => activate(row)} />
        ))}
        {(index < from || index >= to) && rows[index] && <TreeRow id={`${id}-${String(index)}`} row={rows[index]} top={index * rowHeight} current shown={false} onClick={() => undefined} />}
      </div>
    </div>
  );
}

function TreeRow({ id, row, top, current, shown, onClick }: { id: string; row: Row; top: number; current: boolean; shown: boolean; onClick: () => void }) {
  const names = ["tree-row", current && "current", shown && "shown", row.note && "dim"].filter(Boolean).join(" ");
  return (
    <div id={id} role="treeitem" className={names} style={{ top, height: rowHeight, paddingLeft: 8 + (row.depth - 1) * 14 }} aria-level={row.depth} aria-expanded={row.expanded}
      aria-selected={shown} aria-posinset={row.position} aria-setsize={row.siblings} onClick={onClick}>
      <span className="tree-sign" aria-hidden="true">{row.expanded === undefined ? "" : row.expanded ? "▾" : "▸"}</span>
      <span className="truncate">{row.note ? noteText(row.note) : shownName(last(row.node))}</span>
      {row.node.type === "FILE_TYPE_SYMLINK" && <span className="dim" title="Symbolic link"><span aria-hidden="true">↗</span><span className="visually-hidden"> symbolic link</span></span>}
    </div>
  );
}

function noteText(note: NonNullable<Row["note"]>): string {
  switch (note.state) {
    case "loading":
      return "Loading…";
    case "failed":
      return asApiError(note.error).message;
    case "empty":
      return "Empty";
    case "more":
      return "… and more that are not listed";
  }
}

function parentIndex(rows: readonly Row[], index: number): number {
  const depth = rows[index]?.depth ?? 1;
  for (let at = index - 1; at >= 0; at--) if ((rows[at]?.depth ?? 1) < depth) return at;
  return index;
}

/** Moves to the next name that begins with what was typed within a second. */
function typeAhead(key: string, typed: { text: string; at: number }, rows: readonly Row[], index: number, select: (at: number) => void): (() => void) | undefined {
  if (key.length !== 1 || key === "?" || key === " ") return undefined;
  const now = performance.now();
  typed.text = now - typed.at < 1000 ? typed.text + key.toLowerCase() : key.toLowerCase();
  typed.at = now;
  const begins = (row: Row | undefined) => row !== undefined && !row.note && shownName(last(row.node)).toLowerCase().startsWith(typed.text);
  const first = typed.text.length > 1 ? index : index + 1;
  for (let i = 0; i < rows.length; i++) {
    const at = (first + i) % rows.length;
    if (begins(rows[at])) return () => select(at);
  }
  return () => undefined;
}
