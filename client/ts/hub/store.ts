import type { HubStorage } from "../src/pages/protocol.js";

/** Where an entry is from: the parent, or the server. The server answers a navigation and a fetch of one path differently. */
export type Kind = "pushed" | "document" | "file";

/** A file as it is kept. */
export interface Entry {
  /** The kind and the path, as key has it. */
  key: string;
  headers: [string, string][];
  /** Whole, and no Blob: a browser may keep a transaction with a Blob waiting for a worker that has ended. */
  body: ArrayBuffer;
  /** When it was last written or used, in ms since the epoch. Eviction begins with the oldest. */
  used: number;
}

/** What the server told the hub, for a worker that starts without it. */
export interface Config {
  site: string;
  parents: string[];
  index: string;
  spa: boolean;
  headers: Record<string, string>;
  types: Record<string, string>;
}

/** The most bytes that are kept of one file of the server, and of all of them. What the parent puts has only the browser's limit. */
export const maxEntry = 64 << 20;
const maxStored = 512 << 20;

const database = "ctxfs-files";

/** The key of an entry. The path is canonical. */
export const key = (kind: Kind, path: string): string => `${kind}:${path}`;

/** Says whether a key is of something that the parent put. */
export const isPushed = (of: string): boolean => of.startsWith("pushed:");

/** What keeps files: IndexedDB, or a map that ends with its page. */
export interface Store {
  get(of: string): Promise<Entry | undefined>;
  /** Keeps entries, all or none. Rejects with a QuotaExceededError. */
  put(entries: readonly Entry[]): Promise<void>;
  delete(keys: readonly string[]): Promise<void>;
  clear(): Promise<void>;
  /** Keys, sizes and times, without content. */
  list(): Promise<{ key: string; size: number; used: number }[]>;
}

const resultOf = <T>(request: IDBRequest<T>): Promise<T> => new Promise((resolve, reject) => {
  request.onsuccess = () => { resolve(request.result); };
  request.onerror = () => { reject(request.error ?? new Error("IndexedDB failed")); };
});

/** Files in IndexedDB. Each change is one transaction. */
export class Database implements Store {
  private constructor(private readonly db: IDBDatabase) {}

  static async open(): Promise<Database> {
    const request = indexedDB.open(database, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("files", { keyPath: "key" });
      request.result.createObjectStore("settings");
    };
    const db = await resultOf(request);
    db.onversionchange = () => { db.close(); }; // else another page cannot change it
    return new Database(db);
  }

  get(of: string): Promise<Entry | undefined> {
    return resultOf(this.db.transaction("files").objectStore("files").get(of) as IDBRequest<Entry | undefined>);
  }

  put(entries: readonly Entry[]): Promise<void> {
    return this.change("files", (files) => { for (const entry of entries) files.put(entry); });
  }

  async delete(keys: readonly string[]): Promise<void> {
    if (keys.length > 0) await this.change("files", (files) => { for (const of of keys) files.delete(of); });
  }

  clear(): Promise<void> {
    return this.change("files", (files) => { files.clear(); });
  }

  async list(): Promise<{ key: string; size: number; used: number }[]> {
    const found: { key: string; size: number; used: number }[] = [];
    const request = this.db.transaction("files").objectStore("files").openCursor();
    await new Promise<void>((resolve, reject) => {
      request.onerror = () => { reject(request.error ?? new Error("IndexedDB failed")); };
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor) { resolve(); return; }
        const { key: of, body, used } = cursor.value as Entry;
        found.push({ key: of, size: body.byteLength, used });
        cursor.continue();
      };
    });
    return found;
  }

  /** What the worker has to know when it starts: how files are kept, and what the server told the hub. */
  settings(): Promise<{ storage: HubStorage; config: Config } | undefined> {
    return resultOf(this.db.transaction("settings").objectStore("settings").get("hub") as IDBRequest<{ storage: HubStorage; config: Config } | undefined>);
  }

  set(storage: HubStorage, config: Config): Promise<void> {
    return this.change("settings", (settings) => { settings.put({ storage, config }, "hub"); });
  }

  private async change(store: "files" | "settings", make: (store: IDBObjectStore) => void): Promise<void> {
    const transaction = this.db.transaction(store, "readwrite", { durability: "strict" });
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => { resolve(); };
      transaction.onabort = () => { reject(transaction.error ?? new Error("the transaction was ended")); };
      make(transaction.objectStore(store));
    });
  }
}

/** Files in memory. */
export class Memory implements Store {
  private readonly files = new Map<string, Entry>();
  get = (of: string): Promise<Entry | undefined> => Promise.resolve(this.files.get(of));
  put(entries: readonly Entry[]): Promise<void> {
    for (const entry of entries) this.files.set(entry.key, entry);
    return Promise.resolve();
  }
  delete(keys: readonly string[]): Promise<void> {
    for (const of of keys) this.files.delete(of);
    return Promise.resolve();
  }
  clear(): Promise<void> {
    this.files.clear();
    return Promise.resolve();
  }
  list(): Promise<{ key: string; size: number; used: number }[]> {
    return Promise.resolve([...this.files.values()].map(({ key: of, body, used }) => ({ key: of, size: body.byteLength, used })));
  }
}

/**
 * Keeps entries, and makes room for them: files of the server that were not used for longest go first. Rejects with a
 * QuotaExceededError when only the parent's files are left and the browser has no room.
 */
export async function putBounded(store: Store, entries: readonly Entry[]): Promise<void> {
  const incoming = entries.reduce((sum, { key: of, body }) => sum + (isPushed(of) ? 0 : body.byteLength), 0);
  await evict(store, maxStored - incoming);
  for (;;) {
    try {
      await store.put(entries);
      return;
    } catch (error) {
      if ((error as Error).name !== "QuotaExceededError" || !(await evict(store, await half(store)))) throw error;
    }
  }
}

async function half(store: Store): Promise<number> {
  return ofServer(await store.list()).reduce((sum, { size }) => sum + size, 0) / 2;
}

const ofServer = <T extends { key: string }>(list: readonly T[]): T[] => list.filter(({ key: of }) => !isPushed(of));

/** Deletes files of the server until the rest has at most so many bytes. Says whether it deleted one. */
async function evict(store: Store, atMost: number): Promise<boolean> {
  const list = ofServer(await store.list()).sort((a, b) => a.used - b.used);
  let bytes = list.reduce((sum, { size }) => sum + size, 0);
  const gone: string[] = [];
  for (const { key: of, size } of list) {
    if (bytes <= atMost) break;
    gone.push(of);
    bytes -= size;
  }
  await store.delete(gone);
  return gone.length > 0;
}
