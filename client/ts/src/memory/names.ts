import { FileType, type DirEntry } from "../gen/ctxfs/v1/fs_types_pb.js";
import { constants } from "../fs/constants.js";
import { resolve } from "../fs/posix.js";
import type { RequestInit } from "../session/operations.js";
import { nameBytes, nameFrom, shownName } from "./bytes.js";
import { destIn, idBits, modeIn, none, pathIn, umask, type Answer, type Form } from "./requests.js";
import { walk } from "./search.js";
import { Directory, errno, existing, File, Link, maxPath, now, put, statOf, Tree, type Found, type Node } from "./tree.js";
import { Watches } from "./watches.js";

const { COPYFILE_FICLONE_FORCE } = constants;

/** The operations of FsService that make, move, copy, list and remove names. Each throws an Errno, and then nothing has changed. */
export class NameOperations {
  readonly tree = new Tree();
  readonly watches = new Watches();

  rename(request: RequestInit<"rename">): void {
    const from = this.tree.entry(pathIn(request));
    const to = this.tree.entry(destIn(request));
    if (from.name === "" || to.name === "") throw errno("EBUSY");
    const node = existing(from);
    const old = to.node;
    if (node instanceof Directory) {
      if (to.dir.within(node)) throw errno("EINVAL");
      if (old && !(old instanceof Directory)) throw errno("ENOTDIR");
    } else if (to.slash) {
      throw errno("ENOTDIR");
    }
    if (old === node) return;
    if (old instanceof Directory) {
      if (from.dir.within(old)) throw errno("ENOTEMPTY");
      if (!(node instanceof Directory)) throw errno("EISDIR");
      if (old.entries.size > 0) throw errno("ENOTEMPTY");
    }
    if (old) this.unname(to, old);
    from.dir.remove(from.name, node);
    put(to, node);
    this.watches.changed(node, "rename", from);
    this.watches.changed(node, "rename", to);
  }

  rm(request: RequestInit<"rm">): Answer<"rm"> {
    let found: Found;
    try {
      found = this.tree.entry(pathIn(request));
      existing(found);
    } catch (error) {
      if (request.force && (error as { code?: string }).code === "ENOENT") return { removed: 0n };
      throw error;
    }
    const node = existing(found);
    if (node instanceof Directory) {
      if (!request.recursive) throw errno("EISDIR");
      if (found.name === "") throw errno(node === this.tree.root ? "EBUSY" : "EINVAL");
    }
    return { removed: this.removeAll(found, node) };
  }

  rmdir(request: RequestInit<"rmdir">): void {
    const found = this.tree.entry(pathIn(request));
    const node = existing(found);
    if (!(node instanceof Directory)) throw errno("ENOTDIR");
    if (node === this.tree.root) throw errno("EBUSY");
    if (found.last === ".") throw errno("EINVAL");
    if (found.last === "..") throw errno("ENOTEMPTY");
    if (node.entries.size > 0) throw errno("ENOTEMPTY");
    this.unname(found, node);
    this.watches.changed(node, "rename", found);
  }

  unlink(request: RequestInit<"unlink">): void {
    const found = this.tree.entry(pathIn(request));
    const node = existing(found);
    if (node instanceof Directory) throw errno("EISDIR");
    this.unname(found, node);
    this.watches.changed(node, "rename", found);
  }

  mkdir(request: RequestInit<"mkdir">): Answer<"mkdir"> {
    const path = pathIn(request);
    const mode = modeIn(request.modeForm, 0o777) & ~(umask | idBits);
    if (request.recursive) return this.makeAll(path, mode);
    const found = this.tree.entry(path);
    if (found.node) throw errno("EEXIST");
    this.make(found, new Directory(mode));
    return {};
  }

  mkdtemp({ prefix = "", rawPrefix = none }: RequestInit<"mkdtemp">): Answer<"mkdtemp"> {
    for (;;) {
      const path = nameFrom(prefix, rawPrefix) + randomLetters(6);
      const found = this.tree.find(path, false);
      if (found.node) continue;
      this.make(found, new Directory(0o700));
      const { text, raw } = shownName(path);
      return { path: text, rawPath: raw };
    }
  }

