import { lstatSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { cwd, env, getuid } from "node:process";
import { targetOf, type AddressOptions, type Found } from "./target.js";

/** A running server's own description, from server.json. */
export interface ServerRecord {
  workspace: string;
  /** The unix socket's path; "" when there is none. */
  socket: string;
  /** The gRPC addresses: the unix socket's and host:port. */
  addresses: string[];
  /** host:port of --http; undefined when there is none. */
  http: string | undefined;
  tls: boolean;
  /** The host's token; "" when the socket identifies the host. */
  token: string;
}

interface RecordFile { workspace: string; socket: string; addresses?: string[]; http?: string; tls?: boolean; token_file?: string }

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
    if (record) return { ...addressOf(record), token: token || record.token };
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
 * Reads the server.json of a contexts directory; undefined when there is none. The state directory has to be the caller's
 * own and closed to others: another user could otherwise send calls, and the token, to a server of their own.
 */
export function readRecord(contextsDir: string): ServerRecord | undefined {
  const state = join(contextsDir, ".ctxfs");
  try {
    requirePrivate(state);
    const file = JSON.parse(readFileSync(join(state, "server.json"), "utf8")) as RecordFile;
    return {
      workspace: file.workspace, socket: socketOf(state, file), addresses: file.addresses ?? [], http: file.http, tls: file.tls ?? false,
      token: hostToken(state, file),
    };
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "EACCES"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

function requirePrivate(state: string): void {
  const stat = lstatSync(state);
  const me = getuid?.();
  const others = me !== undefined && ((me !== 0 && stat.uid !== me) || (stat.mode & 0o077) !== 0);
  if (!stat.isDirectory() || others) throw new Error(`${state} is not a private directory of yours, so it is not believed`);
}

/** The socket beside server.json, if it is there: a server in a container records the path that it sees itself. */
function socketOf(state: string, file: RecordFile): string {
  const recorded = file.socket.replace(/^unix:\/\//, "");
  const beside = join(state, basename(recorded));
  return recorded !== "" && lstatSync(beside, { throwIfNoEntry: false })?.isSocket() ? beside : recorded;
}

/** Only a file in the state directory: the token of another file would be sent to the server that server.json names. */
function hostToken(state: string, file: RecordFile): string {
  if (file.socket !== "" || !file.token_file) return "";
  return readFileSync(join(state, basename(file.token_file)), "utf8").trim();
}

/** Where to reach the server from this machine. */
export function addressOf(record: ServerRecord): AddressOptions {
  if (record.socket !== "") return { socket: record.socket };
  const [address] = record.addresses;
  if (address === undefined) throw new Error(`the server of ${record.workspace} has no address: give ctxfs serve --listen`);
  return record.tls ? { url: `https://${address}` } : { address };
}
