import { constants } from "../fs/constants.js";
import { textBytes } from "../fs/bytes.js";
import type { Stat } from "../gen/ctxfs/v1/fs_types_pb.js";
import type { CallOptions, RequestInit, ResponseOf } from "../session/operations.js";
import { shownName } from "./bytes.js";
import { flagsOf, Open, writes } from "./handles.js";
import { NameOperations } from "./names.js";
import { destIn, idBits, modeIn, none, pathIn, umask, type Answer, type Form } from "./requests.js";
import { Directory, errno, existing, File, Link, numberStatOf, statOf, type Found, type Node } from "./tree.js";

const { COPYFILE_EXCL, COPYFILE_FICLONE_FORCE, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_TRUNC, X_OK } = constants;

/** The largest file that one reply holds, in bytes. */
const maxReply = Math.floor(3.5 * (1 << 20));

/** The bytes of a request's content. */
function contentIn(content: Form | undefined, encoding = ""): Uint8Array {
  return typeof content?.value === "string" ? textBytes(content.value, encoding) : (content?.value ?? none) as Uint8Array;
}

/** The lines from start on, count of them or, with 0, all; and how many there are. */
function linesOf(bytes: Uint8Array, start: number, count: number): { data: Uint8Array; total: number } {
  const ends: number[] = [];
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) ends.push(at + 1);
  if (bytes.length > (ends.at(-1) ?? 0)) ends.push(bytes.length);
  const first = Math.max(start, 1) - 1;
  const last = Math.min(ends.length, count === 0 ? ends.length : first + count);
  return { data: first >= last ? none : bytes.slice(first === 0 ? 0 : ends[first - 1], ends[last - 1]), total: ends.length };
}

/** The unary operations of FsService on a tree in memory. Each throws an Errno, and then nothing has changed. */
export class Operations extends NameOperations {
  private readonly opened = new Map<number, Open>();
  private lastFd = 2;

  /** Returns the handle of a number. EBADF when there is none. */
  handle({ fd = -1 }: { fd?: number | undefined }): Open {
    const open = this.opened.get(fd);
    if (!open) throw errno("EBADF");
    return open;
  }

  /** Says whether a handle of a node is open. */
  isOpen(node: Node): boolean {
    for (const open of this.opened.values()) if (open.node === node) return true;
    return false;
  }

  readFile(request: RequestInit<"readFile">, { into }: CallOptions): Answer<"readFile"> {
    const open = request.fd === undefined ? this.opening(pathIn(request), flagsOf(request.flagForm, "r"), 0o666) : this.handle({ fd: request.fd });
    if (open.node.size > maxReply && request.fd === undefined) throw errno("EFBIG");
    const bytes = copied(open.read(open.node.size), request.lines ? undefined : into);
    if (!request.lines) return { content: { case: "data", value: bytes } };
    const { data, total } = linesOf(bytes, Number(request.lines.start), Number(request.lines.count));
    return { content: { case: "data", value: data }, ...(request.lines.uncounted ? {} : { totalLines: BigInt(total) }), etag: "" };
  }

  writeFile(request: RequestInit<"writeFile">): Answer<"writeFile"> {
    if (request.ifMatch || request.ifNoneMatch) throw errno("ENOTSUP"); // files in memory have no etags
    const data = contentIn(request.content, request.encoding);
    const open = request.fd === undefined ? this.opening(pathIn(request), flagsOf(request.flagForm, "w"), modeIn(request.modeForm, 0o666)) : this.handle({ fd: request.fd });
    this.writeTo(open, data);
    return { bytesWritten: BigInt(data.length) };
  }

  appendFile(request: RequestInit<"appendFile">): Answer<"appendFile"> {
    const flagForm = request.fd === undefined && request.flagForm?.case === undefined ? { case: "flag" as const, value: "a" } : request.flagForm;
    return this.writeFile({ ...request, ...(flagForm ? { flagForm } : {}) });
  }

  truncate(request: RequestInit<"truncate">): void {
    const open = this.opening(pathIn(request), flagsOf({ value: "r+" }, "r+"), 0);
    this.resize(open, request.len);
  }

