import { nodeMajor } from "#platform";
import { innerError } from "../errors/node.js";
import { systemError, type SystemError } from "../errors/system.js";
import { contentBytes, decoded, isPieces, requireReadable } from "./bytes.js";
import type { Core } from "./core.js";
import { conditionsOf, readLines, requireAbsent, type Conditions } from "./edit.js";
import { FileHandle } from "./handle.js";
import { pathFields, pathOf, twoPathFields, type VirtualPath } from "./paths.js";
import { aborted, writePieces } from "./pieces.js";
import { readAt, writeAt } from "./transfer.js";
import { appends, callMode, flagOf, modeOf, optionsOf, requireBoolean, requireSignal, type FlagForm } from "./validate.js";

/** What fs.promises.readFile and its siblings take. */
interface FileOptions { encoding?: string | null; flag?: unknown; mode?: unknown; flush?: unknown; signal?: AbortSignal; lines?: unknown; ifMatch?: unknown; ifNoneMatch?: unknown; onEtag?: (etag: string) => void }

const fileMode = 0o666;

/** The functions that work on whole files. */
export function contentFunctions(core: Core) {
  return {
    /** Reads a whole file. */
    async readFile(path: unknown, options?: unknown): Promise<Buffer | string> {
      const { encoding, flag, signal, lines } = optionsOf<FileOptions>(options, { flag: "r" });
      if (lines !== undefined && !(path instanceof FileHandle)) return decoded((await readLines(core, path, lines, signal)).bytes, encoding);
      if (path instanceof FileHandle) {
        requireAbsent(lines, "options.lines");
        if (path.fd === -1) throw closedFile();
        return path.readFile(options);
      }
      aborted(signal);
      return decoded(await readWhole(core, pathOf(path), flagOf(flag || "r"), signal), encoding);
    },

    /** Writes a whole file. */
    writeFile: (path: unknown, data: unknown, options?: unknown) => writeWhole(core, path, data, options, "w"),

    /** Appends to a file. */
    appendFile: (path: unknown, data: unknown, options?: unknown) => writeWhole(core, path, data, options, "a"),

    /** Opens a file. */
    async open(path: unknown, flags?: unknown, mode?: unknown): Promise<FileHandle> {
      const p = pathOf(path);
      return new FileHandle(core, await openFile(core, p, flagOf(flags), modeOf(mode, "mode", fileMode)));
    },

    /** Sets a file's size. */
    async truncate(path: unknown, len: unknown = 0): Promise<void> {
      const fd = await openFile(core, pathOf(path), flagOf("r+"), fileMode);
      const handle = new FileHandle(core, fd);
      await handle.truncate(len).finally(handle.close);
    },

    /** Copies a file. */
    async copyFile(src: unknown, dest: unknown, mode?: unknown): Promise<void> {
      const from = pathOf(src, "src");
      const to = pathOf(dest, "dest");
      await core.caller.call("copyFile", { ...twoPathFields(from, to), mode: callMode(mode) });
    },
  };
}

function closedFile(): Error {
  return innerError(RangeError, "ERR_OUT_OF_RANGE", 'The value of "fd" is out of range. It must be >= 0 && <= 2147483647. Received -1');
}

async function openFile({ caller }: Core, path: VirtualPath, flag: FlagForm, mode: number, signal?: AbortSignal, more: Partial<Conditions> & { atomic?: boolean } = {}): Promise<number> {
  const flagsForm = flag.case === "flag" ? { case: "flags" as const, value: flag.value } : { case: "flagsNumber" as const, value: flag.value };
  const { fd } = await caller.call("open", { ...pathFields(path), flagsForm, modeForm: { case: "mode", value: mode }, ...more }, { signal });
  return fd;
}

async function readWhole(core: Core, path: VirtualPath, flag: FlagForm, signal: AbortSignal | undefined): Promise<Uint8Array> {
  try {
    const { content } = await core.caller.call("readFile", { ...pathFields(path), flagForm: flag }, { signal });
    return content.case === "data" ? content.value : new Uint8Array(0);
  } catch (error) {
    const e = error as SystemError;
    if (e.code === "EFBIG") return await readBeside(core, path, flag, signal) ?? await readLarge(core, path, flag, signal);
    throw withoutPath(error);
  }
}

