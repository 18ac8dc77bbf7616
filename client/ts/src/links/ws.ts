import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Dialer, Link } from "../session/link.js";
import { fetchContent } from "./content.js";
import { frameHead, FrameParser, opcode } from "./frames.js";
import type { Target } from "./target.js";
import { connected, UpgradeAnswer, upgradeRequest } from "./upgrade.js";

/** What is read from a socket at once, in bytes. */
const readSize = 512 << 10;
/** A message up to this size is copied behind its head, which costs less than a second piece of memory. */
const small = 16 << 10;
/** How long a server has to answer the upgrade, in ms. */
const answerTimeout = 30_000;

/** Options of WebSocket links in Node. */
export interface WsOptions {
  /** For hosts: the panel that the session acts for. */
  panel?: string | undefined;
}

/** Makes WebSocket links over TCP, TLS or a unix socket. */
export function wsDialer(target: Target, options: WsOptions = {}): Dialer {
  return {
    tokenInOpen: false,
    dial: (token) => dial(target, token, options),
    content: (token, request) => fetchContent(target, headersOf(token, options), request),
    close: () => undefined,
  };
}

/** The headers that identify the caller. */
function headersOf(token: string, { panel }: WsOptions): Record<string, string> {
  const headers: Record<string, string> = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (panel !== undefined) headers["Ctxfs-Panel"] = panel;
  return headers;
}

async function dial(target: Target, token: string, options: WsOptions): Promise<Link> {
  const { request, accept } = upgradeRequest(target.host ?? "localhost", headersOf(token, options));
  const receiver: Receiver = { take: () => undefined };
  const socket = open(target, receiver);
  await connected(socket, target.secure ? "secureConnect" : "connect");
  return new Promise((resolve, reject) => {
    const answer = new UpgradeAnswer(accept);
    const fail = (why: Error): void => {
      socket.destroy();
      reject(why);
    };
    const closed = (): void => { fail(new Error("the server closed the connection")); };
    socket.setTimeout(answerTimeout, () => { fail(new Error("the server did not answer in time")); });
    socket.on("error", fail).on("close", closed);
    receiver.take = (chunk) => {
      try {
        const used = answer.push(chunk);
        if (used === undefined) return;
        socket.setTimeout(0).off("error", fail).off("close", closed);
        const link = new WsLink(socket, receiver);
        resolve(link);
        const rest = chunk.slice(used);
        if (rest.length > 0) queueMicrotask(() => { receiver.take(rest); });
      } catch (error) {
        fail(error as Error);
      }
    };
    socket.write(request);
  });
}

interface Receiver { take: (chunk: Uint8Array) => void }

/** Opens a socket that reads into one piece of memory again and again. TLS has its own. */
function open({ socket: path, host = "", secure }: Target, receiver: Receiver): Socket {
  const url = new URL(`tcp://${host || "localhost"}`);
  const port = Number(url.port);
  const name = url.hostname.replace(/^\[|\]$/g, "");
  if (secure) return connectTls({ host: name, port, servername: name }).on("data", (chunk: Buffer) => { receiver.take(chunk); });
  const onread = {
    buffer: Buffer.allocUnsafeSlow(readSize),
    callback: (n: number, bytes: Uint8Array) => {
      receiver.take(bytes.subarray(0, n));
      return true;
    },
  };
  return path === undefined ? connect({ host: name, port, noDelay: true, onread }) : connect({ path, onread });
}

class WsLink implements Link {
  onmessage: Link["onmessage"] = null;
  onclose: Link["onclose"] = null;
  private reuse = false;
  private farewell: Error | undefined;
  private readonly parser: FrameParser;

  constructor(private readonly socket: Socket, receiver: Receiver) {
    this.parser = new FrameParser({
      onmessage: (payload) => { this.onmessage?.(this.reuse ? payload : new Uint8Array(payload)); }, // a Buffer's slice is no copy
      oncontrol: (code, payload) => { this.control(code, payload); },
    });
    receiver.take = (chunk) => { this.take(chunk); };
    socket.on("error", (error) => { this.farewell ??= error; });
    socket.on("close", () => { this.onclose?.(this.farewell ?? new Error("the server closed the connection")); });
  }

  get bufferedAmount(): number {
    return this.socket.writableLength;
  }

  send(message: Uint8Array): void {
    this.write(opcode.binary, message);
  }

  close(): void {
    this.farewell ??= new Error("the connection was closed here");
    if (this.socket.writable) this.write(opcode.close, Uint8Array.of(0x03, 0xe8)); // 1000: done
    this.socket.end();
    this.socket.destroySoon();
  }

  reuseMemory(): void {
    this.reuse = true;
  }

  keepAlive(on: boolean): void {
    if (on) this.socket.ref();
    else this.socket.unref();
  }

  pause(on: boolean): void {
    if (on) this.socket.pause();
    else this.socket.resume();
  }

  private take(chunk: Uint8Array): void {
    try {
      this.parser.push(chunk);
    } catch (error) {
      this.farewell ??= error as Error;
      this.socket.destroy();
    }
  }

  private control(code: number, payload: Uint8Array): void {
    if (code === opcode.ping) this.write(opcode.pong, payload);
    if (code !== opcode.close) return;
    const status = payload.length < 2 ? 1005 : new DataView(payload.buffer, payload.byteOffset).getUint16(0);
    const reason = new TextDecoder().decode(payload.subarray(2));
    this.farewell ??= new Error(reason || `the server closed the WebSocket with status ${status}`);
    this.close();
  }

  private write(code: number, payload: Uint8Array): void {
    const head = frameHead(code, payload.length);
    if (payload.length <= small) {
      const frame = Buffer.allocUnsafe(head.length + payload.length);
      frame.set(head);
      frame.set(payload, head.length);
      this.socket.write(frame);
      return;
    }
    this.socket.cork();
    this.socket.write(head);
    this.socket.write(payload);
    this.socket.uncork();
  }
}
