import nodefs from "node:fs"; // imports by name would make bundlers rename our classes Stats and Dir
import { emitWarning, versions } from "node:process";
import { createInterface } from "node:readline";
import type { Dirent as DirentClass } from "../fs/dirent.js";
import { findServer as find } from "../links/discover.js";
import { grpcDialer } from "../links/grpc.js";
import { targetOf, type Found } from "../links/target.js";
import { wsDialer } from "../links/ws.js";
import type { LoadGateway, LoadHost, MakeDialer, NodeClasses, Streams } from "./types.js";

export { Buffer } from "node:buffer";
export { EventEmitter } from "node:events";
export { inspect } from "node:util";

/** The major version of the Node that runs. Where versions of Node differ, the client does as this one. */
export const nodeMajor = parseInt(versions.node);

export const nodeClasses: NodeClasses = { Stats: nodefs.Stats, Dir: nodefs.Dir };

/** Node's own class. Its declaration leaves out the constructor. */
export const Dirent = nodefs.Dirent as unknown as typeof DirentClass;
export type Dirent<Name extends string | Uint8Array = string> = DirentClass<Name>;

const warned = new Set<string>();

/** Emits a warning as Node's fs does, once for each text. With a code it is a deprecation. */
export function warnOnce(message: string, code?: string): void {
  if (warned.has(message)) return;
  warned.add(message);
  if (code === undefined) emitWarning(message);
  else emitWarning(message, "DeprecationWarning", code);
}

/** Loads what starts servers for sandboxes. */
export const loadHost: LoadHost = () => import("../sandbox/host.js");

/** Loads what sends requests to a gateway. */
export const loadGateway: LoadGateway = () => import("../links/gateway.js");

/** Finds the server of this process. */
export const findServer: (() => Found) | undefined = () => find();

/** Makes what connects to a server: the ws package, or grpc-js. */
export const makeDialer: MakeDialer = (options) => {
  const target = targetOf(options);
  return options.transport === "grpc" ? grpcDialer(target, options) : wsDialer(target, options);
};

/** Node's own streams, which take the operations that they are made of. */
export const streams: Streams = {
  read: (path, options, operations) => nodefs.createReadStream(path as string, { ...optionsOf(options), fs: operations }),
  write: (path, options, operations) => nodefs.createWriteStream(path as string, { ...optionsOf(options), fs: operations }),
  lines: (open) => createInterface({ input: open(), crlfDelay: Infinity }),
};

function optionsOf(options: unknown): object {
  return typeof options === "string" ? { encoding: options } : ((options ?? {}));
}
