import type { EventEmitter } from "node:events";
import type { Dirent, Mode, PathLike } from "node:fs";
import type * as nodefs from "node:fs/promises";
import { attributeFunctions } from "./attributes.js";
import { constants } from "./constants.js";
import { contentFunctions } from "./content.js";
import type { Core } from "./core.js";
import type { ChangeOptions, LineRange } from "./edit.js";
import { listingFunctions } from "./listing.js";
import { nameFunctions } from "./names.js";

/** An open file: Node's FileHandle, which emits "close". */
export type OpenFile = nodefs.FileHandle & Pick<EventEmitter, "on" | "once" | "off" | "addListener" | "removeListener" | "emit">;

/** Options of glob. Entry is what exclude is asked about: a path, or a Dirent. */
export interface GlobOptions<Entry = string> {
  /** Where relative patterns count from; the root unless told. */
  cwd?: string | URL | undefined;
  /** What is left out, with everything below it: patterns, or a function. */
  exclude?: readonly string[] | ((entry: Entry) => boolean) | undefined;
}

/** fs.promises.glob of Node 22. */
export interface Glob {
  (pattern: string | readonly string[], options?: GlobOptions & { withFileTypes?: false | undefined }): AsyncGenerator<string, undefined, undefined>;
  (pattern: string | readonly string[], options: GlobOptions<Dirent> & { withFileTypes: true }): AsyncGenerator<Dirent, undefined, undefined>;
  (
    pattern: string | readonly string[],
    options: { cwd?: string | URL | undefined; exclude?: readonly string[] | ((entry: never) => boolean) | undefined; withFileTypes?: boolean | undefined },
  ): AsyncGenerator<string | Dirent, undefined, undefined>;
}

/** fs.promises.readFile, with lines. */
export type ReadFile = typeof nodefs.readFile & {
  (path: PathLike, options: { lines: LineRange; encoding: BufferEncoding; signal?: AbortSignal | undefined }): Promise<string>;
  (path: PathLike, options: { lines: LineRange; encoding?: null | undefined; signal?: AbortSignal | undefined }): Promise<Buffer>;
};

/** fs.promises.writeFile, with conditions and the etag. */
export type WriteFile = typeof nodefs.writeFile &
  ((path: PathLike, data: Parameters<typeof nodefs.writeFile>[1], options: Exclude<Parameters<typeof nodefs.writeFile>[2], string | null | undefined> & ChangeOptions) => Promise<void>);

/** fs.promises.appendFile, with conditions and the etag. */
export type AppendFile = typeof nodefs.appendFile &
  ((path: PathLike, data: string | Uint8Array, options: Exclude<Parameters<typeof nodefs.appendFile>[2], string | null | undefined> & ChangeOptions) => Promise<void>);

/** Every function of Node's fs/promises, over a context folder. */
export interface FsPromises extends Omit<typeof nodefs, "open" | "glob" | "readFile" | "writeFile" | "appendFile"> {
  /** Reads a whole file, or only some lines of it. */
  readFile: ReadFile;
  /** Writes a whole file: with a condition, only if it holds. */
  writeFile: WriteFile;
  /** Appends to a file: with a condition, only if it holds. */
  appendFile: AppendFile;
  /** Opens a file. */
  open(path: PathLike, flags?: string | number, mode?: Mode): Promise<OpenFile>;
  /** Finds paths by patterns. */
  glob: Glob;
}

/** Makes the functions over what calls the server. They need no this, so that they may be taken apart. */
export function promisesOf(core: Core): FsPromises {
  const functions = {
    ...contentFunctions(core),
    ...attributeFunctions(core),
    ...listingFunctions(core),
    ...nameFunctions(core),
    constants,
  };
  // The functions take unknown and check it, as Node's do; what they promise is Node's declarations.
  return functions as unknown as FsPromises;
}
