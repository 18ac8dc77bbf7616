import { invalidArgType } from "../errors/node.js";
import { FileType, type DirEntry } from "../gen/ctxfs/v1/fs_types_pb.js";
import type { Core } from "./core.js";
import { Dirent } from "./dirent.js";
import { pathOf } from "./paths.js";
import { join, partsOf, resolve } from "./posix.js";
import { requireObject, requireString } from "./validate.js";

type Exclude = (path: string | Dirent) => boolean;

interface GlobCall {
  cwd: string;
  /** Patterns from cwd, and those from the root. */
  relative: string[];
  absolute: string[];
  excludePatterns: string[];
  exclude: Exclude | undefined;
  withFileTypes: boolean;
}

/** fs.promises.glob of Node 22: paths from cwd, or absolute ones for absolute patterns. */
export function globFunction({ caller }: Core) {
  return async function* glob(pattern: unknown, options?: unknown): AsyncGenerator<string | Dirent, void, undefined> {
    const call = globCall(pattern, options);
    for (const [patterns, from] of [[call.relative, call.cwd], [call.absolute, "/"]] as const) {
      if (patterns.length === 0) continue;
      const excluded = excluder(call, from);
      const request = { path: from, patterns: [...patterns], exclude: call.excludePatterns, withFileTypes: true };
      for await (const { event } of caller.parts("glob", request)) {
        if (event.case !== "matches") continue;
        for (const entry of event.value.entries) {
          if (!excluded(entry)) yield call.withFileTypes ? direntOf(entry) : shown(entry, from, patterns === call.absolute);
        }
      }
    }
  };
}

function globCall(pattern: unknown, given: unknown): GlobCall {
  const patterns = typeof pattern === "string" ? [pattern] : pattern;
  if (!Array.isArray(patterns)) throw invalidArgType("patterns", ["string", "Array"], pattern);
  const options = given === undefined ? {} : requireObject(given, "options");
  const { exclude, cwd } = options;
  if (exclude !== undefined && typeof exclude !== "function" && !Array.isArray(exclude)) {
    throw invalidArgType("options.exclude", ["function", "string[]"], exclude);
  }
  const texts = patterns.map((p) => requireString(p, "patterns"));
  return {
    cwd: cwd === undefined ? "/" : resolve(pathOf(cwd, "options.cwd").shown),
    relative: texts.filter((p) => !p.startsWith("/")),
    absolute: texts.filter((p) => p.startsWith("/")).map((p) => p.slice(1)),
    excludePatterns: Array.isArray(exclude) ? (exclude as string[]) : [],
    exclude: typeof exclude === "function" ? (exclude as Exclude) : undefined,
    withFileTypes: options.withFileTypes === true,
  };
}

/** What the program's function leaves out goes with everything below it. It is asked once for each path. */
function excluder({ exclude, withFileTypes }: GlobCall, from: string): (entry: DirEntry) => boolean {
  if (!exclude) return () => false;
  const known = new Map<string, boolean>();
  const ask = (path: string, value: string | Dirent): boolean => {
    let out = known.get(path);
    if (out === undefined) known.set(path, out = exclude(value));
    return out;
  };
  return (entry) => {
    const parts = partsOf(entry.parentPath).slice(partsOf(from).length);
    for (let i = 1; i <= parts.length; i++) {
      const dir = parts.slice(0, i).join("/");
      if (ask(dir, withFileTypes ? new Dirent(parts[i - 1] ?? "", FileType.DIRECTORY, join(from, parts.slice(0, i - 1).join("/"))) : dir)) return true;
    }
    return ask(shown(entry, from, false), withFileTypes ? direntOf(entry) : shown(entry, from, false));
  };
}

function direntOf(entry: DirEntry): Dirent {
  return new Dirent(entry.name, entry.type, entry.parentPath);
}

function shown(entry: DirEntry, from: string, absolute: boolean): string {
  const path = resolve(entry.parentPath, entry.name);
  return absolute ? path : partsOf(path).slice(partsOf(from).length).join("/") || ".";
}
