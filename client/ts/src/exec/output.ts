/** How much output that is not read is kept, in bytes: as much as the server keeps. */
const maxUnread = 16 << 20;

/** One output stream of a process. Output without a reader is bounded: the oldest is dropped. */
export class OutputBuffer {
  /** What a program reads. */
  readonly stream: ReadableStream<Uint8Array>;
  /** How many bytes were dropped, here or by the server. */
  dropped = 0;
  /** The offset of what comes next. */
  offset = 0n;
  private readonly unread: Uint8Array[] = [];
  private size = 0;
  private over = false;
  private cancelled = false;
  private why: unknown;
  private wake: (() => void) | undefined;

  constructor() {
    this.stream = new ReadableStream<Uint8Array>({
      pull: (controller) => this.pull(controller),
      cancel: () => {
        this.cancelled = true;
        this.unread.length = this.size = 0;
      },
    }, { highWaterMark: 0 });
  }

  /** Adds what the server sent. */
  push(data: Uint8Array, offset: bigint, dropped: bigint): void {
    this.dropped += Number(dropped);
    this.offset = offset + BigInt(data.length);
    if (this.cancelled) return;
    this.unread.push(data);
    this.size += data.length;
    while (this.size > maxUnread) this.dropOldest();
    this.wake?.();
  }

  /** Ends the stream, with an error if why is one. */
  end(why?: unknown): void {
    this.over = true;
    this.why = why;
    this.wake?.();
  }

  private dropOldest(): void {
    const oldest = this.unread.shift()?.length ?? 0;
    this.size -= oldest;
    this.dropped += oldest;
  }

  private async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    while (this.unread.length === 0 && !this.over) await new Promise<void>((resolve) => { this.wake = resolve; });
    const next = this.unread.shift();
    if (next) {
      this.size -= next.length;
      controller.enqueue(next);
    } else if (this.why === undefined) controller.close();
    else controller.error(this.why);
  }
}
