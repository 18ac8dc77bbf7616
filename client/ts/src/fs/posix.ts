/*
 * What paths of ctxfs need of POSIX path arithmetic: they are POSIX paths from the context's root on every system, and
 * browsers have no node:path.
 */

/** The parts of a path, with "." and ".." resolved; ".." leads nowhere beyond the root. */
export function partsOf(path: string): string[] {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return parts;
}

/** The absolute path that a path means. */
export function resolve(...paths: string[]): string {
  const from = paths.findLastIndex((path) => path.startsWith("/"));
  return `/${partsOf(paths.slice(Math.max(0, from)).join("/")).join("/")}`;
}

/** Joins a directory's path, as it was given, and a name in it. */
export function join(dir: string, name: string): string {
  const parts: string[] = [];
  for (const part of `${dir}/${name}`.split("/")) {
    if (part === "..") {
      if (parts.length > 0 && parts.at(-1) !== "..") parts.pop();
      else if (!dir.startsWith("/")) parts.push("..");
    } else if (part !== "" && part !== ".") parts.push(part);
  }
  return (dir.startsWith("/") ? "/" : "") + parts.join("/") || ".";
}

/** The directory of a path. */
export function dirname(path: string): string {
  return resolve(path, "..");
}

/** What stands after the last slash. */
export function basename(path: string): string {
  return partsOf(path).at(-1) ?? "";
}

/** Says whether inner is outer, or below it. Both are absolute. */
export function isWithin(outer: string, inner: string): boolean {
  const below = partsOf(inner);
  return partsOf(outer).every((part, i) => below[i] === part);
}
