import { lstat, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { getuid } from "node:process";
import type { AddressOptions } from "../links/target.js";

/** What a running server says of itself, in server.json. */
export interface ServerRecord {
  pid: number;
  version: string;
  workspace: string;
  /** The unix socket's path; "" when there is none. */
  socket: string;
  /** The gRPC addresses: the unix socket's and host:port. */
  addresses: string[];
  /** host:port of --http; undefined when there is none. */
  http: string | undefined;
  tls: boolean;
  /** The host's token; "" when the socket says who is host. */
  token: string;
}

interface RecordFile { pid: number; version: string; workspace: string; socket: string; addresses?: string[]; http?: string; tls?: boolean; token_file?: string }

/**
 * Reads server.json of a workspace; undefined when there is none. Only a state directory that is the caller's own and
 * closed to others is believed: another user's would lead calls, and the token, to another user's server.
 */
export async function readRecord(contextsDir: string): Promise<ServerRecord | undefined> {
  const state = join(contextsDir, ".ctxfs");
  let text: string;
  try {
    await requirePrivate(state);
    text = await readFile(join(state, "server.json"), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const file = JSON.parse(text) as RecordFile;
  return {
    pid: file.pid, version: file.version, workspace: file.workspace, socket: await socketFrom(state, file.socket.replace(/^unix:\/\//, "")),
    addresses: file.addresses ?? [], http: file.http, tls: file.tls ?? false, token: await hostToken(state, file),
  };
}

async function requirePrivate(state: string): Promise<void> {
  const stat = await lstat(state);
  const me = getuid?.();
  const others = me !== undefined && ((me !== 0 && stat.uid !== me) || (stat.mode & 0o077) !== 0);
  if (!stat.isDirectory() || others) throw new Error(`${state} is not a private directory of yours, so it is not believed`);
}

/** The socket beside server.json if it is there: a server in a container records the path that it sees itself. */
async function socketFrom(state: string, recorded: string): Promise<string> {
  const beside = join(state, basename(recorded));
  const stat = await lstat(beside).catch(() => undefined);
  return recorded !== "" && stat?.isSocket() ? beside : recorded;
}

/** Only a file in the state directory: one elsewhere would be sent to whom server.json names. */
async function hostToken(state: string, file: RecordFile): Promise<string> {
  if (file.socket !== "" || !file.token_file) return "";
  return (await readFile(join(state, basename(file.token_file)), "utf8")).trim();
}

/** Where to reach the server from this machine. */
export function addressOf(record: ServerRecord): AddressOptions {
  if (record.socket !== "") return { socket: record.socket };
  const [address] = record.addresses;
  if (address === undefined) throw new Error(`the server of ${record.workspace} has no address: give ctxfs serve --listen`);
  return record.tls ? { url: `https://${address}` } : { address };
}
