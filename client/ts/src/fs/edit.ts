import { invalidArgValue } from "../errors/node.js";
import { decoded } from "./bytes.js";
import type { Core } from "./core.js";
import { pathFields, pathOf, type PathLike } from "./paths.js";
import { requireBoolean, requireInteger, requireObject, requireSignal, requireString } from "./validate.js";

/** Which lines of a file. */
export interface LineRange {
  /** The first line, from 1; 1 unless told. */
  start?: number | undefined;
  /** How many; all from start on unless told. */
  count?: number | undefined;
}

/** Lines of a file. */
export interface Lines {
  /** The lines with their ends. */
  text: string;
  /** How many lines the file has; undefined if it is too large to count them. */
  totalLines: number | undefined;
  /** What ifMatch takes: it stands for the file as it was read. "" where the files have none. */
  etag: string;
}

/** What a change requires of the file it is about. If that is not so, it rejects with an error whose kind is "condition" and whose etag is the present one. */
export interface ChangeConditions {
  /** The etag that the file must have. */
  ifMatch?: string | undefined;
  /** "*": nothing may have the name. */
  ifNoneMatch?: "*" | undefined;
}

/** Options of writeFile and appendFile besides Node's. */
export interface ChangeOptions extends ChangeConditions {
  /**
   * Called before the promise resolves, with the etag that the file has with this content. It is not called where the files have none, nor
   * for content that travels in parts, unless there is a condition.
   */
  onEtag?: ((etag: string) => void) | undefined;
}

/** An edit: of oldText, or of the lines from startLine to endLine. */
export type TextEdit =
  | { oldText: string; newText: string; /** Replaces every place; without it, oldText has to be there exactly once. */ all?: boolean | undefined }
  | { startLine: number; /** startLine - 1 inserts newText before startLine. */ endLine: number; newText: string };

/** Options of editFile. */
export interface EditOptions {
  /** The etag that the file must have. */
  ifMatch?: string | undefined;
  /** Changes nothing, and says what would change. */
  dryRun?: boolean | undefined;
  /** Waits until the content is on the disk. */
  flush?: boolean | undefined;
  /** Cancels the call. */
  signal?: AbortSignal | undefined;
}

/** What editFile changed. */
export interface Edited {
  /** How many replacements each edit made. */
  replacements: number[];
  linesAdded: number;
  linesRemoved: number;
  /** The unified diff; "" when nothing changed. */
  diff: string;
  /** Only the first lines of the diff are here. */
  diffTruncated: boolean;
  /** The etag that the file has now. */
  etag: string;
}

/** Changes a text file on the server: all edits, in order, or none. An error about an edit has the kind "edit", and names the lines. */
export type EditFile = (path: PathLike, edits: TextEdit | readonly TextEdit[], options?: EditOptions) => Promise<Edited>;

/** Reads lines of a file, as UTF-8, with the file's etag. They may have up to 3.5 MiB. */
export type ReadLines = (path: PathLike, lines?: LineRange & { signal?: AbortSignal | undefined }) => Promise<Lines>;

/** The conditions of a request. */
export interface Conditions { ifMatch?: string; ifNoneMatch?: string }

/** The conditions that options ask for. */
export function conditionsOf({ ifMatch, ifNoneMatch }: { ifMatch?: unknown; ifNoneMatch?: unknown }): Conditions {
  return {
    ...(ifMatch === undefined ? {} : { ifMatch: requireEtag(ifMatch, "options.ifMatch") }),
    ...(ifNoneMatch === undefined ? {} : { ifNoneMatch: requireString(ifNoneMatch, "options.ifNoneMatch") }),
  };
}

/** An etag. The server takes an empty one for none, which would change any file. */
export function requireEtag(value: unknown, name: string): string {
  const etag = requireString(value, name);
  if (etag === "") throw invalidArgValue(name, etag, "is no etag");
  return etag;
}

/** Refuses an option that needs a path, where a FileHandle was given. */
export function requireAbsent(value: unknown, name: string): void {
  if (value !== undefined) throw invalidArgValue(name, value, "needs a path, not a FileHandle");
}

/** Reads lines, as bytes. */
export async function readLines({ caller }: Core, path: unknown, given: unknown, signal?: AbortSignal): Promise<{ bytes: Uint8Array; totalLines: number | undefined; etag: string }> {
  const { start = 1, count } = requireObject(given, "options.lines") as LineRange;
  const lines = {
    start: BigInt(requireInteger(start, "options.lines.start", 1)), count: BigInt(count === undefined ? 0 : requireInteger(count, "options.lines.count", 1)),
  };
  const reply = await caller.call("readFile", { ...pathFields(pathOf(path)), flagForm: { case: "flag", value: "r" }, lines: lines as never }, { signal });
  const { content, totalLines, etag } = reply;
  return { bytes: content.case === "data" ? content.value : new Uint8Array(0), totalLines: totalLines === undefined ? undefined : Number(totalLines), etag };
}

/** Makes editFile and readLines over what calls the server. */
export function editFunctions(core: Core): { editFile: EditFile; readLines: ReadLines } {
  return {
    async editFile(path, edits, given = {}) {
      const options = requireObject(given, "options") as EditOptions;
      const list = Array.isArray(edits) ? edits as readonly TextEdit[] : [edits as TextEdit];
      const request = {
        ...pathFields(pathOf(path)), edits: list.map(editOf) as never, ...conditionsOf({ ifMatch: options.ifMatch }),
        dryRun: requireBoolean(options.dryRun ?? false, "options.dryRun"), flush: requireBoolean(options.flush ?? false, "options.flush"),
      };
      const { replacements, linesAdded, linesRemoved, diff, diffTruncated, etag } = await core.caller.call("editFile", request, { signal: requireSignal(options.signal, "options.signal") });
      return { replacements, linesAdded, linesRemoved, diff, diffTruncated, etag };
    },
    async readLines(path, { signal, ...lines } = {}) {
      const { bytes, totalLines, etag } = await readLines(core, path, lines, requireSignal(signal, "options.signal"));
      return { text: decoded(bytes, "utf8") as string, totalLines, etag };
    },
  };
}

function editOf(given: TextEdit): object {
  const edit = requireObject(given, "edits");
  const newText = requireString(edit.newText, "newText");
  if (edit.oldText !== undefined) return { oldText: requireString(edit.oldText, "oldText"), newText, all: requireBoolean(edit.all ?? false, "all") };
  return { startLine: BigInt(requireInteger(edit.startLine, "startLine", 1)), endLine: BigInt(requireInteger(edit.endLine, "endLine", 0)), newText };
}
