import type * as nodefs from "node:fs";
import { nodeMajor, streams, warnOnce } from "#platform";
import { innerError, invalidArgType, received, throwingAtOnce } from "../errors/node.js";
import { systemError } from "../errors/system.js";
import type { StreamOperations } from "../platform/types.js";
import { ReadAhead } from "./ahead.js";
import { readPieceOf, type FileHandle } from "./handle.js";
import type { FsPromises } from "./promises.js";
import { FileWatcher } from "./watcher.js";

type Shared =
  | "access" | "appendFile" | "chmod" | "chown" | "close" | "copyFile" | "cp" | "createReadStream" | "createWriteStream" | "exists"
  | "fchmod" | "fchown" | "fdatasync" | "fstat" | "fsync" | "ftruncate" | "futimes" | "lchmod" | "lchown" | "link" | "lstat" | "lutimes"
  | "mkdir" | "mkdtemp" | "open" | "opendir" | "read" | "readFile" | "readdir" | "readlink" | "readv" | "realpath" | "rename" | "rm"
  | "rmdir" | "stat" | "statfs" | "symlink" | "truncate" | "unlink" | "utimes" | "watch" | "write" | "writeFile" | "writev" | "constants";

/** Node's fs with callbacks, without what would have to wait in place (…Sync), and without watchFile. */
export type CallbackFs = Pick<typeof nodefs, Shared> & { readonly promises: FsPromises };

type Callback = (error: unknown, ...values: unknown[]) => void;
type AsyncFunction = (...args: unknown[]) => Promise<unknown>;

/** Functions that work on paths, and take a callback instead of giving a promise. */
const pathFunctions = [
  "access", "chmod", "chown", "copyFile", "cp", "lchmod", "lchown", "link", "lstat", "lutimes", "mkdir", "mkdtemp", "opendir",
  "readdir", "readlink", "realpath", "rename", "rm", "rmdir", "stat", "statfs", "symlink", "truncate", "unlink", "utimes",
] as const;

/** Functions that take a path or an open file. */
const contentFunctions = ["readFile", "writeFile", "appendFile"] as const;

/** Functions that work on an open file, and the method of FileHandle that each is. */
const fileFunctions = {
  fstat: "stat", ftruncate: "truncate", fchmod: "chmod", fchown: "chown", futimes: "utimes", fsync: "sync", fdatasync: "datasync",
} as const;

/** Functions that give two values: how much, and what they were given. */
const transferFunctions = { read: ["bytesRead", "buffer"], write: ["bytesWritten", "buffer"], readv: ["bytesRead", "buffers"], writev: ["bytesWritten", "buffers"] } as const;

/** Makes the fs with callbacks over the one with promises. Files that it opens are numbers. */
export function callbacksOf(promises: FsPromises): CallbackFs {
  const own = promises as unknown as Record<string, AsyncFunction>;
  const files = new Map<number, FileHandle>();
  const fs: Record<string, unknown> = {};
  for (const name of pathFunctions) fs[name] = withCallback(name, (...args) => call(own, name, args));
  for (const name of contentFunctions) {
    fs[name] = withCallback(name, (file, ...args) => call(own, name, [typeof file === "number" ? fileOf(files, file, name) : file, ...args]));
  }
  for (const [name, method] of Object.entries(fileFunctions)) {
    fs[name] = withCallback(name, (fd, ...args) => call(fileOf(files, fd, name), method, args));
  }
  if (nodeMajor < 24) {
    fs.truncate = withCallback("truncate", (file, ...args) => {
      if (typeof file !== "number") return call(own, "truncate", [file, ...args]);
      warnOnce("Using fs.truncate with a file descriptor is deprecated. Please use fs.ftruncate with a file descriptor instead.", "DEP0081");
      return call(fileOf(files, file, "ftruncate"), "truncate", args);
    });
  }
  for (const [name, fields] of Object.entries(transferFunctions)) {
    fs[name] = withCallback(name, (fd, ...args) => call(fileOf(files, fd, name), name, args), (result) => fields.map((field) => (result as Record<string, unknown>)[field]));
  }
  Object.assign(fs, openAndClose(promises, files), { exists: existsOf(own), watch: watchOf(promises), constants: promises.constants, promises });
  const operations = fs as unknown as StreamOperations;
  fs.createReadStream = (path: unknown, options?: unknown) => streams.read(path, options, opensItself(options) ? readingAhead(operations, files) : operations);
  fs.createWriteStream = (path: unknown, options?: unknown) => streams.write(path, options, operations);
  return fs as unknown as CallbackFs;
}

/** Says whether a stream opens its file. No other code then moves the file's position. */
function opensItself(options: unknown): boolean {
  return typeof options !== "object" || (options as { fd?: unknown } | null)?.fd == null;
}

/** The operations of one stream, which reads ahead. */
function readingAhead(operations: StreamOperations, files: Map<number, FileHandle>): StreamOperations {
  let ahead: ReadAhead | undefined;
  return {
    ...operations,
    open: (path, flags, mode, done) => {
      operations.open(path, flags, mode, (error, fd) => {
        const handle = files.get(fd ?? -1);
        if (handle) ahead = new ReadAhead((at, size) => readPieceOf(handle, at, size));
        done(error, fd);
      });
    },
    read: (fd, buffer, offset, length, position, done) => {
      if (!ahead) {
        operations.read(fd, buffer, offset, length, position, done);
        return;
      }
      ahead.read(buffer.subarray(offset, offset + length), position as number | undefined)
        .then((n) => { done(null, n, buffer); }, (error: unknown) => { done(error, 0, buffer); });
    },
  };
}

