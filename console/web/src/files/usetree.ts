// The state of the tree: what was read, what is open, and which row is current.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { stream } from "../api";
import type { DirEntry } from "../gen/api";
import { pathField } from "./names";
import { isDirectory, keyOf, nodesOf, rowsOf, type Listing, type Row } from "./tree";

// A directory with more entries shows so many.
const limit = 20_000;

export interface Tree {
  rows: readonly Row[];
  toggle: (row: Row, to?: boolean) => void;
  /** Reads all open directories again. */
  reload: () => void;
}

export function useTree(contextId: string, shown: readonly string[]): Tree {
  const [listings, setListings] = useState<ReadonlyMap<string, Listing>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const abort = useRef<AbortController>(new AbortController());
  const read = useCallback((names: readonly string[]) => {
    const { signal } = abort.current;
    const key = keyOf(names);
    const found = (listing: Listing) => {
      if (!signal.aborted) setListings((was) => new Map(was).set(key, listing));
    };
    setListings((was) => (was.has(key) ? was : new Map(was).set(key, { state: "loading" })));
    readDirectory(contextId, names, signal).then(found, (error: unknown) => found({ state: "failed", error }));
  }, [contextId]);

  useEffect(() => {
    abort.current = new AbortController();
    read([]);
    return () => {
      abort.current.abort();
      setListings(new Map());
      setOpen(new Set());
    };
  }, [read]);

  const toggle = useCallback((row: Row, to?: boolean) => {
    const wanted = to ?? row.expanded !== true;
    if (wanted) read(row.node.names);
    setOpen((was) => changed(was, row.key, wanted));
  }, [read]);

  // The directories above what the route names are opened.
  const path = keyOf(shown);
  useEffect(() => {
    const names = path === "" ? [] : path.split("/");
    const above = names.slice(0, -1).map((_, i) => names.slice(0, i + 1));
    for (const directory of above) read(directory);
    setOpen((was) => new Set([...was, ...above.map(keyOf)]));
  }, [path, read]);

  const rows = useMemo(() => rowsOf(listings, open), [listings, open]);
  const reload = useCallback(() => {
    read([]);
    for (const row of rows) if (row.expanded && isDirectory(row.node)) read(row.node.names);
  }, [read, rows]);
  return { rows, toggle, reload };
}

async function readDirectory(contextId: string, names: readonly string[], signal: AbortSignal): Promise<Listing> {
  const entries: DirEntry[] = [];
  for await (const message of stream("FsService/Opendir", { contextId, bufferSize: 1000, ...pathField(names) }, { signal })) {
    entries.push(...(message.entries?.entries ?? []));
    if (entries.length >= limit) return { state: "read", nodes: nodesOf(names, entries.slice(0, limit)), more: true };
  }
  return { state: "read", nodes: nodesOf(names, entries), more: false };
}

function changed(set: ReadonlySet<string>, key: string, has: boolean): ReadonlySet<string> {
  const next = new Set(set);
  if (has) next.add(key);
  else next.delete(key);
  return next;
}
