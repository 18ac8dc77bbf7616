// The tree of files as a list of rows: pure, so that it can be tested. Directories are read when they are opened.
import type { DirEntry } from "../gen/api";
import { nameOf } from "./names";

export interface Node {
  /** The names from the root. */
  names: readonly string[];
  type: NonNullable<DirEntry["type"]>;
}

/** What is known of a directory, by key: its entries, that it is being read, or why it could not be. */
export type Listing = { state: "loading" } | { state: "failed"; error: unknown } | { state: "read"; nodes: readonly Node[]; more: boolean };

export interface Row {
  key: string;
  depth: number;
  /** A file or directory, or a line that says what became of its directory. */
  node: Node;
  note?: { state: "loading" | "failed" | "empty" | "more"; error?: unknown };
  expanded?: boolean;
  /** Its place among its siblings, from 1, and how many there are. */
  position: number;
  siblings: number;
}

/** Gives a node's key: its names, joined by a sign that no name has. */
export function keyOf(names: readonly string[]): string {
  return names.join("/");
}

/** Sorts a directory's entries as people expect: directories first, numbers in names as numbers. */
export function nodesOf(parent: readonly string[], entries: readonly DirEntry[]): Node[] {
  return entries
    .map((entry) => ({ names: [...parent, nameOf(entry)], type: entry.type ?? "FILE_TYPE_UNSPECIFIED" }))
    .sort((a, b) => Number(isDirectory(b)) - Number(isDirectory(a)) || collator.compare(last(a), last(b)));
}

/** Lists the rows that the tree shows. */
export function rowsOf(listings: ReadonlyMap<string, Listing>, open: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  addRows(rows, [], 1, listings, open);
  return rows;
}

function addRows(rows: Row[], parent: readonly string[], depth: number, listings: ReadonlyMap<string, Listing>, open: ReadonlySet<string>): void {
  const listing = listings.get(keyOf(parent));
  const note = (state: "loading" | "failed" | "empty" | "more", error?: unknown): Row => ({
    key: `${keyOf(parent)}/\0${state}`, depth, node: { names: parent, type: "FILE_TYPE_DIRECTORY" }, note: { state, error }, position: 1, siblings: 1,
  });
  if (!listing || listing.state === "loading") {
    rows.push(note("loading"));
    return;
  }
  if (listing.state === "failed") {
    rows.push(note("failed", listing.error));
    return;
  }
  if (listing.nodes.length === 0) rows.push(note("empty"));
  listing.nodes.forEach((node, i) => {
    const key = keyOf(node.names);
    const expanded = isDirectory(node) ? open.has(key) : undefined;
    rows.push({ key, depth, node, expanded, position: i + 1, siblings: listing.nodes.length });
    if (expanded) addRows(rows, node.names, depth + 1, listings, open);
  });
  if (listing.more) rows.push(note("more"));
}

export function isDirectory(node: Node): boolean {
  return node.type === "FILE_TYPE_DIRECTORY";
}

export function last(node: Node): string {
  return node.names.at(-1) ?? "";
}

const collator = new Intl.Collator(undefined, { numeric: true });
