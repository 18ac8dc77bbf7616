/** Most bytes of data that are under way through a port in one direction, but for one message. */
export const defaultWindow = 1 << 20;

/** Sends messages while the other end has room, and keeps the others until it has. */
export class Outflow {
  private readonly waiting: Uint8Array[] = [];
  private underWay = 0;
  private kept = 0;

  /** post sends a message at once. */
  constructor(private readonly window: number, private readonly post: (bytes: Uint8Array) => void) {}

  /** Bytes that wait for room. */
  get buffered(): number {
    return this.kept;
  }

  /** Sends a message, now or when there is room. */
  send(bytes: Uint8Array): void {
    this.waiting.push(bytes);
    this.kept += bytes.length;
    this.flush();
  }

  /** The other end has passed so many bytes on. More than were sent is a lie, which gains nothing. */
  ack(bytes: number): void {
    this.underWay = Math.max(0, this.underWay - bytes);
    this.flush();
  }

  private flush(): void {
    while (this.underWay < this.window) {
      const next = this.waiting.shift();
      if (!next) return;
      this.kept -= next.length;
      this.underWay += next.length;
      this.post(next);
    }
  }
}

/** Counts bytes that arrived and bytes that were forwarded, and acknowledges these to the sender in steps. */
export class Inflow {
  private open = 0;
  private passed = 0;

  /** ack sends an acknowledgement. */
  constructor(private readonly window: number, private readonly ack: (bytes: number) => void) {}

  /** Counts a message that came; false when the sender did not wait for room. */
  came(bytes: number): boolean {
    const allowed = this.open < this.window;
    this.open += bytes;
    return allowed;
  }

  /** Counts bytes that were forwarded. Small amounts are acknowledged together. */
  gone(bytes: number): void {
    this.passed += bytes;
    if (this.passed < this.window / 4) return;
    this.open -= this.passed;
    this.ack(this.passed);
    this.passed = 0;
  }
}
