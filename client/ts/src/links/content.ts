import { connect, type Socket } from "node:net";
import type { ContentRequest } from "../session/link.js";
import { contentPath, largestContent, type Target } from "./target.js";
import { requestHead } from "./upgrade.js";

/** The answer's head has to fit into this, in bytes. */
const headSize = 16 << 10;
/** The most that is read at once, in bytes. */
const readSize = 1 << 20;
/** How long the server may be silent, in ms. */
const silence = 30_000;

/**
 * Asks GET /v1/content, and has the kernel write what comes where it stays: a connection for each request, which costs
 * nothing beside many megabytes. Gives undefined when that is not to be had, whatever the reason: then
 * the session reports the error.
 */
export function fetchContent(target: Target, headers: Readonly<Record<string, string>>, request: ContentRequest): Promise<Uint8Array | undefined> {
  if (target.secure) return Promise.resolve(undefined);
  const head = requestText(target, headers, request);
  return new Promise((resolve) => {
    const download = new Download();
    const socket = open(target, download);
    const done = (): void => {
      request.signal?.removeEventListener("abort", done);
      socket.destroy();
      resolve(download.whole());
    };
    request.signal?.addEventListener("abort", done, { once: true });
    socket.once("connect", () => { socket.write(head); });
    socket.setTimeout(silence, done).once("error", done).once("close", done);
    download.ondone = done;
  });
}

function open({ socket: path, host = "" }: Target, download: Download): Socket {
  const onread = {
    buffer: () => download.room(),
    callback: (n: number) => download.came(n),
  };
  if (path !== undefined) return connect({ path, onread });
  const url = new URL(`tcp://${host}`);
  return connect({ host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port), onread });
}

function requestText(target: Target, headers: Readonly<Record<string, string>>, request: ContentRequest): string {
  return requestHead([`GET ${contentPath(request)} HTTP/1.1`, `Host: ${target.host ?? "localhost"}`, "Connection: close"], headers);
}

/** Takes an answer: its head first, and then the content, into memory of its size. */
class Download {
  ondone: () => void = () => undefined;
  private readonly head = Buffer.allocUnsafeSlow(headSize);
  private headLength = 0;
  private content: Uint8Array | undefined;
  private size = 0;

  /** Where the next bytes go. */
  room(): Uint8Array {
    return this.content ? this.content.subarray(this.size, this.size + readSize) : this.head.subarray(this.headLength);
  }

  /** Takes the n bytes that were written there; false to read no more. */
  came(n: number): boolean {
    if (this.content) this.size += n;
    else if (!this.readHead(n)) return this.stop();
    return this.content && this.size >= this.content.length ? this.stop() : true;
  }

  /** The content; undefined when it is not all there. */
  whole(): Uint8Array | undefined {
    return this.content && this.size === this.content.length ? this.content : undefined;
  }

  private stop(): boolean {
    this.ondone();
    return false;
  }

  /** False when the answer is none with content of a known size. */
  private readHead(n: number): boolean {
    this.headLength += n;
    const end = this.head.subarray(0, this.headLength).indexOf("\r\n\r\n");
    if (end < 0) return this.headLength < headSize;
    const text = this.head.toString("latin1", 0, end);
    const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1];
    if (!/^HTTP\/1\.1 200\b/.test(text) || length === undefined || Number(length) > largestContent) return false;
    this.content = new Uint8Array(Number(length));
    const rest = this.head.subarray(end + 4, this.headLength);
    this.content.set(rest.subarray(0, this.content.length));
    this.size = rest.length;
    return true;
  }
}
