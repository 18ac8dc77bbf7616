import { FileType, type Stat } from "../gen/ctxfs/v1/fs_types_pb.js";
import { constants } from "../fs/constants.js";
import type { NumberStat } from "../session/results.js";
import { nameBytes } from "./bytes.js";

/** An operation failed with an errno. The caller of the tree adds the system call and the path. */
export class Errno extends Error {
  constructor(readonly code: string) {
    super(code);
  }
}

/** Returns the failure of an operation, to be thrown. */
export function errno(code: string): Errno {
  return new Errno(code);
}

let lastTime = 0n;

/** Returns the time in ns since the epoch. No two calls return the same. */
export function now(): bigint {
  const time = BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000)) * 1000n;
  lastTime = time > lastTime ? time : lastTime + 1n;
  return lastTime;
}

/** Where a name of a file stands. */
export interface Place { dir: Directory; name: string }

let lastIno = 1;

/** Keeps numbers up to this one from being given again. */
export function reserveIno(ino: number): void {
  lastIno = Math.max(lastIno, ino + 1);
}

/** What a name stands for. */
abstract class Inode {
  ino = lastIno++;
  uid = 0;
  gid = 0;
  atimeNs = now();
  mtimeNs = this.atimeNs;
  ctimeNs = this.atimeNs;
  birthtimeNs = this.atimeNs;
  /** Where changes are noted; the names that a directory gives lead to its own. */
  changes: Set<Inode> | undefined;

  /** mode has the permission bits. */
  constructor(readonly type: FileType, public mode: number) {}

  abstract get size(): number;
  abstract get nlink(): number;

  /** Notes a change of attributes. */
  changed(): void {
    this.ctimeNs = now();
    this.changes?.add(this);
  }

  /** Notes a change of content. */
  modified(): void {
    this.changed();
    this.mtimeNs = this.ctimeNs;
  }

  /** Notes a read, as Linux's relatime does: at most once after each change, and once a day. */
  accessed(): void {
    const time = now();
    if (this.atimeNs <= this.mtimeNs || this.atimeNs <= this.ctimeNs || time - this.atimeNs > dayNs) this.atimeNs = time;
  }
}

const dayNs = 86_400_000_000_000n;

/** An inode with names of its own in directories: a file or a symbolic link. */
abstract class Named extends Inode {
  readonly places: Place[] = [];

  get nlink(): number {
    return this.places.length;
  }
}

const none = new Uint8Array(0);

/** The content of a file has to be brought before an operation can be done. Nothing has changed. */
export class NeedsContent extends Error {
  constructor(readonly file: File) {
    super("the file's content is not in memory");
  }
}

/** A file. */
export class File extends Named {
  private bytes: Uint8Array | undefined = none;
  private length = 0;
  /** The content has changed since it was last kept elsewhere. */
  unsaved = true;

  constructor(mode: number) {
    super(FileType.FILE, mode);
  }

  get size(): number {
    return this.length;
  }

  /** The content is in memory. */
  get loaded(): boolean {
    return this.bytes !== undefined;
  }

  /** Says that the content, of some size, is kept elsewhere. */
  unload(size: number): void {
    [this.bytes, this.length, this.unsaved] = [undefined, size, false];
  }

  /** Brings the content back. */
  load(bytes: Uint8Array): void {
    [this.bytes, this.length] = [bytes, bytes.length];
  }

  /** Returns a view of the content from a position on, of at most length bytes. It is valid until the next write. */
  view(position: number, length: number): Uint8Array {
    return this.content().subarray(Math.min(position, this.length), Math.min(position + length, this.length));
  }

  /** Writes at a position, and fills a hole before it with zeros. */
  write(data: Uint8Array, position: number): void {
    const end = position + data.length;
    if (end > maxSize) throw errno("EFBIG");
    this.reserve(end).set(data, position);
    this.length = Math.max(this.length, end);
    this.modified();
  }

  /** Sets the size. What is added is zeros. */
  truncate(size: number): void {
    if (size > maxSize) throw errno("EFBIG");
    if (size === 0) this.bytes ??= none;
    if (size < this.length) this.content().fill(0, size, this.length);
    else this.reserve(size);
    this.length = size;
    this.modified();
  }