  symlink(request: RequestInit<"symlink">): void {
    const target = nameFrom(request.target ?? "", request.rawTarget ?? none);
    if (target === "") throw errno("ENOENT");
    const link = new Link(target);
    if (link.size >= 4096) throw errno("ENAMETOOLONG");
    const found = this.tree.find(pathIn(request), false);
    if (found.node) throw errno("EEXIST");
    if (found.slash) throw errno("ENOENT");
    this.make(found, link);
  }

  link(request: RequestInit<"link">): void {
    const node = this.tree.node(pathIn(request), false);
    const to = this.tree.find(destIn(request), false);
    if (to.node) throw errno("EEXIST");
    if (to.slash) throw errno("ENOENT");
    if (node instanceof Directory) throw errno("EPERM");
    this.make(to, node);
  }

  readdir(request: RequestInit<"readdir">): Answer<"readdir"> {
    const dir = this.tree.directory(pathIn(request));
    dir.accessed();
    return { entries: [...this.entriesOf(dir, request)] };
  }

  /** The entries of a directory, as replies carry them. */
  *entriesOf(dir: Directory, { recursive = false, withFileTypes = false, withStats = false }: { recursive?: boolean; withFileTypes?: boolean; withStats?: boolean }): Generator<DirEntry> {
    for (const at of walk(dir, () => recursive)) yield entryOf(at, withFileTypes || withStats, withStats);
  }

  realpath(request: RequestInit<"realpath">): Answer<"realpath"> {
    const found = this.tree.find(pathIn(request), true);
    existing(found);
    const { text, raw } = shownName(found.name === "" ? found.dir.path : `${found.dir === this.tree.root ? "" : found.dir.path}/${found.name}`);
    return { path: text, rawPath: raw };
  }

  readlink(request: RequestInit<"readlink">): Answer<"readlink"> {
    const node = this.tree.node(pathIn(request), false);
    if (!(node instanceof Link)) throw errno("EINVAL");
    const { text, raw } = shownName(node.target);
    return { target: text, rawTarget: raw };
  }

  cp(request: RequestInit<"cp">): Answer<"cp"> {
    const done = { filesCopied: 0n, bytesCopied: 0n };
    const { dereference = false } = request;
    const from = this.tree.find(pathIn(request), dereference);
    const node = existing(from);
    const to = this.tree.find(destIn(request), node instanceof Directory);
    if ((request.mode ?? 0) & COPYFILE_FICLONE_FORCE) throw errno("ENOTSUP");
    if (node instanceof Directory) {
      if (!request.recursive) throw errno("EISDIR");
      if (to.node === node || to.dir.within(node)) throw errno("EINVAL");
    }
    this.copyTo(from, to, request, done);
    return done;
  }

  protected make(found: Found, node: Node): void {
    put(found, node);
    this.watches.changed(node, "rename", found);
  }

  protected unname({ dir, name }: Found, node: Node): void {
    dir.remove(name, node);
    if (node instanceof Directory) node.removed = true;
  }

  private removeAll(found: Found, node: Node): bigint {
    let removed = 1n;
    if (node instanceof Directory) {
      for (const [name, inner] of [...node.entries]) removed += this.removeAll({ dir: node, name, node: inner, slash: false }, inner);
    }
    this.unname(found, node);
    this.watches.changed(node, "rename", found);
    return removed;
  }

