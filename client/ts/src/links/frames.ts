/** What a WebSocket frame says it is (RFC 6455, 5.2). */
export const opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** The largest message that is taken, in bytes: replies have at most 4 MiB. */
const largest = 64 << 20;

/** Told of what arrives. Payloads are views of memory that is used again, unless the parser owns none. */
export interface FrameEvents {
  onmessage(payload: Uint8Array): void;
  oncontrol(code: number, payload: Uint8Array): void;
}

/** The other end broke the protocol. */
export class ProtocolError extends Error {}

/**
 * Takes a WebSocket's bytes apart. A message that arrived whole is handed over where it stands; one in several pieces
 * is put together in memory that the next one uses again.
 */
export class FrameParser {
  private readonly head = new Uint8Array(14);
  private headLength = 0;
  /** The frame that is being received. */
  private code = 0;
  private final = true;
  private left = -1;
  /** The pieces so far: of a message, or of a control frame. */
  private message = new Uint8Array(64 << 10);
  private size = 0;
  private readonly control = new Uint8Array(125);
  private controlSize = 0;
  private fragmented = false;

  constructor(private readonly events: FrameEvents) {}

  /** Takes bytes that arrived. Throws a ProtocolError. */
  push(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.left < 0) {
        at = this.readHead(chunk, at);
        if (this.left < 0) continue; // the head is not whole, or its frame is empty and done
      }
      const n = Math.min(this.left, chunk.length - at);
      this.take(chunk.subarray(at, at + n));
      at += n;
    }
  }

  /** Collects a frame's head, and returns where it ends in the chunk. left is not negative once it is whole. */
  private readHead(chunk: Uint8Array, from: number): number {
    let at = from;
    while (at < chunk.length) {
      this.head[this.headLength++] = chunk[at++] ?? 0;
      if (this.headLength < 2 || this.headLength < this.headSize()) continue;
      this.begin();
      break;
    }
    return at;
  }

  private headSize(): number {
    const length = (this.head[1] ?? 0) & 127;
    return 2 + (length === 126 ? 2 : length === 127 ? 8 : 0);
  }

  private begin(): void {
    const [first = 0, second = 0] = this.head;
    if ((first & 0x70) !== 0 || (second & 0x80) !== 0) throw new ProtocolError("the server sent a WebSocket frame that cannot be");
    this.final = (first & 0x80) !== 0;
    this.code = first & 15;
    this.headLength = 0;
    this.left = this.length(second & 127);
    this.controlSize = 0;
    if (this.isControl() && (this.left > 125 || !this.final)) throw new ProtocolError("the server sent a control frame that cannot be");
    if (!this.isControl() && this.left + this.size > largest) throw new ProtocolError("the server sent a message that is too large");
    if (this.left === 0) this.take(this.head.subarray(0, 0));
  }

  private length(short: number): number {
    const view = new DataView(this.head.buffer);
    if (short === 126) return view.getUint16(2);
    return short === 127 ? view.getUint32(2) * 2 ** 32 + view.getUint32(6) : short;
  }

  private isControl(): boolean {
    return this.code >= opcode.close;
  }

  /** Takes a piece of the frame, and hands on what is complete. */
  private take(piece: Uint8Array): void {
    const whole = piece.length === this.left;
    this.left -= piece.length;
    if (this.isControl()) this.takeControl(piece, whole);
    else if (whole && this.final && this.size === 0 && !this.fragmented) this.events.onmessage(piece);
    else this.takePart(piece, whole);
    if (whole) this.left = -1;
  }

  private takeControl(piece: Uint8Array, whole: boolean): void {
    this.control.set(piece, this.controlSize);
    this.controlSize += piece.length;
    if (whole) this.events.oncontrol(this.code, this.control.slice(0, this.controlSize));
  }

  private takePart(piece: Uint8Array, whole: boolean): void {
    this.room(piece.length + this.left);
    this.message.set(piece, this.size);
    this.size += piece.length;
    this.fragmented ||= whole && !this.final;
    if (!whole || !this.final) return;
    const { size } = this;
    this.size = 0;
    this.fragmented = false;
    this.events.onmessage(this.message.subarray(0, size));
  }

  private room(n: number): void {
    // One byte more than is needed: a message is never the whole of its memory, so a receiver cannot transfer it.
    const needed = this.size + n + 1;
    if (needed <= this.message.length) return;
    const larger = new Uint8Array(Math.max(needed, this.message.length * 2));
    larger.set(this.message.subarray(0, this.size));
    this.message = larger;
  }
}

/** The head of a client's frame that holds size bytes. */
export function frameHead(code: number, size: number): Uint8Array {
  const extra = size < 126 ? 0 : size < 65_536 ? 2 : 8;
  // The key of four zeros leaves the content as it is. Keys are for browsers, where a page that chooses the content must
  // not choose what proxies see; a program in Node can write to sockets whatever it likes.
  const head = new Uint8Array(6 + extra);
  const view = new DataView(head.buffer);
  head[0] = 0x80 | code;
  head[1] = 0x80 | (extra === 0 ? size : extra === 2 ? 126 : 127);
  if (extra === 2) view.setUint16(2, size);
  if (extra === 8) {
    view.setUint32(2, Math.floor(size / 2 ** 32));
    view.setUint32(6, size >>> 0);
  }
  return head;
}
