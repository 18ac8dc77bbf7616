import { systemError } from "../errors/system.js";
import { FileType } from "../gen/ctxfs/v1/fs_types_pb.js";
import { MemoryCaller } from "../memory/caller.js";
import { Directory, File, Link, NeedsContent, reserveIno, type Node } from "../memory/tree.js";
import type { OpName } from "../session/operations.js";
import { background } from "../session/timers.js";
import { BrowserStore, type NodeRecord } from "./store.js";

/** How long content that was written by a handle may wait before it is kept, in ms. fsync and close keep it at once. */
const writeBack = 200;
/** How much content stays in memory that is kept too, in bytes. */
const maxCached = 64 << 20;

/** Operations after which content is not kept at once. */
const lazy = new Set<OpName>(["write", "writev"]);
/** Operations that change nothing but the time of access, which is not kept. */
const idle = new Set<OpName>(["stat", "lstat", "fstat", "read", "readFile", "readdir", "readlink", "realpath", "exists", "access", "statfs"]);

/** FsService in a browser's own storage: a file system in memory that is kept, and whose content comes when it is needed. */
export class BrowserCaller extends MemoryCaller {
  private readonly store: Promise<BrowserStore>;
  /** What has changed and is not kept. */
  private readonly changes = new Set<Node>();
  /** The version of the content that is kept of each file. */
  private readonly versions = new Map<number, { version: number; size: number }>();
  /** Files whose content is in memory, and kept: the one that was needed last comes last. */
  private readonly cached = new Map<File, number>();
  private saving: Promise<void> = Promise.resolve();
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** Opens the workspace, which no other page may have open. directories are made when they are missing. */
  constructor(private readonly workspaceId: string, directories: readonly string[]) {
    super();
    this.store = this.open(directories);
    this.store.catch(() => undefined); // each call says it
  }

  override async close(): Promise<void> {
    if (this.closed) return;
    const store = await this.store;
    clearTimeout(this.timer);
    await this.keep(store);
    await super.close();
    store.close();
  }

  protected override async turn(): Promise<void> {
    await super.turn();
    await this.store;
  }

  /** Brings the content that a task needs, and begins it again. */
  protected override async run<T>(task: () => T): Promise<T> {
    for (;;) {
      try {
        return task();
      } catch (error) {
        if (!(error instanceof NeedsContent)) throw error;
        await this.bring(error.file);
      }
    }
  }

  protected override done(op: OpName): Promise<void> | undefined {
    if (this.changes.size === 0 || idle.has(op)) return undefined;
    if (!lazy.has(op)) return this.store.then((store) => this.keep(store));
    this.timer ??= background(writeBack, () => {
      this.timer = undefined;
      this.store.then((store) => this.keep(store)).catch(() => undefined); // fsync or close tries again, and says it
    });
    return undefined;
  }

  private async open(directories: readonly string[]): Promise<BrowserStore> {
    const store = await BrowserStore.open(this.workspaceId).catch((error: unknown) => { throw storageError(error); });
    const { root } = this.operations.tree;
    root.changes = this.changes;
    this.restore(await store.load());
    for (const path of directories) this.operations.mkdir({ path, recursive: true });
    await this.keep(store);
    return store;
  }

  /** Builds the tree that records describe. The root has the lowest number. */
  private restore(records: readonly NodeRecord[]): void {
    const { root } = this.operations.tree;
    const nodes = new Map(records.map((record, i) => [record.ino, i === 0 ? root : nodeOf(record)]));
    for (const record of records) {
      const node = nodes.get(record.ino);
      if (!node) continue;
      const { ino, mode, uid, gid, atimeNs, mtimeNs, ctimeNs, birthtimeNs, content } = record;
      Object.assign(node, { ino, mode, uid, gid, atimeNs, mtimeNs, ctimeNs, birthtimeNs });
      reserveIno(ino);
      if (node instanceof File && content) {
        node.unload(content.size);
        this.versions.set(ino, content);
      }
    }
    for (const { ino, entries = [] } of records) {
      const dir = nodes.get(ino);
      for (const [name, inner] of entries) {
        const node = nodes.get(inner);
        if (dir instanceof Directory && node) dir.attach(name, node);
      }
    }
    for (const node of nodes.values()) node.changes = this.changes;
    if (records.length === 0) this.changes.add(root);
  }

