import type { FileType } from "../gen/ctxfs/v1/fs_types_pb.js";

/** An inode as it is kept. Its names are those of the directories that have it. */
export interface NodeRecord {
  ino: number; type: FileType; mode: number; uid: number; gid: number;
  atimeNs: bigint; mtimeNs: bigint; ctimeNs: bigint; birthtimeNs: bigint;
  /** Of a link. */
  target?: string;
  /** Of a directory: names and inode numbers. */
  entries?: [string, number][];
  /** Of a file: which version of its content is meant, and its size in bytes. */
  content?: { version: number; size: number };
}

/**
 * Keeps the files of a workspace in a browser: inodes in IndexedDB, changed by one transaction at a time, and content in the origin's private
 * file system, one file for each version. A version is written before the record that names it, and removed after: a page that ends in between
 * leaves the old content or the new.
 */
export class BrowserStore {
  private constructor(private readonly db: IDBDatabase, private readonly dir: FileSystemDirectoryHandle) {}

  /** Opens the store of a workspace. Only one page may have it open. */
  static async open(workspaceId: string): Promise<BrowserStore> {
    const root = await navigator.storage.getDirectory();
    const workspaces = await root.getDirectoryHandle("workspaces", { create: true });
    const dir = await workspaces.getDirectoryHandle(workspaceId, { create: true });
    await navigator.storage.persist(); // else the browser may remove the files when it needs space; it may refuse
    const request = indexedDB.open(`ctxfs:${workspaceId}`, 1);
    request.onupgradeneeded = () => { request.result.createObjectStore("nodes", { keyPath: "ino" }); };
    return new BrowserStore(await resultOf(request), dir);
  }

  /** Returns all inodes, and removes content that none of them names. */
  async load(): Promise<NodeRecord[]> {
    const records = await resultOf(this.db.transaction("nodes").objectStore("nodes").getAll()) as NodeRecord[];
    const named = new Set(records.flatMap(({ ino, content }) => (content ? [nameOf(ino, content.version)] : [])));
    for await (const name of this.dir.keys()) if (!named.has(name)) await this.dir.removeEntry(name);
    return records;
  }

  /** Changes inodes, all or none. */
  async save(put: readonly NodeRecord[], removed: readonly number[]): Promise<void> {
    const transaction = this.db.transaction("nodes", "readwrite", { durability: "strict" });
    const nodes = transaction.objectStore("nodes");
    for (const record of put) nodes.put(record);
    for (const ino of removed) nodes.delete(ino);
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => { resolve(); };
      transaction.onabort = () => { reject(transaction.error ?? new Error("the transaction was ended")); };
    });
  }

  /** Reads a version of a file's content. */
  async readContent(ino: number, version: number): Promise<Uint8Array> {
    const file = await (await this.dir.getFileHandle(nameOf(ino, version))).getFile();
    return new Uint8Array(await file.arrayBuffer());
  }

  /** Writes a version of a file's content, which is there whole or not at all. */
  async writeContent(ino: number, version: number, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const stream = await (await this.dir.getFileHandle(nameOf(ino, version), { create: true })).createWritable();
    await stream.write(bytes);
    await stream.close();
  }

  /** Removes a version of a file's content. */
  async removeContent(ino: number, version: number): Promise<void> {
    await this.dir.removeEntry(nameOf(ino, version));
  }

  /** Ends the use of the store. */
  close(): void {
    this.db.close();
  }
}

function nameOf(ino: number, version: number): string {
  return `${ino}.${version}`;
}

function resultOf<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => { resolve(request.result); };
    request.onerror = () => { reject(request.error ?? new Error("the request failed")); };
  });
}
