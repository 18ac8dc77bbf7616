type Listener = (...args: unknown[]) => void;

/** The part of Node's EventEmitter that FileHandle needs, for browsers. */
export class EventEmitter {
  private readonly listeners = new Map<string | symbol, Listener[]>();

  /** Calls listener at each event. */
  on(event: string | symbol, listener: Listener): this {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
    return this;
  }

  /** As on. */
  addListener(event: string | symbol, listener: Listener): this {
    return this.on(event, listener);
  }

  /** Calls listener at the next event only. */
  once(event: string | symbol, listener: Listener): this {
    const once: Listener = (...args) => {
      this.off(event, once);
      listener.apply(this, args);
    };
    return this.on(event, once);
  }

  /** Calls listener no more. */
  off(event: string | symbol, listener: Listener): this {
    this.listeners.set(event, (this.listeners.get(event) ?? []).filter((l) => l !== listener));
    return this;
  }

  /** As off. */
  removeListener(event: string | symbol, listener: Listener): this {
    return this.off(event, listener);
  }

  /** Calls the listeners of an event; false when there is none. */
  emit(event: string | symbol, ...args: unknown[]): boolean {
    const listeners = this.listeners.get(event) ?? [];
    for (const listener of listeners) listener.apply(this, args);
    return listeners.length > 0;
  }
}
