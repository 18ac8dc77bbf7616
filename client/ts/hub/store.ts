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
}

/** What is known of an entry without its content. */
export interface Meta {
  key: string;
  size: number;
  etag: string | undefined;
  /** The server said that the file never changes, as those of a snapshot. */
  immutable: boolean;
  /** When a file was last stored or used, in ms since the epoch: eviction begins with the oldest. Not of files that are never evicted. */
  used?: number;
}

/** What the server wrote into the hub's page and into the worker's script. */
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
/** A use is noted this long after the last one that was, in ms: not each request writes to the database. */
const useInterval = 60_000;

const database = "ctxfs-files";
/** Version 1 had no "meta". */
const databaseVersion = 2;

/** The key of an entry. The path is canonical. */
export const key = (kind: Kind, path: string): string => `${kind}:${path}`;

/** Says whether a key is of something that the parent put. */
export const isPushed = (of: string): boolean => of.startsWith("pushed:");

/** Says whether a file may be evicted. The parent's are nowhere else, and without the hub's own no hub opens when the server is away. */
const isEvictable = (of: string): boolean => !isPushed(of) && !of.includes(":/__ctxfs/");

/** What keeps files: IndexedDB, or a map that ends with its page. */
export interface Store {
  get(of: string): Promise<Entry | undefined>;
  /** Finds what is known of an entry, without reading its content. Counts as a use. */
  find(of: string): Promise<Meta | undefined>;
  /**
   * Keeps entries, all or none, and deletes the files of the server that were not used for longest beyond the bound. Rejects with a
   * QuotaExceededError when only the parent's files are left and the browser has no room.
   */
  put(entries: readonly Entry[]): Promise<void>;
  delete(keys: readonly string[]): Promise<void>;
  clear(): Promise<void>;
  /** Lists what is kept, without content. */
  list(): Promise<Meta[]>;
}

/** What is known of an entry. */
export function metaOf({ key: of, headers, body }: Entry): Meta {
  const header = (wanted: string): string | undefined => headers.find(([name]) => name.toLowerCase() === wanted)?.[1];
  const immutable = /\bimmutable\b/.test(header("cache-control") ?? "");
  return { key: of, size: body.byteLength, etag: header("etag"), immutable, ...(isEvictable(of) ? { used: Date.now() } : {}) };
}

const resultOf = <T>(request: IDBRequest<T>): Promise<T> => new Promise((resolve, reject) => {
  request.onsuccess = () => { resolve(request.result); };
  request.onerror = () => { reject(request.error ?? new Error("IndexedDB failed")); };
});

/** The parent counts on what it put. Files of the server can be had again, and need not be on the disk before a page goes on. */
const durabilityOf = (keys: readonly string[]): IDBTransactionDurability => (keys.some(isPushed) ? "strict" : "relaxed");

/** The object stores of one transaction. A function that changes them waits for their requests only, since a transaction ends without one. */
interface Stores { files: IDBObjectStore; meta: IDBObjectStore; settings: IDBObjectStore }

const bytesKey = "bytes";

/** Reads the size of all files that may be evicted. A number beside the files is kept of it, so that putting a file does not read the others. */
const bytesOf = async ({ settings }: Stores): Promise<number> => await resultOf(settings.get(bytesKey) as IDBRequest<number | undefined>) ?? 0;

/** Deletes an entry, and returns its size if it could have been evicted, else 0. */
async function remove({ files, meta }: Stores, of: string): Promise<number> {
  const found = await resultOf(meta.get(of) as IDBRequest<Meta | undefined>);
  files.delete(of);
  meta.delete(of);
  return found?.used === undefined ? 0 : found.size;
}

/** Deletes files, beginning with the least recently used, until bytes is at most so many. Returns what is left of bytes. */
async function evict({ files, meta }: Stores, bytes: number, atMost: number): Promise<number> {
  const request = meta.index("used").openCursor();
  for (let cursor = await resultOf(request); cursor && bytes > atMost; cursor = await resultOf(request)) {
    const { key: of, size } = cursor.value as Meta;
    files.delete(of);
    cursor.delete();
    bytes -= size;
    cursor.continue();
  }
  return bytes;
}

/** Files in IndexedDB. Each change is one transaction. */
export class Database implements Store {
  private constructor(private readonly db: IDBDatabase) {}

  static async open(): Promise<Database> {
    const request = indexedDB.open(database, databaseVersion);
    request.onupgradeneeded = () => {
      for (const name of [...request.result.objectStoreNames]) request.result.deleteObjectStore(name);
      request.result.createObjectStore("files", { keyPath: "key" });
      request.result.createObjectStore("meta", { keyPath: "key" }).createIndex("used", "used");
      request.result.createObjectStore("settings");
    };
    const db = await resultOf(request);
    db.onversionchange = () => { db.close(); }; // else another page cannot change it
    return new Database(db);
  }

  get(of: string): Promise<Entry | undefined> {
    return resultOf(this.db.transaction("files").objectStore("files").get(of) as IDBRequest<Entry | undefined>);
  }

