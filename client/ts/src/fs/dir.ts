import { nodeClasses, nodeMajor } from "#platform";
import { invalidArgType, nodeError } from "../errors/node.js";
import type { OpendirResponse } from "../gen/ctxfs/v1/fs_messages_pb.js";
import type { DirEntry } from "../gen/ctxfs/v1/fs_types_pb.js";
import type { Dirent } from "./dirent.js";

type AnyDirent = Dirent<string | Uint8Array>;
type Callback<T> = (error: unknown, value?: T) => void;

/** An open directory, as Node's Dir: its entries arrive while they are read. */
export class Dir {
  readonly #path: unknown;
  readonly #batches: AsyncIterator<OpendirResponse>;
  readonly #entryOf: (entry: DirEntry) => AnyDirent;
  #waiting: DirEntry[] = [];
  #next: Promise<IteratorResult<OpendirResponse>> | undefined;
  #queue: Promise<unknown> = Promise.resolve();
  #closed = false;

  /** Makes one from the server's reply, whose first part was read already. Programs get theirs from opendir. */
  constructor(
    path: unknown, batches: AsyncIterator<OpendirResponse>, first: IteratorResult<OpendirResponse>, entryOf: (entry: DirEntry) => AnyDirent,
  ) {
    this.#path = path;
    this.#batches = batches;
    this.#next = Promise.resolve(first);
    this.#entryOf = entryOf;
  }

  /** The path that was given to opendir. */
  get path(): string {
    return this.#path as string; // declared so by Node too; it gives back what it was given
  }

  /** The next entry; null at the end. */
  read(): Promise<AnyDirent | null>;
  read(callback: Callback<AnyDirent | null>): void;
  read(callback?: Callback<AnyDirent | null>): Promise<AnyDirent | null> | undefined {
    if (this.#closed) {
      if (nodeMajor < 22 || callback) throw closedError();
      return Promise.reject(closedError());
    }
    return deliver(this.#enqueue(() => this.#read()), callback);
  }

  /** Closes the directory. */
  close(): Promise<void>;
  close(callback: Callback<void>): void;
  close(callback?: Callback<void>): Promise<void> | undefined {
    if (this.#closed) return deliver(Promise.reject(closedError()), callback);
    this.#closed = true;
    return deliver(this.#enqueue(async () => { await this.#batches.return?.(); }), callback);
  }

  /** The entries that are left. The directory closes with the loop. */
  async *entries(): AsyncGenerator<AnyDirent, void, undefined> {
    try {
      for (let entry = await this.read(); entry; entry = await this.read()) yield entry;
    } finally {
      if (!this.#closed) await this.close();
    }
  }

  declare [Symbol.asyncIterator]: () => AsyncGenerator<AnyDirent, void, undefined>;

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#closed) await this.close();
  }

  /** Throws: waiting in place for a server would block the program. */
  readSync(): never {
    throw cannotWait("readSync", "read");
  }

  /** Throws, as readSync does. */
  closeSync(): never {
    throw cannotWait("closeSync", "close");
  }

  async #read(): Promise<AnyDirent | null> {
    while (this.#waiting.length === 0) {
      const { done, value } = await (this.#next ?? this.#batches.next()) as IteratorResult<OpendirResponse, undefined>;
      this.#next = undefined;
      if (done) {
        this.#next = Promise.resolve({ done, value });
        return null;
      }
      this.#waiting = (value.event.value?.entries ?? []).reverse();
    }
    const entry = this.#waiting.pop();
    return entry ? this.#entryOf(entry) : null;
  }

  #enqueue<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(task);
    this.#queue = done.catch(() => undefined);
    return done;
  }
}

if (nodeClasses.Dir) Object.setPrototypeOf(Dir.prototype, nodeClasses.Dir.prototype);
// A block with "using" cannot wait: the directory closes after it.
if ("dispose" in Symbol) {
  Object.defineProperty(Dir.prototype, Symbol.dispose, {
    value(this: Dir) { this[Symbol.asyncDispose]().catch(() => undefined); }, writable: true, configurable: true,
  });
}
// One function by two names, as in Node.
// eslint-disable-next-line @typescript-eslint/unbound-method -- callers by the other name give it its this
Object.defineProperty(Dir.prototype, Symbol.asyncIterator, { value: Dir.prototype.entries, writable: true, configurable: true });

function cannotWait(name: string, instead: string): Error {
  return nodeError(Error, "ERR_METHOD_NOT_IMPLEMENTED", `Dir.${name}() cannot wait for a ctxfs server: use await dir.${instead}()`);
}

function closedError(): Error {
  return nodeError(Error, "ERR_DIR_CLOSED", "Directory handle was closed");
}

function deliver<T>(result: Promise<T>, callback: Callback<T> | undefined): Promise<T> | undefined {
  if (callback === undefined) return result;
  if (typeof callback !== "function") throw invalidArgType("callback", "Function", callback);
  result.then((value) => { if (value === undefined) callback(null); else callback(null, value); }, callback);
  return undefined;
}
