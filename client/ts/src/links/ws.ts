import { createConnection, type Socket } from "node:net";
import WebSocket from "ws";
import type { Dialer, Link } from "../session/link.js";
import { sessionUrl, type Target } from "./target.js";

/** Options of WebSocket links in Node. */
export interface WsOptions {
  /** For hosts: the panel that the session acts for. */
  panel?: string | undefined;
}

/** Makes WebSocket links by the ws package: over TCP, TLS or a unix socket. */
export function wsDialer(target: Target, options: WsOptions = {}): Dialer {
  return {
    tokenInOpen: false,
    dial: (token) => dial(target, token, options),
    close: () => undefined,
  };
}

function dial(target: Target, token: string, { panel }: WsOptions): Promise<Link> {
  const headers: Record<string, string> = {};
  if (token) headers.authorization = `Bearer ${token}`;
  if (panel !== undefined) headers["ctxfs-panel"] = panel;
  const socketPath = target.socket;
  const ws = new WebSocket(sessionUrl(target), {
    headers, perMessageDeflate: false, maxPayload: 0, skipUTF8Validation: true,
    ...(socketPath === undefined ? {} : { createConnection: () => createConnection(socketPath) }),
  });
  ws.binaryType = "nodebuffer";
  return new Promise((resolve, reject) => {
    ws.once("open", () => {
      ws.removeAllListeners("error");
      resolve(linkOf(ws));
    });
    ws.once("error", reject);
  });
}

function linkOf(ws: WebSocket): Link {
  const socket = (ws as unknown as { _socket: Socket })._socket;
  const link: Link = {
    onmessage: null,
    onclose: null,
    get bufferedAmount() { return ws.bufferedAmount; },
    send: (message) => { ws.send(message); },
    close: () => { ws.close(1000); },
    pause: (on) => { if (on) ws.pause(); else ws.resume(); },
    keepAlive: (on) => { if (on) socket.ref(); else socket.unref(); },
  };
  let failed: Error | undefined;
  ws.on("message", (data: Buffer) => { link.onmessage?.(data); });
  ws.on("error", (error) => { failed = error; });
  ws.on("close", (code, reason) => {
    link.onclose?.(failed ?? new Error(reason.toString() || `the WebSocket closed with status ${code}`));
  });
  return link;
}
