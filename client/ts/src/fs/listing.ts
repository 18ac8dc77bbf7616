import type { DirEntry } from "../gen/ctxfs/v1/fs_types_pb.js";
import { nameOf } from "./bytes.js";
import type { Core } from "./core.js";
import { Dirent } from "./dirent.js";
import { pathFields, pathOf } from "./paths.js";
import { optionsOf } from "./validate.js";

interface ReaddirOptions { encoding?: string | null; withFileTypes?: boolean; recursive?: boolean }

/** The functions that list. */
export function listingFunctions({ caller }: Core) {
  return {
    /** Lists a directory. */
    async readdir(path: unknown, given?: unknown): Promise<(string | Buffer | Dirent<string | Buffer>)[]> {
      const options = optionsOf<ReaddirOptions>(given, {});
      const p = pathOf(path);
      const recursive = options.recursive === true;
      const { entries } = await caller.call("readdir", { ...pathFields(p), recursive, withFileTypes: options.withFileTypes === true });
      return entries.map((entry) => entryOf(entry, p.shown, options));
    },
  };
}

function entryOf(entry: DirEntry, dir: string, { encoding, withFileTypes }: ReaddirOptions): string | Buffer | Dirent<string | Buffer> {
  const name = nameOf(entry.name, entry.rawName, encoding);
  return withFileTypes ? new Dirent(name, entry.type, dir) : name;
}
