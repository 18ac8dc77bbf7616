import { Buffer } from "#platform";
import { ArchiveFormat, type ArchiveSummary as Summary } from "../gen/ctxfs/v1/fs_messages_pb.js";
import { systemError, type SystemError } from "../errors/system.js";
import type { Caller } from "../session/operations.js";
import { pathFields, pathOf, type PathLike, type VirtualPath } from "./paths.js";
import { dirname, join, resolve } from "./posix.js";
import { requireObject, requireSignal } from "./validate.js";

/** Options of exportArchive. */
export interface ExportOptions {
  /** tar unless told. A tar archive keeps hard links, and times to the nanosecond. */
  format?: "tar" | "zip" | undefined;
  /** Globs of files and directories to leave out; one without a slash is matched with the name. */
  exclude?: readonly string[] | undefined;
  /** Sends .git too, which is left out and named otherwise: in a repository git would obey its settings and run its hooks. */
  git?: boolean | undefined;
  /** Called at the end, when the archive is complete. */
  onSummary?: ((summary: ArchiveSummary) => void) | undefined;
  /** Ends the export: the stream fails with an AbortError. */
  signal?: AbortSignal | undefined;
}

/** Options of importArchive. */
export interface ImportOptions {
  /** tar unless told. */
  format?: "tar" | "zip" | undefined;
  /** Replaces files that exist. Without it, such a file rejects with EEXIST, and nothing is changed. */
  overwrite?: boolean | undefined;
  /** Cancels the import. Nothing has changed then, unless the server was killed. */
  signal?: AbortSignal | undefined;
}

/** What an archive carried. */
export interface ArchiveSummary {
  /** Files, hard links included. */
  files: number;
  directories: number;
  symlinks: number;
  /** Content of the files. */
  bytes: number;
  /** How many names an export left out: special files, and what the server cannot read. */
  leftOut: number;
  /** The first 1,000 of them. */
  leftOutNames: string[];
}

const formats = { tar: ArchiveFormat.TAR, zip: ArchiveFormat.ZIP } as const;

function formatOf(format: unknown): ArchiveFormat {
  if (format === undefined) return ArchiveFormat.TAR;
  if (format !== "tar" && format !== "zip") throw new TypeError(`unknown format of archives ${JSON.stringify(format)}: the formats are "tar" and "zip"`);
  return formats[format];
}

function summaryOf(s: Summary | undefined): ArchiveSummary {
  return {
    files: Number(s?.files ?? 0), directories: Number(s?.directories ?? 0), symlinks: Number(s?.symlinks ?? 0), bytes: Number(s?.bytes ?? 0),
    leftOut: Number(s?.leftOut ?? 0), leftOutNames: s?.leftOutNames ?? [],
  };
}

/** Sends a directory with all below it, or one file, as an archive. The stream fails if the archive cannot be completed. */
export function exportArchive(caller: Caller, of: PathLike, given: ExportOptions = {}): ReadableStream<Uint8Array> {
  const options = requireObject(given, "options") as ExportOptions;
  const path = pathOf(of, "path");
  const signal = requireSignal(options.signal, "options.signal");
  const request = { path: path.path, rawPath: path.raw, format: formatOf(options.format), exclude: [...(options.exclude ?? [])], git: options.git === true };
  const stop = new AbortController();
  const parts = caller.parts("export", request, { signal: signal ? AbortSignal.any([signal, stop.signal]) : stop.signal });
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const next = await parts.next();
        if (next.done) {
          controller.close();
          return;
        }
        const part = next.value;
        if (part.event.case === "summary") options.onSummary?.(summaryOf(part.event.value));
        if (part.event.case !== "chunk") continue;
        controller.enqueue(part.event.value);
        return;
      }
    },
    async cancel() {
      stop.abort();
      await parts.return?.();
    },
  }, { highWaterMark: 0 });
}

/** The bytes of an archive: a stream, or anything that gives it in pieces. */
export type ArchiveSource = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | Iterable<Uint8Array> | Uint8Array;

/**
 * Extracts an archive into a directory, which is made if it is missing. If it rejects, nothing has changed, unless the server was killed while
 * it moved entries into a directory that exists: then some are new, and with overwrite what they replaced is lost. The archive is first
 * written to the server, into a file that no one sees.
 */
export async function importArchive(caller: Caller, source: ArchiveSource, into: PathLike, given: ImportOptions = {}): Promise<ArchiveSummary> {
  const options = requireObject(given, "options") as ImportOptions;
  const path = pathOf(into, "path");
  const signal = requireSignal(options.signal, "options.signal");
  const format = formatOf(options.format);
  const fd = await openSpool(caller, path, signal);
  const release = caller.hold();
  try {
    for await (const piece of piecesOf(source)) {
      for (let at = 0; at < piece.length; at += caller.maxContent) {
        const data = piece.subarray(at, at + caller.maxContent);
        await caller.call("write", { fd, content: { case: "data", value: data } }, { signal });
      }
    }
    const { summary } = await caller.call("extract", { fd, path: path.path, rawPath: path.raw, format, overwrite: options.overwrite ?? false }, { signal });
    return summaryOf(summary);
  } finally {
    await caller.call("close", { fd }).catch(() => undefined); // a lost connection closes it too
    release();
  }
}

/**
 * Opens the file that holds the archive: in the target, or in the nearest directory above it that exists. A file at "/" would not do: a
 * context with zones has none there, and the space is that of the target's zone. The file is never committed, and so never has its name.
 */
async function openSpool(caller: Caller, { path, raw, shown }: VirtualPath, signal: AbortSignal | undefined): Promise<number> {
  const name = `.import-${crypto.randomUUID()}`;
  const bytes = raw.length > 0 ? Buffer.from(raw) : Buffer.from(path);
  for (let dir = resolve("/", bytes.toString("latin1")); ; dir = dirname(dir)) { // latin1 keeps each byte of a path that is not UTF-8
    const at = pathOf(Buffer.from(join(dir, name), "latin1"));
    try {
      return (await caller.call("open", { ...pathFields(at), flagsForm: { case: "flags", value: "w+" }, atomic: true }, { signal })).fd;
    } catch (error) {
      const { code, syscall, detail, hint, kind } = error as SystemError;
      if (syscall === undefined || kind === "context") throw error;
      // The file's own name is nobody's concern.
      if ((code !== "ENOENT" && code !== "ENOTDIR") || dir === "/") throw systemError({ code, syscall: "import", path: shown, detail, hint, kind });
    }
  }
}

async function* piecesOf(source: ArchiveSource): AsyncGenerator<Uint8Array, void> {
  if (source instanceof Uint8Array) yield source;
  else if (Symbol.asyncIterator in source || Symbol.iterator in source) yield* source;
  else {
    const reader = (source as ReadableStream<Uint8Array>).getReader(); // browsers without iteration of streams
    try {
      for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) if (value) yield value;
    } finally {
      await reader.cancel();
    }
  }
}
