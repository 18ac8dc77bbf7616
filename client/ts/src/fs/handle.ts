import type { ReadStream, WriteStream } from "node:fs";
import { Buffer, EventEmitter, nodeMajor, streams } from "#platform";
import { invalidState } from "../errors/node.js";
import { systemError } from "../errors/system.js";
import { asBuffer, contentBytes, decoded, isPieces, requireReadable, viewArray, viewBytes } from "./bytes.js";
import type { Core } from "./core.js";
import { aborted, writePieces } from "./pieces.js";
import { handleStream, webStream } from "./handlestreams.js";
import { attributes, statCall } from "./attributes.js";
import type { BigIntStats, Stats } from "./stats.js";
import * as transfer from "./transfer.js";
import { idOf, modeOf, optionsOf, requireBoolean, requireInteger, requireObject, requireSignal, requireString, timeOf } from "./validate.js";
import { positionOf, readArguments, writeArguments } from "./arguments.js";
import { watchOver } from "./holding.js";

const futime = { syscall: "futime" };
/** The first buffer for a file whose size is not known. */
const unknownSize = 64 << 10;

/** Reads size bytes from a position on, which may be many; fewer bytes mean the end of the file. For the streams of this package. */
export let readPieceOf: (handle: FileHandle, position: number, size: number) => Promise<Uint8Array>;

/** An open file, as Node's FileHandle. */
export class FileHandle extends EventEmitter {
  static {
    readPieceOf = (handle, position, size) => handle.#use("read", (fd) => transfer.readPiece(handle.#core.caller, fd, position, size));
  }

  readonly #core: Core;
  #fd: number;
  readonly #opened: number;
  #refs = 1;
  #closing: Promise<void> | undefined;
  #closed: (() => void) | undefined;
  #failed: ((why: unknown) => void) | undefined;
  readonly #release: () => void;
  #locked = false;

  /** Makes a handle of what the server opened. Programs get theirs from open. */
  constructor(core: Core, fd: number) {
    super();
    this.#core = core;
    this.#fd = fd;
    this.#opened = fd;
    this.#release = watchOver(this, core, fd);
  }

  /** The server's number of the handle; -1 once it is closed. */
  get fd(): number {
    return this.#fd;
  }

  /** Closes the handle when the operations under way are done. */
  close = (): Promise<void> => {
    if (this.#closing) return this.#closing;
    if (this.#fd === -1) return Promise.resolve();
    this.#closing = new Promise<void>((resolve, reject) => {
      this.#closed = resolve;
      this.#failed = reject;
    }).finally(() => { this.#closing = undefined; });
    this.#unref();
    this.emit("close");
    return this.#closing;
  };

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Reads into a buffer. */
  read(buffer?: unknown, offset?: unknown, length?: unknown, position?: unknown): Promise<{ bytesRead: number; buffer: ArrayBufferView }> {
    return this.#use("read", async (fd) => {
      const call = readArguments(buffer, offset, length, position);
      const bytesRead = call.bytes ? await this.#readInto(fd, call.bytes, call.position) : call.length;
      return withoutPrototype({ bytesRead, buffer: call.buffer });
    });
  }