  copyFile(request: RequestInit<"copyFile">): Answer<"copyFile"> {
    const { mode = 0 } = request;
    if (mode & ~7) throw errno("EINVAL");
    if (mode & COPYFILE_FICLONE_FORCE) throw errno("ENOTSUP");
    const from = this.tree.node(pathIn(request), true);
    if (from instanceof Directory) throw errno("EISDIR");
    const flags = constants.O_WRONLY | O_CREAT | (mode & COPYFILE_EXCL ? O_EXCL : 0);
    const to = this.opening(destIn(request), flags, from.mode, true);
    if (to.node === from) return { bytesCopied: 0n };
    this.replace(to.node as File, from as File);
    return { bytesCopied: BigInt(from.size) };
  }

  stat(request: RequestInit<"stat">, options: CallOptions): Answer<"stat"> {
    return attributes(this.tree.node(pathIn(request), true), options);
  }

  lstat(request: RequestInit<"lstat">, options: CallOptions): Answer<"lstat"> {
    return attributes(this.tree.node(pathIn(request), false), options);
  }

  statfs(request: RequestInit<"statfs">): Answer<"statfs"> {
    this.tree.node(pathIn(request), true);
    const tmpfs = 0x0102_1994n;
    return { type: tmpfs, bsize: 4096n, blocks: 1n << 20n, bfree: 1n << 20n, bavail: 1n << 20n, files: 1n << 20n, ffree: 1n << 20n };
  }

  access(request: RequestInit<"access">): void {
    const { mode = 0 } = request;
    if (mode & ~7) throw errno("EINVAL");
    const node = this.tree.node(pathIn(request), true);
    if (mode & X_OK && !(node.mode & 0o111) && !(node instanceof Directory)) throw errno("EACCES");
  }

  exists(request: RequestInit<"exists">): Answer<"exists"> {
    try {
      this.tree.node(pathIn(request), true);
      return { exists: true };
    } catch {
      return { exists: false };
    }
  }

  chmod(request: RequestInit<"chmod">): void {
    this.setMode(this.tree.node(pathIn(request), true), request.modeForm);
  }

  chown(request: RequestInit<"chown">): void {
    this.setOwner(this.tree.node(pathIn(request), true), request);
  }

  lchown(request: RequestInit<"lchown">): void {
    this.setOwner(this.tree.node(pathIn(request), false), request);
  }

  utimes(request: RequestInit<"utimes">): void {
    this.setTimes(this.tree.node(pathIn(request), true), request);
  }

  lutimes(request: RequestInit<"lutimes">): void {
    this.setTimes(this.tree.node(pathIn(request), false), request);
  }

  open(request: RequestInit<"open">): Answer<"open"> {
    const flags = flagsOf(request.flagsForm, "r");
    const mode = modeIn(request.modeForm, 0o666);
    const open = request.atomic ? this.openingAtomic(pathIn(request), flags, mode) : this.opening(pathIn(request), flags, mode);
    this.opened.set(++this.lastFd, open);
    return { fd: this.lastFd };
  }

  read(request: RequestInit<"read">, { into }: CallOptions): Answer<"read"> {
    const view = this.handle(request).read(Number(request.length ?? 16n << 10n), Number(request.position ?? -1n));
    return { bytesRead: BigInt(view.length), content: { case: "data", value: copied(view, into) } };
  }

  readv(request: RequestInit<"readv">): Answer<"readv"> {
    const length = (request.lengths ?? []).reduce((sum, n) => sum + Number(n), 0);
    const data = copied(this.handle(request).read(length, Number(request.position ?? -1n)));
    return { bytesRead: BigInt(data.length), data };
  }

  write(request: RequestInit<"write">): Answer<"write"> {
    const open = this.handle(request);
    const data = contentIn(request.content, request.encoding);
    const position = Number(request.position ?? -1n);
    this.writeTo(open, data, position);
    return { bytesWritten: BigInt(data.length), ...(position < 0 ? { position: BigInt(open.position) } : {}) };
  }

  writev(request: RequestInit<"writev">): Answer<"writev"> {
    const { buffers = [] } = request;
    const open = this.handle(request);
    let at = Number(request.position ?? -1n);
    for (const data of buffers) {
      this.writeTo(open, data, at);
      if (at >= 0) at += data.length;
    }
    return { bytesWritten: BigInt(buffers.reduce((sum, { length }) => sum + length, 0)) };
  }

  fstat(request: RequestInit<"fstat">, options: CallOptions): Answer<"fstat"> {
    return attributes(this.handle(request).node, options);
  }

  ftruncate(request: RequestInit<"ftruncate">): void {
    this.resize(this.handle(request), request.len);
  }

  fchmod(request: RequestInit<"fchmod">): void {
    this.setMode(this.handle(request).node, request.modeForm);
  }