  override modified(): void {
    this.unsaved = true;
    super.modified();
  }

  private content(): Uint8Array {
    if (!this.bytes) throw new NeedsContent(this);
    return this.bytes;
  }

  private reserve(size: number): Uint8Array {
    const old = this.content();
    if (size <= old.length) return old;
    this.bytes = new Uint8Array(Math.min(maxSize, Math.max(size, old.length * 2)));
    this.bytes.set(old.subarray(0, this.length));
    return this.bytes;
  }
}

/** The largest file, in bytes: what all engines can hold in one array. */
const maxSize = 2 ** 31 - 1;

/** A symbolic link. */
export class Link extends Named {
  constructor(readonly target: string) {
    super(FileType.SYMLINK, 0o777);
  }

  get size(): number {
    return nameBytes(this.target).length;
  }
}

/** A directory. */
export class Directory extends Inode {
  readonly entries = new Map<string, Node>();
  /** Where it stands; undefined for the root and for a directory that was removed. */
  place: Place | undefined;
  removed = false;

  constructor(mode: number) {
    super(FileType.DIRECTORY, mode);
  }

  get size(): number {
    return 4096;
  }

  get nlink(): number {
    let n = 2;
    for (const node of this.entries.values()) if (node instanceof Directory) n++;
    return n;
  }

  /** Gives a node a name here. The name is free. */
  add(name: string, node: Node): void {
    this.attach(name, node);
    node.changed();
    this.modified();
  }

  /** As add, for a name that was there before: no time changes. */
  attach(name: string, node: Node): void {
    this.entries.set(name, node);
    node.changes = this.changes;
    if (node instanceof Directory) node.place = { dir: this, name };
    else node.places.push({ dir: this, name });
  }

  /** Takes a name away. */
  remove(name: string, node: Node): void {
    this.entries.delete(name);
    if (node instanceof Directory) node.place = undefined;
    else node.places.splice(node.places.findIndex((place) => place.dir === this && place.name === name), 1);
    node.changed();
    this.modified();
  }

  /** Returns its absolute path. */
  get path(): string {
    const names: string[] = [];
    for (let at = this.place; at; at = at.dir.place) names.push(at.name);
    return `/${names.reverse().join("/")}`;
  }

  /** Says whether it is a directory, or below it. */
  within(outer: Directory): boolean {
    for (let dir: Directory | undefined = this; dir; dir = dir.place?.dir) if (dir === outer) return true; // eslint-disable-line @typescript-eslint/no-this-alias -- the walk begins here
    return false;
  }
}

/** Any inode. */
export type Node = File | Link | Directory;

/** What a path leads to. */
export interface Found {
  /** The directory of the last name, and the name; name is "" when the path means the directory itself: "/", "." or "..". */
  dir: Directory;
  name: string;
  /** What stands there; undefined when nothing does. */
  node: Node | undefined;
  /** A slash follows the last name: only a directory may stand there. */
  slash: boolean;
}

/** Fewer bytes than this has a path. */
export const maxPath = 4096;
const maxName = 255, maxLinks = 40;

/** A file system in memory: inodes, names and the resolution of paths as POSIX has it. ".." leads nowhere above the root: EACCES. */
export class Tree {
  readonly root = new Directory(0o755);

  /** Finds what a path leads to. With follow a link in the last place is followed, and always one before a slash. */
  find(path: string, follow: boolean): Found {
    if (path === "") throw errno("ENOENT");
    if (nameBytes(path).length >= maxPath) throw errno("ENAMETOOLONG");
    return this.walk(this.root, path, follow, { left: maxLinks });
  }

  /**
   * Finds the name that is to be made, moved or removed: a link in the last place is never followed, not even before a slash. last is the
   * path's last part: "" for the root, "." and ".." for a path that names no entry.
   */
  entry(path: string): Found & { last: string } {
    const trimmed = path.replace(/\/+$/, "");
    const last = trimmed.slice(trimmed.lastIndexOf("/") + 1);
    if (last === "" || last === "." || last === "..") return { ...this.find(path, true), name: "", last };
    return { ...this.find(trimmed, false), slash: path.endsWith("/"), last };
  }