  /** Reads into several buffers, one after the other. */
  readv(buffers: unknown, position?: unknown): Promise<{ bytesRead: number; buffers: ArrayBufferView[] }> {
    return this.#use("readv", async (fd) => {
      const views = viewArray(buffers);
      let at = positionOf(position);
      let bytesRead = 0;
      if (views.length === 0) throw systemError({ code: "EINVAL", syscall: "read" });
      for (const view of views) {
        const bytes = viewBytes(view);
        const n = await this.#readInto(fd, bytes, at);
        bytesRead += n;
        if (at >= 0) at += n;
        if (n < bytes.length) break;
      }
      return withoutPrototype({ bytesRead, buffers: views });
    });
  }

  /** Writes a buffer, or a part of it, or a text. */
  write(data: unknown, offset?: unknown, length?: unknown, position?: unknown): Promise<{ bytesWritten: number; buffer: unknown }> {
    return this.#use("write", async (fd) => {
      const call = writeArguments(data, offset, length, position);
      if (call.bytes.length > 0) await this.#writeFrom(fd, call.bytes, call.position);
      return withoutPrototype({ bytesWritten: call.bytes.length, buffer: data });
    });
  }

  /** Writes several buffers, one after the other. */
  writev(buffers: unknown, position?: unknown): Promise<{ bytesWritten: number; buffers: ArrayBufferView[] }> {
    return this.#use("writev", async (fd) => {
      const views = viewArray(buffers);
      const bytes = views.length === 1 && views[0] ? viewBytes(views[0]) : Buffer.concat(views.map(viewBytes));
      if (bytes.length > 0) await this.#writeFrom(fd, bytes, positionOf(position));
      return withoutPrototype({ bytesWritten: bytes.length, buffers: views });
    });
  }

  /** Reads from the handle's position to the end. */
  readFile(options?: unknown): Promise<Buffer | string> {
    return this.#use("readFile", async (fd) => {
      const { encoding, signal } = optionsOf(options, {});
      aborted(signal);
      return decoded(await this.#readToEnd(fd, signal), encoding);
    });
  }

  /** Writes at the handle's position. */
  writeFile(data: unknown, options?: unknown): Promise<void> {
    return this.#use("writeFile", async (fd) => {
      const { encoding, signal } = optionsOf(options, { encoding: "utf8" });
      const content = isPieces(data) ? data : contentBytes(data, encoding, "data");
      requireSignal(signal, "signal");
      aborted(signal);
      await writePieces(this.#core, fd, content, { encoding, signal });
    });
  }

  /** As writeFile. */
  appendFile(data: unknown, options?: unknown): Promise<void> {
    return this.writeFile(data, options);
  }

  /** The file's attributes. */
  stat(options: { bigint?: boolean; signal?: unknown } = {}): Promise<Stats | BigIntStats> {
    return this.#use("fstat", async (fd) => {
      return attributes(await this.#core.caller.call("fstat", { fd }, statCall(options)), options);
    });
  }

  /** Sets the file's size. */
  truncate(len: unknown = 0): Promise<void> {
    return this.#use("ftruncate", async (fd) => {
      await this.#core.caller.call("ftruncate", { fd, len: BigInt(Math.max(0, requireInteger(len, "len"))) });
    });
  }

  /** Sets the file's permission bits. */
  chmod(mode: unknown): Promise<void> {
    return this.#use("fchmod", async (fd) => {
      await this.#core.caller.call("fchmod", { fd, modeForm: { case: "mode", value: modeOf(mode, "mode") } });
    });
  }

  /** Sets the file's owner and group. */
  chown(uid: unknown, gid: unknown): Promise<void> {
    return this.#use("fchown", async (fd) => {
      await this.#core.caller.call("fchown", { fd, uid: idOf(uid, "uid"), gid: idOf(gid, "gid") });
    });
  }

  /** Sets the file's times. */
  utimes(atime: unknown, mtime: unknown): Promise<void> {
    return this.#use("futimes", async (fd) => {
      await this.#core.caller.call("futimes", { fd, atimeNs: timeOf(atime, futime, "atime"), mtimeNs: timeOf(mtime, futime, "mtime") });
    });
  }

  /** Flushes the file to the disk. */
  sync(): Promise<void> {
    return this.#use("fsync", async (fd) => { await this.#core.caller.call("fsync", { fd }); });
  }

  /** Flushes the file's content to the disk. */
  datasync(): Promise<void> {
    return this.#use("fdatasync", async (fd) => { await this.#core.caller.call("fdatasync", { fd }); });
  }

  /** The file's lines. */
  readLines(options?: object): AsyncIterable<string> {
    return streams.lines(() => this.createReadStream(options), () => this.readableWebStream());
  }

  /**
   * The file's bytes from the handle's position on, as a byte stream of the web. With autoClose the handle closes when the
   * stream has been read; before Node 22, and in pages, it always does.
   */
  readableWebStream(options: { type?: string; autoClose?: unknown } = {}): ReadableStream<Uint8Array> {
    if (this.#fd === -1) throw invalidState("The FileHandle is closed");
    if (this.#locked) throw invalidState("The FileHandle is locked");
    if (nodeMajor < 22 && options.type !== undefined) requireString(options.type, "options.type");
    this.#locked = true;
    const { autoClose = nodeMajor < 22 } = nodeMajor < 22 ? {} : requireObject(options, "options");
    return webStream(this, requireBoolean(autoClose, "options.autoClose"));
  }

  /** Node's ReadStream of the file. */
  createReadStream(options?: object): ReadStream {
    return handleStream(this, (operations) => streams.read("", { ...options, fd: this.#fd }, operations));
  }

  /** Node's WriteStream to the file. */
  createWriteStream(options?: object): WriteStream {
    return handleStream(this, (operations) => streams.write("", { ...options, fd: this.#fd }, operations));
  }

  async #use<T>(syscall: string, run: (fd: number) => Promise<T>): Promise<T> {
    if (this.#fd === -1) throw Object.assign(new Error("file closed"), { code: "EBADF", syscall });
    this.#refs++;
    try {
      return await run(this.#opened);
    } finally {
      this.#unref();
    }
  }

  #unref(): void {
    if (--this.#refs > 0) return;
    this.#fd = -1;
    this.#release();
    this.#core.caller.call("close", { fd: this.#opened }).then(() => { this.#closed?.(); }, (why: unknown) => { this.#failed?.(why); });
  }

  #readInto(fd: number, bytes: Uint8Array, position: number): Promise<number> {
    if (position >= 0) return transfer.readAt(this.#core.caller, fd, bytes, position);
    return transfer.readOn(this.#core.caller, fd, bytes);
  }

  #writeFrom(fd: number, bytes: Uint8Array, position: number): Promise<void> {
    if (position >= 0) return transfer.writeAt(this.#core.caller, fd, bytes, position);
    return transfer.writeOn(this.#core.caller, fd, bytes);
  }

  async #readToEnd(fd: number, signal: AbortSignal | undefined): Promise<Uint8Array> {
    const { stat } = await this.#core.caller.call("fstat", { fd }, { signal });
    const parts: Uint8Array[] = [];
    const known = requireReadable(stat?.size);
    let size = known || unknownSize;
    for (;;) {
      const part = new Uint8Array(size);
      const n = await transfer.readOn(this.#core.caller, fd, part, { signal });
      parts.push(part.subarray(0, n));
      if (n < size || known > 0) break;
      size = unknownSize;
    }
    return parts.length === 1 && parts[0] ? asBuffer(parts[0]) : Buffer.concat(parts);
  }
}

/** What reads and writes give has no prototype in Node. */
function withoutPrototype<T extends object>(result: T): T {
  return Object.setPrototypeOf(result, null) as T;
}
