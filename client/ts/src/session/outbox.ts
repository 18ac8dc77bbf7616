import { join } from "./codec.js";

/** The most requests that one message carries. */
const maxTogether = 128;
/** The most bytes of requests that are joined: a larger one travels alone, since joining copies. */
const maxJoined = 16 << 10;
/** While so much has not left, more waits here. Requests that have left are answered, and then more is sent. */
const highWater = 4 << 20;

/** A request that waits to be sent. */
export interface Outgoing {
  readonly message: Uint8Array;
  /** Set when it was given to the link. */
  sent: boolean;
}

/** Where requests wait for the end of the turn in which they were made, so that they go as one message. */
export class Outbox {
  private waiting: Outgoing[] = [];
  private scheduled = false;

  constructor(private readonly link: { send(message: Uint8Array): void; readonly bufferedAmount: number }) {}

  /** Queues a request. */
  push(item: Outgoing): void {
    this.waiting.push(item);
    this.schedule();
  }

  /** Takes a request back; false when it is on its way. */
  remove(item: Outgoing): boolean {
    const at = this.waiting.indexOf(item);
    if (at >= 0) this.waiting.splice(at, 1);
    return at >= 0;
  }

  /** Sends what waits, at the end of this turn. */
  schedule(): void {
    if (this.scheduled || this.waiting.length === 0) return;
    this.scheduled = true;
    queueMicrotask(() => {
      this.scheduled = false;
      this.flush();
    });
  }

  private flush(): void {
    let from = 0;
    while (from < this.waiting.length && this.link.bufferedAmount < highWater) {
      const to = this.end(from);
      const batch = this.waiting.slice(from, to);
      for (const item of batch) item.sent = true;
      this.link.send(join(batch.map((item) => item.message)));
      from = to;
    }
    this.waiting = this.waiting.slice(from);
  }

  /** Returns where the message that begins with the request at from ends. */
  private end(from: number): number {
    let size = 0;
    let to = from;
    for (; to < this.waiting.length && to - from < maxTogether; to++) {
      size += this.waiting[to]?.message.length ?? 0;
      if (to > from && size >= maxJoined) break;
    }
    return to;
  }
}
