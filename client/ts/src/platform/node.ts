import { grpcDialer } from "../links/grpc.js";
import { targetOf } from "../links/target.js";
import { wsDialer } from "../links/ws.js";
import type { MakeDialer } from "./types.js";

export { Buffer } from "node:buffer";
export { EventEmitter } from "node:events";

/** Makes what connects to a server: the ws package, or grpc-js. */
export const makeDialer: MakeDialer = (options) => {
  const target = targetOf(options);
  return options.transport === "grpc" ? grpcDialer(target, options) : wsDialer(target, options);
};
