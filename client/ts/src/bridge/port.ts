/**
 * What a MessagePort of a page, of worker_threads and of Electron's main process (MessagePortMain) have in common.
 * Listening differs: the first two are EventTargets, the last is an EventEmitter.
 */
export interface AnyPort {
  postMessage(message: unknown, transfer: never[]): void;
  close(): void;
  start?(): void;
}

interface Target { addEventListener(type: string, listener: (event: { data: unknown }) => void): void }
interface Emitter { on(type: string, listener: (event: { data: unknown }) => void): unknown }

/** A port of any of the three kinds, spoken to in one way. It begins to receive when it is made. */
export class Port {
  /** Called with each message. */
  onmessage: ((message: unknown) => void) | null = null;
  /** Called once when either end closed. */
  onclose: (() => void) | null = null;
  /** ArrayBuffers can be transferred to and from this end. Electron's main process can only copy. */
  readonly transfers: boolean;
  private closed = false;

  /** Takes a port over. Set onmessage and onclose in the same turn of the event loop. */
  constructor(private readonly raw: AnyPort) {
    this.transfers = "addEventListener" in raw;
    const heard = (event: { data: unknown }): void => { this.receive(event.data); };
    const ended = (): void => { this.end(); };
    if (this.transfers) {
      (raw as unknown as Target).addEventListener("message", heard);
      (raw as unknown as Target).addEventListener("close", ended);
    } else {
      (raw as unknown as Emitter).on("message", heard);
      (raw as unknown as Emitter).on("close", ended);
    }
    raw.start?.();
  }

  /** Whether it has closed. */
  get over(): boolean {
    return this.closed;
  }

  /** Sends a message. A buffer in it is moved to the other end if transfer names it. */
  post(message: unknown, transfer?: ArrayBuffer): void {
    if (this.closed) return;
    this.raw.postMessage(message, (transfer ? [transfer] : []) as never[]);
  }

  /** Closes both ends. Some systems do not report it to the other end, so "bye" does. */
  close(): void {
    if (this.closed) return;
    this.post(bye);
    this.raw.close();
    this.end();
  }

  /** Lets the process end though the port is open (false), or not (true). */
  keepAlive(on: boolean): void {
    const { ref, unref } = this.raw as { ref?: () => void; unref?: () => void };
    (on ? ref : unref)?.call(this.raw);
  }

  private receive(message: unknown): void {
    if (this.closed) return;
    if (message === bye) {
      this.raw.close();
      this.end();
      return;
    }
    this.onmessage?.(message);
  }

  private end(): void {
    if (this.closed) return;
    this.closed = true;
    this.onclose?.();
  }
}

/** The last message of a port that is closed on purpose. */
const bye = "bye";
