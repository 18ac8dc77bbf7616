import { targetOf } from "../links/target.js";
import { webSocketDialer } from "../links/websocket.js";
import type { MakeDialer } from "./types.js";

export { Buffer } from "buffer/";
export { EventEmitter } from "./emitter.js";

/** Makes what connects to a server: the page's WebSocket. */
export const makeDialer: MakeDialer = (options) => webSocketDialer(targetOf(options), options);
