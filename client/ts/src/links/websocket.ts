import type { Dialer, Link } from "../session/link.js";
import { contentByFetch } from "./fetched.js";
import { sessionUrl, type Target } from "./target.js";

/** Options of a page's WebSocket links. */
export interface WebSocketOptions {
  /** For hosts: the panel that the session acts for. */
  panel?: string | undefined;
}

/** Makes links by the WebSocket of the page or worker. The token travels in the open message: a page cannot set headers. */
export function webSocketDialer(target: Target, { panel }: WebSocketOptions = {}): Dialer {
  if (target.socket !== undefined) throw new TypeError("a page cannot reach a unix socket: give url, the address of --http");
  return { tokenInOpen: true, dial: () => dial(sessionUrl(target, panel)), content: contentByFetch(target, panel), close: () => undefined };
}

function dial(url: string): Promise<Link> {
  const ws = new WebSocket(url);
  ws.binaryType = "arraybuffer";
  return new Promise((resolve, reject) => {
    ws.onopen = () => { resolve(new PageLink(ws)); };
    ws.onclose = () => { reject(new Error(`${url} is not reached, or refuses pages of this origin (ctxfs serve --origin lets them)`)); };
  });
}

/** A class, since Rollup takes the null of an object literal for one that stays, and drops the calls. */
class PageLink implements Link {
  onmessage: ((message: Uint8Array) => void) | null = null;
  onclose: ((why: Error) => void) | null = null;

  constructor(private readonly ws: WebSocket) {
    ws.onmessage = (event: MessageEvent<ArrayBuffer>) => { this.onmessage?.(new Uint8Array(event.data)); };
    ws.onclose = (event) => { this.onclose?.(new Error(event.reason || `the WebSocket closed with status ${event.code}`)); };
  }

  get bufferedAmount(): number {
    return this.ws.bufferedAmount;
  }

  send(message: Uint8Array): void {
    this.ws.send(message);
  }

  close(): void {
    this.ws.close(1000);
  }
}
