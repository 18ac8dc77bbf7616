import { nodeError } from "../errors/node.js";
import { linesOf } from "../exec/lines.js";
import { targetOf } from "../links/target.js";
import { webSocketDialer } from "../links/websocket.js";
import type { LoadGateway, LoadHost, MakeDialer, NodeClasses, Streams } from "./types.js";

export { Buffer } from "buffer/";
export { EventEmitter } from "./emitter.js";
export { Dirent } from "../fs/dirent.js";
export { inspect } from "../errors/inspect.js";

/** Pages get the behaviour of Node 20, which is the oldest that bundled libraries expect. */
export const nodeMajor: number = 20;

export const nodeClasses: NodeClasses = {};

/** Pages get no warnings of Node. */
export const warnOnce = (): void => undefined;

/** Pages cannot start servers. */
export const loadHost: LoadHost = undefined;

/** Pages ask a gateway themselves. */
export const loadGateway: LoadGateway = undefined;

/** Pages have neither an environment nor a working directory, and name their server themselves. */
export const findServer = undefined;

/** Makes what connects to a server: the page's WebSocket. */
export const makeDialer: MakeDialer = (options) => webSocketDialer(targetOf(options), options);

/** Browsers have none of Node's streams. */
export const streams: Streams = {
  read: () => { throw noStreams("createReadStream"); },
  write: () => { throw noStreams("createWriteStream"); },
  lines: (_, bytes) => linesOf(bytes()),
};

function noStreams(name: string): Error {
  const why = `${name}() needs Node's streams, which browsers do not have: use readableWebStream() of a FileHandle, or writeFile with an async iterable`;
  return nodeError(Error, "ERR_METHOD_NOT_IMPLEMENTED", why);
}