  /** Makes a directory and its missing parents, one after the other. */
  private makeAll(path: string, mode: number): Answer<"mkdir"> {
    let first: Directory | undefined;
    let at = path.startsWith("/") ? "/" : "";
    const names = path.split("/").filter((name) => name !== "");
    if (path === "") throw errno("ENOENT");
    if (nameBytes(path).length >= maxPath) throw errno("ENAMETOOLONG");
    for (const [i, name] of names.entries()) {
      at += `${at === "" || at === "/" ? "" : "/"}${name}`;
      const found = this.tree.find(at, true);
      if (!found.node) {
        if (found.slash || this.tree.find(at, false).node) throw errno("ENOENT"); // a link that leads to nothing
        const dir = new Directory(mode);
        this.make(found, dir);
        first ??= dir;
      } else if (!(found.node instanceof Directory)) {
        throw errno(i === names.length - 1 ? "EEXIST" : "ENOTDIR");
      }
    }
    if (!first) return { rawPath: none };
    const { text, raw } = shownName(first.path);
    return { path: text, rawPath: raw };
  }

  private copyTo(from: Found, to: Found, request: RequestInit<"cp">, done: { filesCopied: bigint; bytesCopied: bigint }): void {
    const node = existing(from);
    const { force = true, errorOnExist = false, preserveTimestamps = false } = request;
    if (node instanceof Directory) {
      this.copyTree(node, to, request, done);
    } else {
      if (to.slash) throw errno("ENOTDIR");
      if (to.node instanceof Directory) throw errno("EISDIR");
      if (to.node === node) throw errno("EINVAL");
      if (to.node && !force && errorOnExist) throw errno("EEXIST");
      if (to.node && !force) return;
      if (to.node) this.unname(to, to.node);
      this.make(to, node instanceof Link ? new Link(this.targetOf(from, node, request)) : this.copyOf(node));
      done.filesCopied++;
      if (node instanceof File) done.bytesCopied += BigInt(node.size);
    }
    const copy = to.dir.entries.get(to.name);
    if (copy && preserveTimestamps) this.setTimes(copy, { atimeNs: node.atimeNs, mtimeNs: node.mtimeNs });
  }

  private copyTree(node: Directory, to: Found, request: RequestInit<"cp">, done: { filesCopied: bigint; bytesCopied: bigint }): void {
    let copy = to.node;
    if (copy && !(copy instanceof Directory)) throw errno("ENOTDIR");
    if (!copy) this.make(to, copy = new Directory(0o777 & ~umask));
    for (const [name, inner] of [...node.entries]) {
      const source = request.dereference && inner instanceof Link ? this.tree.find(`${node.path}/${name}`, true) : { dir: node, name, node: inner, slash: false };
      this.copyTo(source, { dir: copy, name, node: copy.entries.get(name), slash: false }, request, done);
    }
    if (!to.node) this.setMode(copy, { value: node.mode });
  }

  private copyOf(file: File): File {
    const copy = new File(file.mode & ~idBits);
    copy.write(file.view(0, file.size), 0);
    return copy;
  }

  /** What the copy of a link points to: as Node, the absolute path of a relative target, unless it is to stay. */
  private targetOf({ dir }: Found, { target }: Link, { verbatimSymlinks = false }: RequestInit<"cp">): string {
    if (verbatimSymlinks || target.startsWith("/")) return target;
    return resolve(dir.path, target);
  }

  protected setMode(node: Node, form: Form | undefined): void {
    node.mode = modeIn(form) & ~idBits;
    this.attributesChanged(node);
  }

  protected setTimes(node: Node, { atimeNs = now(), mtimeNs = now() }: { atimeNs?: bigint | undefined; mtimeNs?: bigint | undefined }): void {
    node.atimeNs = atimeNs;
    node.mtimeNs = mtimeNs;
    this.attributesChanged(node);
  }

  protected attributesChanged(node: Node): void {
    node.changed();
    this.watches.changedNode(node);
  }
}

/** An entry of a listing. */
export function entryOf({ dir, name, node }: { dir: Directory; name: string; node: Node }, withType: boolean, withStat = false): DirEntry {
  const [own, parent] = [shownName(name), shownName(dir.path)];
  return {
    name: own.text, rawName: own.raw, parentPath: parent.text, rawParentPath: parent.raw, type: withType ? node.type : FileType.UNSPECIFIED,
    ...(withStat ? { stat: statOf(node) } : {}),
  } as DirEntry;
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

function randomLetters(n: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(n)), (b) => letters[b % letters.length]).join("");
}
