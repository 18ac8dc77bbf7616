import type { Dialer, Link } from "../session/link.js";
import { sessionUrl, type Target } from "./target.js";

/** Options of a page's WebSocket links. */
export interface WebSocketOptions {
  /** For hosts: the panel that the session acts for. */
  panel?: string | undefined;
}

/** Makes links by the WebSocket of the page or worker. The token travels in the open message: a page cannot set headers. */
export function webSocketDialer(target: Target, { panel }: WebSocketOptions = {}): Dialer {
  if (target.socket !== undefined) throw new TypeError("a page cannot reach a unix socket: give url, the address of --http");
  return { tokenInOpen: true, dial: () => dial(sessionUrl(target, panel)), close: () => undefined };
}

function dial(url: string): Promise<Link> {
  const ws = new WebSocket(url);
  ws.binaryType = "arraybuffer";
  return new Promise((resolve, reject) => {
    ws.onopen = () => { resolve(linkOf(ws)); };
    ws.onclose = () => { reject(new Error(`${url} is not reached, or refuses pages of this origin (ctxfs serve --origin lets them)`)); };
  });
}

function linkOf(ws: WebSocket): Link {
  const link: Link = {
    onmessage: null,
    onclose: null,
    get bufferedAmount() { return ws.bufferedAmount; },
    send: (message) => { ws.send(message); },
    close: () => { ws.close(1000); },
  };
  ws.onmessage = (event: MessageEvent<ArrayBuffer>) => { link.onmessage?.(new Uint8Array(event.data)); };
  ws.onclose = (event) => { link.onclose?.(new Error(event.reason || `the WebSocket closed with status ${event.code}`)); };
  return link;
}