  /** Keeps what has changed. Rejects with ENOSPC when the browser gives no more space: what changed stays in memory, and is kept later. */
  private keep(store: BrowserStore): Promise<void> {
    const saved = this.saving.then(() => this.save(store));
    this.saving = saved.catch(() => undefined);
    return saved;
  }

  private async save(store: BrowserStore): Promise<void> {
    const changed = [...this.changes];
    this.changes.clear();
    const old: [ino: number, version: number][] = [];
    const [put, removed]: [NodeRecord[], number[]] = [[], []];
    try {
      for (const node of changed) {
        const before = this.versions.get(node.ino);
        if (isGone(node, this.operations.tree.root)) {
          if (node instanceof File && !node.loaded && this.operations.isOpen(node)) await this.bring(node);
          removed.push(node.ino);
          if (before) old.push([node.ino, before.version]);
          continue;
        }
        if (node instanceof File && node.unsaved) {
          const content = await this.saveContent(store, node, (before?.version ?? 0) + 1);
          if (before) old.push([node.ino, before.version]);
          put.push({ ...recordOf(node), content });
        } else {
          put.push({ ...recordOf(node), ...(before ? { content: before } : {}) });
        }
      }
      await store.save(put, removed);
    } catch (error) {
      for (const node of changed) {
        this.changes.add(node);
        if (node instanceof File && node.loaded) node.unsaved = true;
      }
      throw storageError(error);
    }
    for (const { ino, content } of put) if (content) this.versions.set(ino, content);
    for (const ino of removed) this.versions.delete(ino);
    for (const [ino, version] of old) await store.removeContent(ino, version);
  }

  private async saveContent(store: BrowserStore, file: File, version: number): Promise<{ version: number; size: number }> {
    const bytes = file.view(0, file.size).slice();
    file.unsaved = false;
    await store.writeContent(file.ino, version, bytes);
    this.touch(file);
    return { version, size: bytes.length };
  }

  private async bring(file: File): Promise<void> {
    const content = this.versions.get(file.ino);
    if (!content) throw new Error(`the content of inode ${file.ino} is lost`);
    const bytes = await (await this.store).readContent(file.ino, content.version);
    if (!file.loaded) file.load(bytes);
    this.touch(file);
  }

  /** Notes that a file's content was needed, and lets go of what was not for longest. */
  private touch(file: File): void {
    this.cached.delete(file);
    this.cached.set(file, file.size);
    let sum = 0;
    for (const size of this.cached.values()) sum += size;
    for (const [other, size] of this.cached) {
      if (sum <= maxCached || other === file) break;
      this.cached.delete(other);
      sum -= size;
      if (!other.unsaved && other.nlink > 0) other.unload(other.size);
    }
  }
}

function isGone(node: Node, root: Directory): boolean {
  return node instanceof Directory ? node !== root && node.place === undefined : node.places.length === 0;
}

function nodeOf({ type, mode, target = "" }: NodeRecord): Node {
  if (type === FileType.DIRECTORY) return new Directory(mode);
  return type === FileType.SYMLINK ? new Link(target) : new File(mode);
}

function recordOf(node: Node): NodeRecord {
  const { ino, type, mode, uid, gid, atimeNs, mtimeNs, ctimeNs, birthtimeNs } = node;
  const record = { ino, type, mode, uid, gid, atimeNs, mtimeNs, ctimeNs, birthtimeNs };
  if (node instanceof Link) return { ...record, target: node.target };
  return node instanceof Directory ? { ...record, entries: [...node.entries].map(([name, inner]): [string, number] => [name, inner.ino]) } : record;
}

/** Makes an error of the file system of one of the browser's storage. */
function storageError(error: unknown): unknown {
  const { name } = error as Error;
  if (name === "QuotaExceededError") return Object.assign(systemError({ code: "ENOSPC", syscall: "write" }), { cause: error });
  return error;
}
