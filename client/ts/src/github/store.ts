/** Keeps what git through GitHub has to know between calls: bases and staged commits. */
export interface GitStore {
  get(key: string): Promise<unknown>;
  /** Changes values, all or none; undefined removes one. */
  put(values: Readonly<Record<string, unknown>>): Promise<void>;
  /** All values whose keys have a prefix. */
  list(prefix: string): Promise<unknown[]>;
  /** Runs a task while no other one runs. */
  exclusive<T>(task: () => Promise<T>): Promise<T>;
}

/** Keeps it in this process's memory. */
export class MemoryGitStore implements GitStore {
  private readonly values = new Map<string, unknown>();
  private last: Promise<unknown> = Promise.resolve();

  get(key: string): Promise<unknown> {
    return Promise.resolve(this.values.get(key));
  }

  put(values: Readonly<Record<string, unknown>>): Promise<void> {
    for (const [key, value] of Object.entries(values)) {
      if (value === undefined) this.values.delete(key);
      else this.values.set(key, value);
    }
    return Promise.resolve();
  }

  list(prefix: string): Promise<unknown[]> {
    return Promise.resolve([...this.values].filter(([key]) => key.startsWith(prefix)).map(([, value]) => value));
  }

  exclusive<T>(task: () => Promise<T>): Promise<T> {
    const done = this.last.then(task);
    this.last = done.catch(() => undefined);
    return done;
  }
}

/** Keeps it in the browser, for all pages of the origin. */
export class BrowserGitStore implements GitStore {
  private opened: Promise<IDBDatabase> | undefined;

  constructor(private readonly name: string) {}

  async get(key: string): Promise<unknown> {
    return done((await this.values("readonly")).get(key));
  }

  async put(values: Readonly<Record<string, unknown>>): Promise<void> {
    const store = await this.values("readwrite");
    for (const [key, value] of Object.entries(values)) {
      if (value === undefined) store.delete(key);
      else store.put(value, key);
    }
    const { transaction } = store;
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => { resolve(); };
      transaction.onabort = () => { reject(transaction.error ?? new Error("the transaction was ended")); };
    });
  }

  async list(prefix: string): Promise<unknown[]> {
    return done((await this.values("readonly")).getAll(IDBKeyRange.bound(prefix, `${prefix}\uffff`)));
  }

  exclusive<T>(task: () => Promise<T>): Promise<T> {
    return navigator.locks.request(this.name, task) as Promise<T>;
  }

  private async values(mode: IDBTransactionMode): Promise<IDBObjectStore> {
    this.opened ??= this.open();
    return (await this.opened).transaction("values", mode, { durability: "strict" }).objectStore("values");
  }

  private open(): Promise<IDBDatabase> {
    const request = indexedDB.open(this.name, 1);
    request.onupgradeneeded = () => { request.result.createObjectStore("values"); };
    return done(request);
  }
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => { resolve(request.result); };
    request.onerror = () => { reject(request.error ?? new Error("the request failed")); };
  });
}
