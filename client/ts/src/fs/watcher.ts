import { EventEmitter } from "#platform";
import type { SystemError } from "../errors/system.js";

interface Change { eventType: string; filename: unknown }

/** A watch with events, as Node's FSWatcher: "change", "error" and "close". */
export class FileWatcher extends EventEmitter {
  readonly #stop = new AbortController();

  /** Begins the watch that start makes. */
  constructor(start: (signal: AbortSignal) => AsyncIterable<Change>) {
    super();
    void this.#follow(start);
  }

  /** Ends the watch. */
  close(): void {
    this.#stop.abort();
  }

  /** For programs written for Node, where a watch may let the process end. */
  ref(): this {
    return this;
  }

  /** As ref: give persistent: false to watch instead. */
  unref(): this {
    return this;
  }

  async #follow(start: (signal: AbortSignal) => AsyncIterable<Change>): Promise<void> {
    try {
      for await (const { eventType, filename } of start(this.#stop.signal)) this.emit("change", eventType, filename);
    } catch (error) {
      if ((error as SystemError).code !== "ABORT_ERR") this.emit("error", error);
    }
    this.emit("close");
  }
}
