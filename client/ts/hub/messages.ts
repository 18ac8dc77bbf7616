import type { Entry, Meta } from "./store.js";

/**
 * The version of what the hub and the worker say to each other, and of what they store. A hub works with every worker of its own version: a browser
 * may keep an older worker for as long as a page reads a video through it.
 */
export const version = 2;

/** What the hub asks the worker, with a port for the reply. */
export type ToWorker =
  | { ask: "version" }
  /** The hub's files changed: the worker drops what it has in memory of these keys; of all without keys. */
  | { ask: "drop"; keys?: string[] };

/** What the worker asks a hub that keeps files in memory, with a port for the reply. */
export type ToHub =
  /** The first of these entries. */
  | { ask: "get"; keys: string[] }
  | { ask: "immutable"; key: string }
  | { ask: "find"; key: string }
  | { ask: "put"; entries: Entry[] }
  | { ask: "delete"; keys: string[] };

/** What a hub replies to the worker. */
export interface FromHub { entry?: Entry | undefined; meta?: Meta | undefined }

/** A request with this header is the hub's for a file of the server: the worker leaves it alone. */
export const directHeader = "Ctxfs-Direct";

/** Where a worker, or a page that has one, takes messages. */
interface Receiver { postMessage(message: unknown, transfer: Transferable[]): void }

/** Asks over a port of its own. Rejects when there is no reply in time, as from a page that has ended. */
export function ask<T>(receiver: Receiver, message: ToWorker | ToHub, ms: number): Promise<T> {
  const { port1, port2 } = new MessageChannel();
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => { port1.close(); reject(new Error("no reply")); }, ms);
    port1.onmessage = ({ data }: MessageEvent<T>) => { clearTimeout(timer); port1.close(); resolve(data); };
    receiver.postMessage(message, [port2]);
  });
}
