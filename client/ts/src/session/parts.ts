/** Parts of a result, between the session that receives them and their reader. */
export class PartQueue<T> implements AsyncIterable<T> {
  private readonly items: T[] = [];
  private done = false;
  private why: unknown;
  private wake: (() => void) | undefined;

  /** Adds a part. */
  push(item: T): void {
    this.items.push(item);
    this.wake?.();
  }

  /** Says that no part will follow. */
  end(): void {
    this.done = true;
    this.wake?.();
  }

  /** Has the reader rejected once it has read what is there. */
  fail(why: unknown): void {
    this.why ??= why;
    this.end();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    for (;;) {
      while (this.items.length > 0) yield this.items.shift() as T;
      if (this.done) break;
      await new Promise<void>((resolve) => { this.wake = resolve; });
    }
    if (this.why !== undefined) throw this.why;
  }
}
