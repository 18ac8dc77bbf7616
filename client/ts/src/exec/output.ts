/** How much output of a stream that the program has not asked for is kept, in bytes: as much as the server keeps. */
const maxUnread = 16 << 20;

/** Output that waits to be read, and what to call when it was. */
interface Unread { data: Uint8Array; used: () => void }

/** One output stream of a process. A program that has asked for it reads a pipe. Otherwise the output is bounded: the oldest is dropped. */
export class OutputBuffer {
  /** How many bytes were dropped, here or by the server. */
  dropped = 0;
  /** The offset of what comes next. */
  offset = 0n;
  readonly #stream: ReadableStream<Uint8Array>;
  private readonly unread: Unread[] = [];
  private size = 0;
  private asked = false;
  private over = false;
  private cancelled = false;
  private why: unknown;
  private wake: (() => void) | undefined;

  constructor() {
    this.#stream = new ReadableStream<Uint8Array>({
      pull: (controller) => this.pull(controller),
      cancel: () => {
        this.cancelled = true;
        while (this.unread.length > 0) this.take();
      },
    }, { highWaterMark: 0 });
  }

  /** What a program reads. From now on nothing is dropped here. */
  get stream(): ReadableStream<Uint8Array> {
    this.asked = true;
    return this.#stream;
  }

  /** Adds what the server sent. used is called when the server may send more for it. */
  push(data: Uint8Array, offset: bigint, dropped: bigint, used: () => void): void {
    this.dropped += Number(dropped);
    this.offset = offset + BigInt(data.length);
    this.unread.push({ data, used });
    this.size += data.length;
    if (this.cancelled) this.take();
    else if (!this.asked) {
      used();
      while (this.size > maxUnread) this.dropped += this.take()?.length ?? 0;
    }
    this.wake?.();
  }

  /** Ends the stream, with an error if why is one. */
  end(why?: unknown): void {
    this.over = true;
    this.why = why;
    this.wake?.();
  }

  private take(): Uint8Array | undefined {
    const next = this.unread.shift();
    this.size -= next?.data.length ?? 0;
    next?.used();
    return next?.data;
  }

  private async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    while (this.unread.length === 0 && !this.over) await new Promise<void>((resolve) => { this.wake = resolve; });
    const next = this.take();
    if (next) controller.enqueue(next);
    else if (this.why === undefined) controller.close();
    else controller.error(this.why);
  }
}
