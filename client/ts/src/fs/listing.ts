import { Dirent } from "#platform";
import type { DirEntry } from "../gen/ctxfs/v1/fs_types_pb.js";
import { nameOf, textBytes } from "./bytes.js";
import type { Core } from "./core.js";
import { Dir } from "./dir.js";
import { globFunction } from "./glob.js";
import { pathFields, pathOf, type VirtualPath } from "./paths.js";
import { join, partsOf } from "./posix.js";
import { optionsOf, requireInteger } from "./validate.js";
import { watchFunction } from "./watch.js";

interface ReaddirOptions { encoding?: string | null; withFileTypes?: boolean; recursive?: boolean }
interface OpendirOptions { encoding?: string | null; bufferSize?: unknown; recursive?: boolean }
type Name = string | Buffer;

/** The functions that list, find and watch. */
export function listingFunctions(core: Core) {
  const { caller } = core;
  return {
    glob: globFunction(core),
    watch: watchFunction(core),

    /** Lists a directory. */
    async readdir(path: unknown, given?: unknown): Promise<(Name | Dirent<Name>)[]> {
      const { encoding, withFileTypes, recursive } = optionsOf<ReaddirOptions>(given, {});
      const p = pathOf(path);
      const request = { ...pathFields(p), recursive: Boolean(recursive), withFileTypes: Boolean(withFileTypes) };
      const { entries } = await caller.call("readdir", request);
      const below = belowOf(entries);
      if (!withFileTypes) return entries.map((entry) => relativeName(entry, below(entry), encoding));
      return entries.map((entry) => direntOf(entry, asGiven(path, p), below(entry), encoding));
    },

    /** Opens a directory to read its entries as they arrive. */
    async opendir(path: unknown, given?: unknown): Promise<Dir> {
      const options = { ...optionsOf<OpendirOptions>(given, {}) }; // what is inherited does not count here
      const p = pathOf(path);
      const bufferSize = requireInteger(options.bufferSize === undefined ? 32 : options.bufferSize, "options.bufferSize", 1, 2 ** 32 - 1);
      const batches = caller.parts("opendir", { ...pathFields(p), recursive: Boolean(options.recursive), bufferSize: Math.min(10_000, Math.max(256, bufferSize)) });
      const first = await batches.next();
      const below = belowOf(first.done ? [] : (first.value.event.value?.entries ?? []));
      return new Dir(asGiven(path, p), batches, first, (entry) => direntOf(entry, p.shown, below(entry), options.encoding));
    },
  };
}

/** Node gives a path back as it got it, and a URL as the path that it means. */
function asGiven(path: unknown, { shown }: VirtualPath): string {
  return ArrayBuffer.isView(path) ? (path as unknown as string) : shown; // a Buffer, which Node's declarations leave out
}

/** Returns what gives the directory of an entry, from the listed one on; "" for the listed one itself, whose entries come first. */
function belowOf(entries: readonly DirEntry[]): (entry: DirEntry) => string {
  const base = partsOf(entries[0]?.parentPath ?? "").length;
  return (entry) => partsOf(entry.parentPath).slice(base).join("/");
}

function relativeName(entry: DirEntry, below: string, encoding: string | null | undefined): Name {
  if (below === "") return nameOf(entry.name, entry.rawName, encoding);
  return nameOf(`${below}/${entry.name}`, entry.rawName.length === 0 ? entry.rawName : rawBelow(below, entry.rawName), encoding);
}

function rawBelow(below: string, name: Uint8Array): Uint8Array {
  const dir = textBytes(`${below}/`);
  const path = new Uint8Array(dir.length + name.length);
  path.set(dir);
  path.set(name, dir.length);
  return path;
}

function direntOf(entry: DirEntry, dir: string, below: string, encoding: string | null | undefined): Dirent<Name> {
  return new Dirent<Name>(nameOf(entry.name, entry.rawName, encoding), entry.type, below === "" ? dir : join(dir, below));
}
