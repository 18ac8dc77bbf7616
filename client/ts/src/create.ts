import { findServer, makeDialer } from "#platform";
import { callbacksOf, type CallbackFs } from "./fs/callbacks.js";
import { Commands, type ExecOptions, type ProcessInfo, type RunningProcess } from "./exec/process.js";
import { grepFunction, type Grep } from "./fs/grep.js";
import { requireKnown } from "./errors/options.js";
import { promisesOf, type FsPromises } from "./fs/promises.js";
import { Review, Reviewer } from "./review/review.js";
import { namesServer } from "./links/target.js";
import type { DialOptions } from "./platform/types.js";
import { Client } from "./session/client.js";
import type { Caller } from "./session/operations.js";
import type { TokenSource } from "./session/token.js";

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
  /** Whose files these are. Connects, if that has not happened. */
  info(): Promise<ContextInfo>;
  /** The review of the panel's own changes. */
  readonly review: Review;
  /** The review of another context, for a panel with the right to review and for hosts. */
  reviewer(contextId: string): Reviewer;
  /** Runs a command in the context, isolated from the rest of the machine. A panel needs the right: openPanel(id, { exec: true }). */
  exec(argv: readonly string[], options?: ExecOptions): RunningProcess;
  /** Follows a process that was started before: all that it wrote, and what it writes. */
  attachProcess(id: string): RunningProcess;
  /** The processes of the context, newest first, those that ended lately too. */
  processes(): Promise<ProcessInfo[]>;
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
  Object.defineProperties(fs, {
    promises: { value: fs, enumerable: true },
    callbacks: { value: callbacksOf(fs) },
    grep: { value: grepFunction({ caller }) },
    info: { value: () => infoOf(caller, contextId) },
    review: { value: new Review(caller, "") },
    reviewer: { value: (id: string) => new Reviewer(caller, id) },
    exec: { value: (argv: readonly string[], options?: ExecOptions) => commands.exec(argv, options) },
    attachProcess: { value: (id: string) => commands.attach(id) },
    processes: { value: () => commands.list() },
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
