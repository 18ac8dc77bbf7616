import { createReadStream, createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import { grpcDialer } from "../links/grpc.js";
import { targetOf } from "../links/target.js";
import { wsDialer } from "../links/ws.js";
import type { MakeDialer, Streams } from "./types.js";

export { Buffer } from "node:buffer";
export { EventEmitter } from "node:events";
export { inspect } from "node:util";

/** Makes what connects to a server: the ws package, or grpc-js. */
export const makeDialer: MakeDialer = (options) => {
  const target = targetOf(options);
  return options.transport === "grpc" ? grpcDialer(target, options) : wsDialer(target, options);
};

/** Node's own streams, which take the operations that they are made of. */
export const streams: Streams = {
  read: (path, options, operations) => createReadStream(path as string, { ...optionsOf(options), fs: operations }),
  write: (path, options, operations) => createWriteStream(path as string, { ...optionsOf(options), fs: operations }),
  lines: (open) => createInterface({ input: open(), crlfDelay: Infinity }),
};

function optionsOf(options: unknown): object {
  return typeof options === "string" ? { encoding: options } : ((options ?? {}));
}
