import { Dirent } from "#platform";
import { invalidArgType } from "../errors/node.js";
import type { SystemError } from "../errors/system.js";
import { FileType, type DirEntry } from "../gen/ctxfs/v1/fs_types_pb.js";
import type { Core } from "./core.js";
import { pathOf } from "./paths.js";
import { dirname, isWithin, join, partsOf, resolve } from "./posix.js";
import { requireObject, requireString } from "./validate.js";

type Exclude = (path: string | Dirent) => boolean;

interface GlobCall {
  patterns: string[];
  cwd: string;
  excludePatterns: string[];
  exclude: Exclude | undefined;
  withFileTypes: boolean;
}

/** A pattern as it is looked for: in the directory base, which may be reached through links, by what is left of it. */
interface Search {
  readonly base: string;
  /** What names found are shown after: the pattern's own words for base. */
  readonly prefix: string;
  readonly rest: string;
  /** The pattern ends with a slash: only directories are meant. */
  readonly directories: boolean;
}

interface Match { shown: string; entry: Dirent }

/** fs.promises.glob of Node 22: paths from cwd, or absolute ones for absolute patterns. */
export function globFunction(core: Core) {
  return async function* glob(pattern: unknown, options?: unknown): AsyncGenerator<string | Dirent, void, undefined> {
    const call = globCall(pattern, options);
    const seen = new Set<string>();
    for (const text of call.patterns) {
      for await (const { shown, entry } of matches(core, call, searchOf(text, call))) {
        if (seen.has(shown)) continue;
        seen.add(shown);
        yield call.withFileTypes ? entry : shown;
      }
    }
  };
}

async function* matches(core: Core, call: GlobCall, search: Search): AsyncGenerator<Match, void, undefined> {
  try {
    if (search.rest === "") yield* itself(core, search);
    else yield* below(core, call, search);
  } catch (error) {
    // A pattern that leads to nothing finds nothing.
    if (!nothing.has((error as SystemError).code)) throw error;
  }
}

const nothing = new Set(["ENOENT", "ENOTDIR", "ELOOP", "ENAMETOOLONG"]);

/** The one path that a pattern without wildcards means. */
async function* itself({ caller }: Core, { base, prefix, directories }: Search): AsyncGenerator<Match, void, undefined> {
  if (prefix === "" || prefix.endsWith("..")) return;
  const type = (await caller.call("lstat", { path: base })).stat?.type ?? FileType.UNSPECIFIED;
  if (!directories || type === FileType.DIRECTORY) yield { shown: prefix, entry: direntAt(base, type) };
}

async function* below({ caller }: Core, call: GlobCall, search: Search): AsyncGenerator<Match, void, undefined> {
  const { base, prefix, rest, directories } = search;
  const request = { path: base, patterns: [rest], exclude: call.excludePatterns, withFileTypes: true };
  const excluded = excluder(call, isWithin(call.cwd, base) ? call.cwd : base);
  let first = rest === "**";
  for await (const { event } of caller.parts("glob", request)) {
    if (first) yield { shown: prefix === "" ? "." : prefix, entry: direntAt(base, FileType.DIRECTORY) };
    first = false;
    for (const entry of event.case === "matches" ? event.value.entries : []) {
      if ((directories && entry.type !== FileType.DIRECTORY) || excluded(entry)) continue;
      const path = namesOf(entry, base);
      if (path !== "") yield { shown: prefix === "" ? path : `${prefix === "/" ? "" : prefix}/${path}`, entry: direntOf(entry) };
    }
  }
}

const wild = /[*?[\]{}()!+@]/;

/** Resolves the words before the first wildcard here: they may be links, or "..", which the server's patterns may not. */
function searchOf(pattern: string, { cwd, excludePatterns }: GlobCall): Search {
  const parts = alternatives(pattern.replaceAll("\\", "/")).split("/").filter((part) => part !== "" && part !== ".");
  const at = parts.findIndex((part) => wild.test(part));
  // Patterns of exclude mean paths from cwd, and so the search begins there.
  const fixed = excludePatterns.length > 0 && at >= 0 ? [] : parts.slice(0, at < 0 ? parts.length : at);
  const words = pattern.startsWith("/") ? `/${fixed.join("/")}` : fixed.join("/");
  return {
    base: resolve(cwd, words), prefix: words === "" ? "" : words.startsWith("/") ? resolve(words) : join("", words),
    rest: parts.slice(fixed.length).join("/"), directories: pattern.endsWith("/"),
  };
}

/** "@(a|b)" is another way to write "{a,b}". */
function alternatives(pattern: string): string {
  return pattern.replace(/@\(([^()]*)\)/g, (_, words: string) => (words.includes("|") ? `{${words.replaceAll("|", ",")}}` : words));
}

function globCall(pattern: unknown, given: unknown): GlobCall {
  const patterns = patternsOf(pattern);
  const options = given === undefined ? {} : requireObject(given, "options");
  const { exclude = null, cwd } = options;
  if (exclude !== null && typeof exclude !== "function" && !Array.isArray(exclude)) {
    throw invalidArgType("options.exclude", ["function", "string[]"], exclude);
  }
  return {
    patterns,
    cwd: cwd === undefined ? "/" : resolve(pathOf(cwd, "options.cwd").shown),
    excludePatterns: Array.isArray(exclude) ? exclude.map((p, i) => requireString(p, `options.exclude[${i}]`)) : [],
    exclude: typeof exclude === "function" ? (exclude as Exclude) : undefined,
    withFileTypes: Boolean(options.withFileTypes),
  };
}

function patternsOf(pattern: unknown): string[] {
  if (Array.isArray(pattern)) return pattern.map((p, i) => requireString(p, `patterns[${i}]`));
  if (typeof pattern === "object") throw invalidArgType("patterns", "Array", pattern);
  return [requireString(pattern, "patterns")];
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
    return ask(namesOf(entry, from), withFileTypes ? direntOf(entry) : namesOf(entry, from));
  };
}

function direntOf(entry: DirEntry): Dirent {
  return new Dirent(entry.name, entry.type, entry.parentPath);
}

function direntAt(path: string, type: FileType): Dirent {
  return new Dirent(path.slice(path.lastIndexOf("/") + 1), type, dirname(path));
}

/** The path of an entry from a directory above it. */
function namesOf(entry: DirEntry, from: string): string {
  return partsOf(resolve(entry.parentPath, entry.name)).slice(partsOf(from).length).join("/");
}