function openAndClose(promises: FsPromises, files: Map<number, FileHandle>) {
  return {
    open: withCallback("open", async (path, flags, mode) => {
      const handle = await promises.open(path as string, flags as string, mode as number);
      files.set(handle.fd, handle as unknown as FileHandle);
      return handle.fd;
    }),
    close: withCallback("close", async (fd) => {
      const handle = fileOf(files, fd, "close");
      files.delete(fd as number);
      await handle.close();
    }, () => []),
  };
}

/**
 * Where each function has its callback: after so many arguments; "optional" when one more may stand before it, "either"
 * when Node looks at both places. It is shown when it is no function.
 */
const places: Readonly<Record<string, readonly [required: number, form: "strict" | "optional" | "either"]>> = {
  access: [1, "optional"], appendFile: [2, "either"], chmod: [2, "strict"], chown: [3, "strict"], close: [1, "strict"], copyFile: [2, "optional"],
  cp: [2, "optional"], exists: [1, "strict"], fchmod: [2, "strict"], fchown: [3, "strict"], fdatasync: [1, "strict"], fstat: [1, "optional"], fsync: [1, "strict"],
  ftruncate: [1, "optional"], futimes: [3, "strict"], lchown: [3, "strict"], link: [2, "strict"], lstat: [1, "optional"], lutimes: [3, "strict"], mkdir: [1, "optional"],
  mkdtemp: [1, "optional"], open: [1, "optional"], opendir: [1, "optional"], readFile: [1, "either"], readdir: [1, "optional"], readlink: [1, "optional"],
  realpath: [1, "optional"], rename: [2, "strict"], rm: [1, "optional"], rmdir: [1, "optional"], stat: [1, "optional"], statfs: [1, "optional"],
  symlink: [2, "either"], truncate: [1, "optional"], unlink: [1, "strict"], utimes: [3, "strict"], writeFile: [2, "either"],
};

function notCallback(name: string, args: readonly unknown[]): Error {
  const [required, form] = places[name] ?? [args.length, "strict"];
  const after = form === "strict" ? undefined : args[required + 1];
  return invalidArgType("cb", "Function", form === "optional" ? after : (after || args[required]));
}

/** Takes the callback off the arguments, and calls it with what run gives. Throws wrong arguments at once, and a missing callback. */
function withCallback(name: string, run: AsyncFunction, values: (result: unknown) => unknown[] = (result) => (result === undefined ? [] : [result])) {
  return (...args: unknown[]): void => {
    const callback = args.at(-1);
    if (typeof callback !== "function") throw notCallback(name, args);
    const done = callback as Callback;
    const started = throwingAtOnce(async (): Promise<unknown> => run(...args.slice(0, -1)));
    // What a callback throws is its program's, and no rejection here.
    started.then((result) => { queueMicrotask(() => { done(null, ...values(result)); }); }, (error: unknown) => { queueMicrotask(() => { done(error); }); });
  };
}

function call(target: object, name: string, args: unknown[]): Promise<unknown> {
  return (target as Record<string, AsyncFunction>)[name]?.(...args) ?? Promise.reject(new TypeError(`${name} is no function of this fs`));
}

function fileOf(files: Map<number, FileHandle>, fd: unknown, syscall: string): FileHandle {
  checkFile(fd);
  const handle = files.get(fd);
  if (!handle) throw systemError({ code: "EBADF", syscall });
  return handle;
}

/** The number of a file is checked inside in Node, where errors do not show their code. */
function checkFile(fd: unknown): asserts fd is number {
  if (typeof fd !== "number") throw innerError(TypeError, "ERR_INVALID_ARG_TYPE", `The "fd" argument must be of type number. Received ${received(fd)}`);
  const range = Number.isInteger(fd) ? ">= 0 && <= 2147483647" : "an integer";
  if (Number.isInteger(fd) && fd >= 0 && fd < 2 ** 31) return;
  throw innerError(RangeError, "ERR_OUT_OF_RANGE", `The value of "fd" is out of range. It must be ${range}. Received ${fd}`);
}

function existsOf(own: Record<string, AsyncFunction>) {
  return (path: unknown, callback: unknown): void => {
    if (typeof callback !== "function") throw invalidArgType("cb", "Function", callback);
    const answer = callback as (exists: boolean) => void;
    call(own, "access", [path]).then(() => { answer(true); }, () => { answer(false); });
  };
}

function watchOf(promises: FsPromises) {
  return (path: unknown, options?: unknown, listener?: unknown): FileWatcher => {
    const given = typeof options === "function" ? {} : typeof options === "string" ? { encoding: options } : options;
    const watcher = new FileWatcher((signal) => promises.watch(path as string, { ...(given as object | undefined), signal }));
    const called = typeof options === "function" ? options : listener;
    if (typeof called === "function") watcher.on("change", called as (...args: unknown[]) => void);
    return watcher;
  };
}