/** A read and a write have no path: Node opens the file first. Node 26 reads in the same call. */
function withoutPath(error: unknown): unknown {
  const { code, syscall, kind } = error as SystemError;
  if (kind !== undefined) return error; // which Node does not know
  if (nodeMajor >= 26 && syscall === "read") return error;
  return syscall === "read" || syscall === "write" || syscall === "fsync" ? systemError({ code, syscall }) : error;
}

/** Reads a large file on a connection of its own, where there is such a way. */
async function readBeside({ caller }: Core, path: VirtualPath, flag: FlagForm, signal: AbortSignal | undefined): Promise<Uint8Array | undefined> {
  if (flag.value !== "r") return undefined;
  const bytes = await caller.content?.(pathFields(path), { signal });
  aborted(signal);
  return bytes;
}

/** Reads what does not fit into one message, in parts that travel at once. */
async function readLarge(core: Core, path: VirtualPath, flag: FlagForm, signal: AbortSignal | undefined): Promise<Uint8Array> {
  const { caller } = core;
  const fd = await openFile(core, path, flag, fileMode, signal);
  try {
    const { stat } = await caller.call("fstat", { fd }, { signal });
    const bytes = new Uint8Array(requireReadable(stat?.size));
    return bytes.subarray(0, await readAt(caller, fd, bytes, 0, { signal }));
  } finally {
    await caller.call("close", { fd });
  }
}

async function writeWhole(core: Core, path: unknown, data: unknown, given: unknown, def: string): Promise<void> {
  const options = optionsOf<FileOptions>(given, { encoding: "utf8" });
  const flush = requireBoolean(options.flush ?? false, "options.flush");
  const content = isPieces(data) ? data : contentBytes(data, options.encoding, "data");
  const signal = requireSignal(options.signal, "signal");
  const conditions = conditionsOf(options);
  if (path instanceof FileHandle) {
    requireAbsent(options.ifMatch ?? options.ifNoneMatch, options.ifMatch === undefined ? "options.ifNoneMatch" : "options.ifMatch");
    if (path.fd === -1) throw nodeMajor < 22 ? systemError({ code: "EBADF", syscall: "write" }) : closedFile();
    return path.writeFile(data, given);
  }
  aborted(signal);
  // Node 26 opens and writes small content in one step, whose errors name the flag otherwise.
  const oneStep = nodeMajor >= 26 && !flush && content instanceof Uint8Array && content.length <= 512 << 10;
  const file = { path: pathOf(path), flag: flagOf(options.flag || def, oneStep ? "options.flag" : "flags"), mode: modeOf(options.mode, "mode", fileMode), flush, conditions, onEtag: options.onEtag };
  // Numbers can ask for what no text says: to cut the file and then append.
  if (content instanceof Uint8Array && content.length <= core.caller.maxContent && file.flag.case === "flag") return writeSmall(core, file, content, signal);
  return writeLarge(core, file, content, { encoding: options.encoding, signal });
}

interface Destination { path: VirtualPath; flag: FlagForm; mode: number; flush: boolean; conditions: Conditions; onEtag: ((etag: string) => void) | undefined }

async function writeSmall({ caller }: Core, to: Destination, value: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
  const request = {
    ...pathFields(to.path), flagForm: to.flag, modeForm: { case: "mode" as const, value: to.mode }, flush: to.flush, ...to.conditions,
    content: { case: "data" as const, value },
  };
  const { etag } = await caller.call("writeFile", request, { signal }).catch((error: unknown) => { throw withoutPath(error); });
  if (etag) to.onEtag?.(etag);
}

async function writeLarge(
  core: Core, to: Destination, content: Uint8Array | Iterable<unknown> | AsyncIterable<unknown>,
  options: { encoding?: string | null | undefined; signal?: AbortSignal | undefined },
): Promise<void> {
  const { caller } = core;
  // With a condition the file changes whole, since another one may change it while the parts travel.
  const atomic = Object.keys(to.conditions).length > 0 && (to.flag.value === "w" || to.flag.value === "wx");
  const fd = await openFile(core, to.path, to.flag, to.mode, options.signal, { ...to.conditions, atomic });
  let written = false;
  try {
    if (content instanceof Uint8Array && !appends(to.flag)) await writeAt(caller, fd, content, 0, { signal: options.signal });
    else await writePieces(core, fd, content, options);
    if (to.flush) await caller.call("fsync", { fd }, { signal: options.signal });
    written = true;
  } finally {
    const { etag } = await caller.call("close", { fd, commit: atomic && written, flush: atomic && written && to.flush });
    if (etag) to.onEtag?.(etag);
  }
}
