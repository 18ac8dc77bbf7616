import { createHash, randomBytes } from "node:crypto";
import type { Socket } from "node:net";

/** RFC 6455, 1.3. */
const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** The longest answer to an upgrade that is taken, in bytes. */
const longest = 16 << 10;

/** The bytes of an upgrade request to WebSocket, and what its answer must hold. */
export interface Upgrade {
  readonly request: string;
  readonly accept: string;
}

/** The head of a request: its lines, and headers, which must not end the head. */
export function requestHead(lines: readonly string[], headers: Readonly<Record<string, string>>): string {
  const all = [...lines];
  for (const [name, value] of Object.entries(headers)) {
    if (/[^\t\x20-\x7e]/.test(value)) throw new TypeError(`${name} cannot be sent: it holds more than visible characters`);
    all.push(`${name}: ${value}`);
  }
  return `${all.join("\r\n")}\r\n\r\n`;
}

/** Makes an upgrade request to WebSocket. */
export function upgradeRequest(host: string, headers: Readonly<Record<string, string>>): Upgrade {
  const key = randomBytes(16).toString("base64");
  const lines = ["GET /v1/session HTTP/1.1", `Host: ${host}`, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", `Sec-WebSocket-Key: ${key}`];
  return { request: requestHead(lines, headers), accept: createHash("sha1").update(key + guid).digest("base64") };
}

/** Collects the answer to an upgrade. */
export class UpgradeAnswer {
  private text = "";

  constructor(private readonly accept: string) {}

  /** Takes bytes that arrived. Returns how many of them belong to the answer once it is whole; throws when it is a refusal. */
  push(chunk: Uint8Array): number | undefined {
    const before = this.text.length;
    this.text += Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString("latin1");
    const end = this.text.indexOf("\r\n\r\n");
    if (end < 0 && this.text.length > longest) throw new Error("what answers there speaks no HTTP: is it a ctxfs server?");
    if (end < 0) return undefined;
    this.check(this.text.slice(0, end), this.text.slice(end + 4));
    return end + 4 - before;
  }

  private check(head: string, body: string): void {
    const [status = "", ...lines] = head.split("\r\n");
    const accept = lines.find((line) => /^sec-websocket-accept:/i.test(line))?.split(":")[1]?.trim();
    if (!/^HTTP\/1\.1 101\b/.test(status)) throw new Error(`the server refused a session: ${status.replace(/^HTTP\/\S+ /, "")} ${body.trim()}`.trim());
    if (accept !== this.accept) throw new Error("what answers there speaks no WebSocket: is it a ctxfs server?");
  }
}

/** Waits until a socket is connected. */
export function connected(socket: Socket, event: "connect" | "secureConnect"): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once(event, () => { resolve(); });
    socket.once("error", reject);
  });
}