  /** Finds a node. ENOENT when there is none, ENOTDIR when a slash follows what is no directory. */
  node(path: string, follow: boolean): Node {
    return existing(this.find(path, follow));
  }

  /** Finds a directory. */
  directory(path: string): Directory {
    const node = this.node(path, true);
    if (!(node instanceof Directory)) throw errno("ENOTDIR");
    return node;
  }

  private walk(from: Directory, path: string, follow: boolean, links: { left: number }): Found {
    let dir = path.startsWith("/") ? this.root : from;
    const slash = path.endsWith("/");
    const names = path.split("/").filter((name) => name !== "" && name !== ".");
    const dotted = /(^|\/)\.?\/*$/.test(path);
    for (const [i, name] of names.entries()) {
      const last = i === names.length - 1;
      if (dir.removed) throw errno("ENOENT");
      if (name === "..") {
        if (dir === this.root) throw errno("EACCES");
        dir = dir.place?.dir ?? this.root;
        if (last) break;
        continue;
      }
      if (name.length > maxName / 3 && nameBytes(name).length > maxName) throw errno("ENAMETOOLONG");
      const node = dir.entries.get(name);
      if (node instanceof Link && (!last || follow || slash || dotted)) {
        if (links.left-- === 0) throw errno("ELOOP");
        const found = this.walk(dir, node.target, true, links);
        if (last) return { ...found, slash: slash || found.slash };
        dir = directoryOf(existing(found));
        continue;
      }
      if (last) return { dir, name, node, slash: slash || dotted };
      dir = directoryOf(node);
    }
    return { dir, name: "", node: dir, slash };
  }
}

function directoryOf(node: Node | undefined): Directory {
  if (!node) throw errno("ENOENT");
  if (!(node instanceof Directory)) throw errno("ENOTDIR");
  return node;
}

/** Returns what was found. ENOENT when nothing was, ENOTDIR when a slash follows what is no directory. */
export function existing({ node, slash }: Found): Node {
  if (!node) throw errno("ENOENT");
  if (slash && !(node instanceof Directory)) throw errno("ENOTDIR");
  return node;
}

/** Gives a file another name, or a directory its only one. The name is free. */
export function put({ dir, name }: Place, node: Node): void {
  if (dir.removed) throw errno("ENOENT");
  dir.add(name, node);
}

const typeBits: Partial<Record<FileType, number>> = {
  [FileType.FILE]: constants.S_IFREG, [FileType.DIRECTORY]: constants.S_IFDIR, [FileType.SYMLINK]: constants.S_IFLNK,
};

/** The numbers of a node's attributes that are no times. */
function numbersOf(node: Node) {
  const blocks = node instanceof Link ? 0 : Math.ceil(node.size / 4096) * 8;
  return { type: node.type, mode: (typeBits[node.type] ?? 0) | node.mode, uid: node.uid, gid: node.gid, blksize: 4096, blocks };
}

/** Returns a node's attributes. */
export function statOf(node: Node): Stat {
  const { blksize, blocks, ...rest } = numbersOf(node);
  const { atimeNs, mtimeNs, ctimeNs, birthtimeNs } = node;
  return {
    ...rest, dev: 1n, ino: BigInt(node.ino), nlink: BigInt(node.nlink), rdev: 0n, size: BigInt(node.size), blksize: BigInt(blksize), blocks: BigInt(blocks),
    atimeNs, mtimeNs, ctimeNs, birthtimeNs,
  } as Stat;
}

/** Returns a node's attributes in numbers. */
export function numberStatOf(node: Node): NumberStat {
  const ms = (ns: bigint): number => Number(ns / 1_000_000_000n) * 1000 + Number(ns % 1_000_000_000n) / 1e6;
  return {
    ...numbersOf(node), dev: 1, ino: node.ino, nlink: node.nlink, rdev: 0, size: node.size,
    atimeMs: ms(node.atimeNs), mtimeMs: ms(node.mtimeNs), ctimeMs: ms(node.ctimeNs), birthtimeMs: ms(node.birthtimeNs),
  };
}
