import { findServer, makeDialer } from "#platform";
import { callbacksOf, type CallbackFs } from "./fs/callbacks.js";
import { Commands, type AttachOptions, type ExecOptions, type ProcessInfo, type RunningProcess } from "./exec/process.js";
import { exportArchive, importArchive, type ArchiveSource, type ArchiveSummary, type ExportOptions, type ImportOptions } from "./fs/archives.js";
import { editFunctions, type EditFile, type ReadLines } from "./fs/edit.js";
import { batchFunction, type Batch } from "./fs/batch.js";
import { feedFunction, type WatchChanges } from "./fs/feed.js";
import { grepFunction, type Grep } from "./fs/grep.js";
import type { PathLike } from "./fs/paths.js";
import { requireKnown } from "./errors/options.js";
import { promisesOf, type FsPromises } from "./fs/promises.js";
import { Git } from "./git/git.js";
import { Review, Reviewer } from "./review/review.js";
import { openSite, type OpenSite, type SiteOptions } from "./pages/site.js";
import { namesServer } from "./links/target.js";
import type { DialOptions } from "./platform/types.js";
import { Client } from "./session/client.js";
import type { Caller } from "./session/operations.js";
import type { TokenSource } from "./session/token.js";
import { clearZone, listZones, type ZoneInfo } from "./zones/zones.js";

/** Options of createFs and connect. One of address, socket and url names the server. Pages have to give url. */
export interface CreateOptions extends DialOptions {
  /** The panel's token, or a function that gives a current one: it is asked again before a token expires. */
  token?: TokenSource | undefined;
  /** For hosts: the context to work in. A panel's token says it. */
  contextId?: string | undefined;
  /** How often the client uses an open FileHandle to keep it open, in ms: less than the server's --idle-timeout. The default is a minute. */
  pingEvery?: number | undefined;
}

/** What a panel may know of its context. */
export interface ContextInfo {
  /** Names the context. "" for a host that named none. */
  contextId: string;
  /** The Electron session partition that belongs to it: "persist:" and its ID. */
  partition: string;
  /** What changes something is refused. */
  readOnly: boolean;
}