  async find(of: string): Promise<Meta | undefined> {
    const found = await resultOf(this.db.transaction("meta").objectStore("meta").get(of) as IDBRequest<Meta | undefined>);
    if (found?.used !== undefined && Date.now() - found.used > useInterval) {
      await this.change("relaxed", async ({ meta }) => {
        if (await resultOf(meta.count(of)) > 0) meta.put({ ...found, used: Date.now() });
      });
    }
    return found;
  }

  async put(entries: readonly Entry[]): Promise<void> {
    for (;;) {
      try {
        await this.change(durabilityOf(entries.map(({ key: of }) => of)), async (stores) => { await keep(stores, entries); });
        return;
      } catch (error) {
        if ((error as Error).name !== "QuotaExceededError" || !(await this.makeRoom())) throw error;
      }
    }
  }

  async delete(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return;
    await this.change(durabilityOf(keys), async (stores) => {
      let bytes = await bytesOf(stores);
      for (const of of keys) bytes -= await remove(stores, of);
      stores.settings.put(bytes, bytesKey);
    });
  }

  clear(): Promise<void> {
    return this.change("strict", ({ files, meta, settings }) => {
      files.clear();
      meta.clear();
      settings.delete(bytesKey);
    });
  }

  list(): Promise<Meta[]> {
    return resultOf(this.db.transaction("meta").objectStore("meta").getAll() as IDBRequest<Meta[]>);
  }

  /** What the worker has to know when it starts: how the hub that was opened last keeps files. */
  settings(): Promise<HubStorage | undefined> {
    return resultOf(this.db.transaction("settings").objectStore("settings").get("hub") as IDBRequest<HubStorage | undefined>);
  }

  set(storage: HubStorage): Promise<void> {
    return this.change("relaxed", ({ settings }) => { settings.put(storage, "hub"); });
  }

  /** Deletes half of what may be evicted, in bytes. Says whether there was one. */
  private async makeRoom(): Promise<boolean> {
    let made = false;
    await this.change("relaxed", async (stores) => {
      const bytes = await bytesOf(stores);
      const left = await evict(stores, bytes, bytes / 2);
      made = left < bytes;
      stores.settings.put(left, bytesKey);
    });
    return made;
  }

  private async change(durability: IDBTransactionDurability, make: (stores: Stores) => Promise<void> | void): Promise<void> {
    const transaction = this.db.transaction(["files", "meta", "settings"], "readwrite", { durability });
    const done = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => { resolve(); };
      transaction.onabort = () => { reject(transaction.error ?? new Error("the transaction was ended")); };
    });
    const stores = { files: transaction.objectStore("files"), meta: transaction.objectStore("meta"), settings: transaction.objectStore("settings") };
    const made = (async () => { await make(stores); })().catch((error: unknown) => {
      try { transaction.abort(); } catch { /* it has ended */ }
      throw error;
    });
    await Promise.all([made, done]).catch((error: unknown) => { throw transaction.error ?? error; });
  }
}

/** Puts entries into a transaction's stores. */
async function keep(stores: Stores, entries: readonly Entry[]): Promise<void> {
  let bytes = await bytesOf(stores);
  for (const entry of entries) {
    bytes -= await remove(stores, entry.key);
    const meta = metaOf(entry);
    stores.files.put(entry);
    stores.meta.put(meta);
    if (meta.used !== undefined) bytes += meta.size;
  }
  stores.settings.put(bytes > maxStored ? await evict(stores, bytes, maxStored) : bytes, bytesKey);
}

/** Files in memory, the least recently used first. */
export class Memory implements Store {
  private readonly files = new Map<string, Entry>();
  /** The size of the files that may be evicted. */
  private bytes = 0;

  get = (of: string): Promise<Entry | undefined> => Promise.resolve(this.files.get(of));

  find(of: string): Promise<Meta | undefined> {
    const entry = this.files.get(of);
    if (!entry) return Promise.resolve(undefined);
    this.files.delete(of);
    this.files.set(of, entry);
    return Promise.resolve(metaOf(entry));
  }

  put(entries: readonly Entry[]): Promise<void> {
    for (const entry of entries) {
      this.remove(entry.key);
      this.files.set(entry.key, entry);
      if (isEvictable(entry.key)) this.bytes += entry.body.byteLength;
    }
    for (const of of this.files.keys()) {
      if (this.bytes <= maxStored) break;
      if (isEvictable(of)) this.remove(of);
    }
    return Promise.resolve();
  }

  delete(keys: readonly string[]): Promise<void> {
    for (const of of keys) this.remove(of);
    return Promise.resolve();
  }

  clear(): Promise<void> {
    this.files.clear();
    this.bytes = 0;
    return Promise.resolve();
  }

  list(): Promise<Meta[]> {
    return Promise.resolve([...this.files.values()].map(metaOf));
  }

  private remove(of: string): void {
    const entry = this.files.get(of);
    if (entry && isEvictable(of)) this.bytes -= entry.body.byteLength;
    this.files.delete(of);
  }
}