  fchown(request: RequestInit<"fchown">): void {
    this.setOwner(this.handle(request).node, request);
  }

  futimes(request: RequestInit<"futimes">): void {
    this.setTimes(this.handle(request).node, request);
  }

  /** Checks the handle only: there is no disk. */
  fsync(request: RequestInit<"fsync">): void {
    this.handle(request);
  }

  /** As fsync. */
  fdatasync(request: RequestInit<"fdatasync">): void {
    this.fsync(request);
  }

  close(request: RequestInit<"close">): void {
    const open = this.handle(request);
    if (request.commit && !open.commit) throw errno("EINVAL");
    this.opened.delete(request.fd ?? -1);
    if (request.commit) open.commit?.();
  }

  listHandles(): Answer<"listHandles"> {
    const handles = [...this.opened].map(([fd, open]) => {
      const { text, raw } = shownName(open.path);
      return { fd, owner: "", contextId: "", path: text, rawPath: raw, flags: String(open.flags), openedNs: open.openedNs, lastUsedNs: open.openedNs, clientInstance: "", atomic: open.commit !== undefined };
    });
    return { handles: handles as ResponseOf<"listHandles">["handles"] };
  }

  /** Opens what a path leads to, and makes it where the flags say so. keep leaves the umask out: copies have the mode of the original. */
  private opening(path: string, flags: number, mode: number, keep = false): Open {
    const exclusive = (flags & (O_CREAT | O_EXCL)) === (O_CREAT | O_EXCL);
    const found = this.tree.find(path, !exclusive && !(flags & O_NOFOLLOW));
    let { node } = found;
    if (node && exclusive) throw errno("EEXIST");
    if (!node) {
      if (!(flags & O_CREAT)) throw errno("ENOENT");
      if (found.slash) throw errno("EISDIR");
      node = new File(mode & ~(keep ? idBits : umask | idBits));
      this.make(found, node);
      return new Open(node, flags, path);
    }
    if (found.slash && flags & O_CREAT) throw errno("EISDIR");
    if (node instanceof Link) throw errno("ELOOP");
    if (found.slash || flags & O_DIRECTORY) existing({ ...found, slash: true });
    if (node instanceof Directory && (writes(flags) || flags & O_CREAT)) throw errno("EISDIR");
    if (flags & O_TRUNC && node instanceof File && writes(flags)) this.replace(node);
    return new Open(node, flags, path);
  }

  /** Opens a file that gets its name when the handle is closed with commit. */
  private openingAtomic(path: string, flags: number, mode: number): Open {
    if (!(flags & O_TRUNC)) throw errno("EINVAL");
    const target = (): Found => this.tree.find(path, !(flags & O_EXCL));
    const check = (found: Found): Found => {
      if (found.node && flags & O_EXCL) throw errno("EEXIST");
      if (found.node instanceof Directory || found.slash) throw errno("EISDIR");
      return found;
    };
    const { node } = check(target());
    const open = new Open(new File(node ? node.mode : mode & ~(umask | idBits)), flags, path);
    open.commit = () => {
      const found = check(target());
      if (found.node) this.unname(found, found.node);
      this.make(found, open.node);
    };
    return open;
  }

  /** Makes the content of one file that of another, or empties it. */
  private replace(file: File, from?: File): void {
    file.truncate(0);
    if (from) file.write(from.view(0, from.size), 0);
    this.watches.changedNode(file);
  }

  private writeTo(open: Open, data: Uint8Array, position?: number): void {
    open.write(data, position);
    if (data.length > 0) this.watches.changedNode(open.node);
  }

  private resize(open: Open, length = 0n): void {
    if (length < 0n) throw errno("EINVAL");
    open.truncate(Number(length));
    this.watches.changedNode(open.node);
  }

  private setOwner(node: Node, { uid = -1n, gid = -1n }: { uid?: bigint | undefined; gid?: bigint | undefined }): void {
    if (uid >= 0n) node.uid = Number(uid);
    if (gid >= 0n) node.gid = Number(gid);
    this.attributesChanged(node);
  }
}

/** Copies what a view shows: into memory that the caller gave, if it has room, else into memory of its own. */
function copied(view: Uint8Array, into?: Uint8Array): Uint8Array {
  if (!into || into.length < view.length) return view.slice();
  into.set(view);
  return into.subarray(0, view.length);
}

function attributes(node: Node, { numbers }: CallOptions): Answer<"stat"> {
  return { stat: numbers ? (numberStatOf(node) as unknown as Stat) : statOf(node) };
}