/** The fs object: Node's fs/promises, which serves as an fs plug-in in both forms. */
export interface CtxFs extends FsPromises {
  /** The object itself. */
  readonly promises: CtxFs;
  /** The same functions with callbacks, and createReadStream and createWriteStream: for libraries that want Node's fs. */
  readonly callbacks: CallbackFs;
  /** Searches files for a regular expression, line by line. */
  readonly grep: Grep;
  /** Sends a directory with all below it, or one file, as a tar or zip archive. */
  exportArchive(path: PathLike, options?: ExportOptions): ReadableStream<Uint8Array>;
  /** Extracts an archive into a directory, which is made if it is missing. If it rejects, nothing has changed. */
  importArchive(source: ArchiveSource, into: PathLike, options?: ImportOptions): Promise<ArchiveSummary>;
  /** Changes a text file by exact text or by lines: all edits, or none. */
  readonly editFile: EditFile;
  /** Reads lines of a file, with its etag. */
  readonly readLines: ReadLines;
  /** Carries out several changes as one: all of them, or none. */
  readonly batch: Batch;
  /** Reports who changed what, from a cursor on, over restarts of the caller and of the server. */
  readonly watchChanges: WatchChanges;
  /** Whose files these are. Connects, if that has not happened. */
  info(): Promise<ContextInfo>;
  /** The review of the panel's own changes. */
  readonly review: Review;
  /** The review of another context, for a panel with the right to review and for hosts. */
  reviewer(contextId: string): Reviewer;
  /** Commits of the panel's own changes. */
  readonly git: Git;
  /** The zones of the context, by path; one, "/", if it has none. */
  zones(options?: { measure?: boolean | undefined }): Promise<ZoneInfo[]>;
  /** Removes everything in a zone whose files are never committed. Returns how many files and links that were. */
  clearZone(zone: string): Promise<number>;
  /** Runs a command in the context, isolated from the rest of the machine. A panel needs the right: openPanel(id, { exec: true }). */
  exec(argv: readonly string[], options?: ExecOptions): RunningProcess;
  /** Follows a process that was started before: all that it wrote, and what it writes. */
  attachProcess(id: string, options?: AttachOptions): RunningProcess;
  /** The processes of the context, newest first, those that ended lately too. */
  processes(): Promise<ProcessInfo[]>;
  /** Opens a site: a URL at which browsers read the context's files. The server needs --gateway. */
  openSite(options?: SiteOptions): Promise<OpenSite>;
  /** Ends the connection. Open handles close after the server's grace. */
  disconnect(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Makes an fs that connects at its first call. In Node options that name no server mean the one that CTXFS_ADDRESS names,
 * else that of the workspace around the working directory. Throws when there is none, and for options that do not exist.
 */
export function createFs(options: CreateOptions = {}): CtxFs {
  const whole = withServer(options);
  return fsOver(new Client({ ...whole, dialer: makeDialer(whole) }), whole);
}

/** Makes an fs as createFs does, and connects it. Rejects when the server is not reached, or refuses. */
export async function connect(options: CreateOptions = {}): Promise<CtxFs> {
  const whole = withServer(options);
  const caller = new Client({ ...whole, dialer: makeDialer(whole) });
  await caller.ready();
  return fsOver(caller, whole);
}

function withServer(options: CreateOptions): CreateOptions {
  requireKnown(options, ["address", "socket", "url", "panel", "transport", "token", "contextId", "pingEvery"]);
  if (namesServer(options)) return options;
  if (!findServer) throw new TypeError("a page has to name its server: give url, the address of --http");
  const { token, contextId, panel, ...address } = findServer();
  const whole = { ...options, ...address, token: options.token ?? token };
  return options.token ?? options.contextId ?? options.panel ? whole : { ...whole, contextId, panel };
}

/** Makes an fs over anything that calls the server. */
export function fsOver(caller: Caller, { pingEvery, contextId }: Pick<CreateOptions, "pingEvery" | "contextId"> = {}): CtxFs {
  const fs = promisesOf({ caller, pingEvery }) as CtxFs;
  const commands = new Commands(caller, contextId ?? "");
  const editing = editFunctions({ caller });
  Object.defineProperties(fs, {
    promises: { value: fs, enumerable: true },
    callbacks: { value: callbacksOf(fs) },
    grep: { value: grepFunction({ caller }) },
    exportArchive: { value: (path: PathLike, options?: ExportOptions) => exportArchive(caller, path, options) },
    importArchive: { value: (source: ArchiveSource, into: PathLike, options?: ImportOptions) => importArchive(caller, source, into, options) },
    editFile: { value: editing.editFile },
    readLines: { value: editing.readLines },
    batch: { value: batchFunction({ caller }) },
    watchChanges: { value: feedFunction({ caller }) },
    info: { value: () => infoOf(caller, contextId) },
    review: { value: new Review(caller, "") },
    reviewer: { value: (id: string) => new Reviewer(caller, id) },
    git: { value: new Git(caller, "") },
    zones: { value: (options?: { measure?: boolean | undefined }) => listZones(caller, "", options) },
    clearZone: { value: (zone: string) => clearZone(caller, "", zone) },
    exec: { value: (argv: readonly string[], options?: ExecOptions) => commands.exec(argv, options) },
    attachProcess: { value: (id: string, options?: AttachOptions) => commands.attach(id, options) },
    processes: { value: () => commands.list() },
    openSite: { value: (options?: SiteOptions) => openSite(caller, fs, options) },
    disconnect: { value: () => caller.close() },
    [Symbol.asyncDispose]: { value: () => caller.close() },
  });
  return fs;
}

async function infoOf(caller: Caller, named: string | undefined): Promise<ContextInfo> {
  const ready = await caller.ready();
  const contextId = named ?? ready.contextId;
  return { contextId, partition: `persist:${contextId}`, readOnly: ready.readOnly };
}
