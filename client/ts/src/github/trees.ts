import { treeName, type TreeEntry } from "./objects.js";

/** A file that a tree gets, or loses with sha null. */
interface Change { path: string; mode: string; sha: string | null }

/** Returns the name that a tree has after changes. list reads a tree. */
export async function changedTree(base: string, changes: readonly Change[], list: (sha: string) => Promise<Map<string, TreeEntry>>): Promise<string> {
  return (await changed(base, changes, list)) ?? treeName(new Map());
}

/** As changedTree; undefined for a tree that has become empty, which git does not keep. */
async function changed(base: string | undefined, changes: readonly Change[], list: (sha: string) => Promise<Map<string, TreeEntry>>): Promise<string | undefined> {
  const entries = base === undefined ? new Map<string, TreeEntry>() : new Map(await list(base));
  const below = new Map<string, Change[]>();
  for (const change of changes) {
    const slash = change.path.indexOf("/");
    if (slash < 0) {
      if (change.sha !== null) entries.set(change.path, { mode: change.mode, sha: change.sha });
      else if (entries.get(change.path)?.mode !== "40000") entries.delete(change.path);
      continue;
    }
    const name = change.path.slice(0, slash);
    below.set(name, [...(below.get(name) ?? []), { ...change, path: change.path.slice(slash + 1) }]);
  }
  for (const [name, inner] of below) {
    const entry = entries.get(name);
    const isTree = entry?.mode === "40000";
    if (!isTree && inner.every(({ sha }) => sha === null)) continue; // they went with the directory
    const sha = await changed(isTree ? entry.sha : undefined, inner, list);
    if (sha === undefined) entries.delete(name);
    else entries.set(name, { mode: "40000", sha });
  }
  return entries.size === 0 ? undefined : treeName(entries);
}
