import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, type Stats } from "node:fs";
import { basename, dirname, join, normalize, resolve } from "node:path";
import { cwd, env, geteuid } from "node:process";
import { targetOf, type AddressOptions, type Found } from "./target.js";

/** A running server's own description, from server.json. */
export interface ServerRecord {
  workspace: string;
  /** The unix socket's path. */
  socket: string;
  /** The gRPC addresses: the unix socket's and host:port. */
  addresses: string[];
  /** host:port of --http; undefined when there is none. */
  http: string | undefined;
  tls: boolean;
}

interface RecordFile { workspace: string; socket: string; addresses?: string[]; http?: string; tls?: boolean }

/** The largest server.json, in bytes. */
const maxServerJson = 64 << 10;

/**
 * Finds the server of this process: CTXFS_ADDRESS and CTXFS_TOKEN name it, else the server.json of the nearest workspace
 * from directory from upwards. CTXFS_PANEL or CTXFS_CONTEXT says for whom a host calls. Throws when there is none.
 */
export function findServer(from = cwd()): Found {
  const { CTXFS_ADDRESS: address, CTXFS_TOKEN: token = "", CTXFS_CONTEXT: contextId, CTXFS_PANEL: panel } = env;
  const found = address ? { address, token } : nearest(resolve(from), token);
  if (found.token !== "") requireLocal(found);
  return { ...found, ...(panel ? { panel } : { contextId }) };
}

function nearest(from: string, token: string): AddressOptions & { token: string } {
  for (let dir = outsideContexts(from); ; dir = dirname(dir)) {
    const record = readRecord(join(dir, ".contexts"));
    if (record) return { ...addressOf(record), token };
    if (dir === dirname(dir)) break;
  }
  throw new Error(`no ctxfs server found from ${from} upwards: start one with 'ctxfs serve' in your workspace, set CTXFS_ADDRESS, or name one by the option address, socket or url`);
}

/** Cuts a path at the outermost contexts directory: a panel can write a server.json into its own folder, which must not lead others to its own server. */
function outsideContexts(from: string): string {
  let out = from;
  for (let dir = from; dir !== dirname(dir); dir = dirname(dir)) {
    if (basename(dir) === ".contexts" || lstatSync(join(dir, ".ctxfs"), { throwIfNoEntry: false })?.isDirectory()) out = dirname(dir);
  }
  return out;
}

/** Throws when a token would travel through a network in the clear. */
function requireLocal(found: AddressOptions): void {
  const { socket, host = "", secure } = targetOf(found);
  if (socket !== undefined || secure || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]):\d+$/.test(host)) return;
  throw new Error(`a token would travel in the clear to ${host}: use an https address, or a tunnel to a loopback address`);
}

/**
 * Reads the server.json of a contexts directory; undefined when there is none. It has to be of the caller's own user, also if that is
 * root: another user could otherwise send calls, and tokens, to a server of their own. CTXFS_TRUST_DIR is a list of contexts directories, with
 * commas, that may be another user's. No host token is read: Node does not say who listens at a socket, which identifies the host to the server.
 */
export function readRecord(contextsDir: string): ServerRecord | undefined {
  const state = join(contextsDir, ".ctxfs");
  try {
    const stat = lstatSync(state);
    if (!trusts(contextsDir)) {
      requireOwn(lstatSync(contextsDir), contextsDir, contextsDir, 0);
      requireOwn(stat, state, contextsDir);
    }
    const open = geteuid !== undefined && (stat.mode & 0o077) !== 0;
    if (!stat.isDirectory() || open) throw untidy(state, "a directory with mode 0700");
    const file = readServerJson(join(state, "server.json"), stat.uid);
    if (!file.socket) throw new Error(`${join(state, "server.json")} names no socket`);
    const socket = socketOf(state, file);
    requireSocketOf(socket, stat.uid);
    return { workspace: file.workspace, socket, addresses: file.addresses ?? [], http: file.http, tls: file.tls ?? false };
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "EACCES"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

function trusts(contextsDir: string): boolean {
  return (env.CTXFS_TRUST_DIR ?? "").split(",").some((dir) => dir !== "" && resolve(dir) === normalize(contextsDir));
}

/** Throws when a directory belongs to another user. */
function requireOwn(stat: Stats, dir: string, contextsDir: string, ...others: number[]): void {
  const me = geteuid?.();
  if (me === undefined || stat.uid === me || others.includes(stat.uid)) return;
  throw new Error(`${dir} belongs to uid ${stat.uid}, not to you (uid ${me}), so it is not believed unless CTXFS_TRUST_DIR names ${contextsDir}`);
}

function untidy(path: string, want: string): Error {
  return new Error(`${path} is not ${want}, so it is not believed`);
}

/** Reads a server.json, without following a link or waiting for a FIFO. */
function readServerJson(path: string, owner: number): RecordFile {
  if (!lstatSync(path).isFile()) throw untidy(path, "a regular file");
  const fd = openSync(path, constants.O_RDONLY | flag("O_NOFOLLOW") | flag("O_NONBLOCK"));
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw untidy(path, "a regular file");
    if (geteuid !== undefined && stat.uid !== owner) throw untidy(path, "the file of its directory's owner");
    if (geteuid !== undefined && (stat.mode & 0o022) !== 0) throw untidy(path, `closed to others (mode 0${(stat.mode & 0o777).toString(8)})`);
    if (stat.size > maxServerJson) throw untidy(path, `of at most ${maxServerJson} bytes`);
    return JSON.parse(readFileSync(fd, "utf8")) as RecordFile;
  } finally {
    closeSync(fd);
  }
}

/** A flag of open, which Windows may not have. */
function flag(name: "O_NOFOLLOW" | "O_NONBLOCK"): number {
  return (constants as Partial<typeof constants>)[name] ?? 0;
}

/** The socket beside server.json, if it is there: a server in a container records the path that it sees itself. */
function socketOf(state: string, file: RecordFile): string {
  const recorded = file.socket.replace(/^unix:\/\//, "");
  const beside = join(state, basename(recorded));
  return lstatSync(beside, { throwIfNoEntry: false })?.isSocket() ? beside : recorded;
}

/** Throws when another user than the state's owner, the caller and root made a socket: the server may have ended, and its socket be another's. */
function requireSocketOf(socket: string, owner: number): void {
  const stat = lstatSync(socket, { throwIfNoEntry: false });
  if (!stat || geteuid === undefined || [0, geteuid(), owner].includes(stat.uid)) return;
  throw new Error(`the socket ${socket} belongs to uid ${stat.uid}, and is no server of yours (uid ${geteuid()})`);
}

/** Where to reach the server from this machine. */
export function addressOf(record: ServerRecord): AddressOptions {
  return { socket: record.socket };
}
