import { nodeMajor, warnOnce } from "#platform";
import { invalidArgValue, nodeError } from "../errors/node.js";
import { fsError } from "../errors/fs.js";
import { FileType } from "../gen/ctxfs/v1/fs_types_pb.js";
import { asBuffer, nameOf } from "./bytes.js";
import { renamed, type Core } from "./core.js";
import { copyTree } from "./cp.js";
import { pathFields, pathOf, twoPathFields } from "./paths.js";
import { modeOf, option, optionsOf, requireBoolean, requireInt32, requireInteger, requireObject } from "./validate.js";
import { systemError, type SystemError } from "../errors/system.js";
import { resolve } from "./posix.js";

interface EncodingOption { encoding?: string | null }
interface MkdirOptions { recursive?: unknown; mode?: unknown }

const directoryMode = 0o777;
const symlinkTypes = new Set<unknown>(["dir", "file", "junction"]);

/** The functions that make, move and remove names, and those that resolve links. */
export function nameFunctions(core: Core) {
  const { caller } = core;

  /** Makes a directory whose name begins with the prefix. */
  async function mkdtemp(prefix: unknown, options?: unknown): Promise<string | Buffer> {
    const { encoding } = optionsOf<EncodingOption>(options, {});
    const p = pathOf(prefix, "prefix");
    if (p.shown === "" && nodeMajor < 24) throw systemError({ code: "EINVAL", syscall: "mkdtemp", path: "XXXXXX" });
    if (p.shown.endsWith("X")) warnOnce("mkdtemp() templates ending with X are not portable. For details see: https://nodejs.org/api/fs.html");
    if (p.shown === "") return nameOf((await caller.call("mkdtemp", { prefix: "./" })).path.slice(2), new Uint8Array(0), encoding);
    const made = await caller.call("mkdtemp", { prefix: p.path, rawPrefix: p.raw });
    return nameOf(made.path, made.rawPath, encoding);
  }

  return {
    /** Moves a name. */
    async rename(oldPath: unknown, newPath: unknown): Promise<void> {
      const from = pathOf(oldPath, "oldPath");
      await caller.call("rename", twoPathFields(from, pathOf(newPath, "newPath")));
    },

    /** Removes a name that is no directory. */
    async unlink(path: unknown): Promise<void> {
      await caller.call("unlink", pathFields(pathOf(path)));
    },

    /** Gives a file another name. */
    async link(existingPath: unknown, newPath: unknown): Promise<void> {
      const from = pathOf(existingPath, "existingPath");
      await caller.call("link", twoPathFields(from, pathOf(newPath, "newPath")));
    },

    /** Makes a symbolic link. */
    async symlink(target: unknown, path: unknown, type?: unknown): Promise<void> {
      if (nodeMajor >= 24 && type !== null && type !== undefined && !symlinkTypes.has(type)) {
        throw invalidArgValue("type", type, "must be one of: 'dir', 'file', 'junction', null, undefined");
      }
      const to = pathOf(target, "target");
      const p = pathOf(path);
      if (typeof type === "string" && !symlinkTypes.has(type)) {
        const why = `Symlink type must be one of "dir", "file", or "junction". Received "${type}"`;
        throw nodeError(Error, "ERR_FS_INVALID_SYMLINK_TYPE", why);
      }
      await caller.call("symlink", { ...pathFields(p), target: to.path, rawTarget: to.raw });
    },

    /** A link's target. */
    async readlink(path: unknown, options?: unknown): Promise<string | Buffer> {
      const { encoding } = optionsOf<EncodingOption>(options, {});
      const { target, rawTarget } = await caller.call("readlink", pathFields(pathOf(path, "oldPath")));
      return nameOf(target, rawTarget, encoding);
    },

    /** The path with all links resolved. */
    async realpath(path: unknown, options?: unknown): Promise<string | Buffer> {
      const { encoding } = optionsOf<EncodingOption>(options, {});
      const answer = await caller.call("realpath", pathFields(pathOf(path)));
      return nameOf(answer.path, answer.rawPath, encoding);
    },

    /** Makes a directory; with recursive its parents too, and then gives the first that was made. */
    async mkdir(path: unknown, given?: unknown): Promise<string | undefined> {
      const options = (typeof given === "number" || typeof given === "string" ? { mode: given } : (given ?? {})) as MkdirOptions;
      const p = pathOf(path);
      const recursive = requireBoolean(options.recursive === undefined ? false : options.recursive, "options.recursive");
      const mode = modeOf(options.mode, "mode", directoryMode);
      const made = await caller.call("mkdir", { ...pathFields(p), recursive, modeForm: { case: "mode", value: mode } });
      if (!recursive) return undefined;
      if (made.rawPath.length > 0) return asBuffer(made.rawPath).toString();
      return made.path ? partOf(p.shown, made.path) : undefined;
    },

    mkdtemp,

    /** Makes a directory as mkdtemp does, which remove() and "await using" remove with its content. */
    async mkdtempDisposable(prefix: unknown, options?: unknown): Promise<object> {
      const path = await mkdtemp(prefix, options);
      const remove = async (): Promise<void> => { await caller.call("rm", { ...pathFields(pathOf(path)), recursive: true, force: true }); };
      return Object.assign(Object.create(null) as object, { path, remove, [Symbol.asyncDispose]: remove });
    },

    /** Removes a file or, with recursive, a tree. */
    async rm(path: unknown, given?: unknown): Promise<void> {
      const p = pathOf(path);
      const options = removeOptions(given);
      const force = requireBoolean(option(options, "force", false), "options.force");
      try {
        await caller.call("rm", { ...pathFields(p), force, recursive: options.recursive });
      } catch (error) {
        throw isDirectoryError(error) && !options.recursive ? directoryNotRemoved(p.shown) : asNodeRemoves(error, p.shown);
      }
    },

    /** Removes an empty directory. */
    async rmdir(path: unknown, given?: unknown): Promise<void> {
      const p = pathOf(path);
      if (nodeMajor >= 26) {
        const { recursive } = (given ?? {}) as { recursive?: unknown };
        if (recursive !== undefined) throw invalidArgValue("options.recursive", recursive, "is no longer supported");
        if (given !== undefined) requireObject(given, "options");
      }
      const { recursive } = nodeMajor >= 26 ? { recursive: false } : removeOptions(given);
      if (recursive) warnOnce("In future versions of Node.js, fs.rmdir(path, { recursive: true }) will be removed. Use fs.rm(path, { recursive: true }) instead", "DEP0147");
      if (recursive && (await caller.call("stat", pathFields(p))).stat?.type === FileType.DIRECTORY) {
        await caller.call("rm", { ...pathFields(p), recursive: true });
        return;
      }
      await caller.call("rmdir", pathFields(p));
    },

    /** Copies a file or, with recursive, a tree. */
    async cp(src: unknown, dest: unknown, options?: unknown): Promise<void> {
      await copyTree(core, src, dest, options);
    },
  };
}

/** retryDelay and maxRetries are checked and not used: the server removes, and needs no patience for other processes. */
function removeOptions(given: unknown): { force?: unknown; recursive: boolean } {
  if (given === undefined) return { recursive: false };
  const options = requireObject(given, "options");
  const recursive = requireBoolean(option(options, "recursive", false), "options.recursive");
  requireInt32(option(options, "retryDelay", 100), "options.retryDelay", 0);
  requireInteger(option(options, "maxRetries", 0), "options.maxRetries", 0, 2 ** 32 - 1);
  return { ...options, recursive };
}

/** The part of the path that was given which means the directory that was made, as far as Node had cut it when it could be made. */
function partOf(given: string, made: string): string {
  const parts = [...given.matchAll(/[^/]+/g)];
  const cut = (i: number): string => given.slice(0, (parts[i + 1]?.index ?? given.length + 1) - 1);
  const name = made.slice(made.lastIndexOf("/") + 1);
  const found = parts.flatMap((part, i) => (part[0] === name ? [cut(i)] : []));
  return (found.length > 1 ? found.find((path) => resolve(path) === made) : found[0]) ?? made;
}

/** Node looks at the path before it removes it, and removes directories one by one. */
function asNodeRemoves(error: unknown, path: string): unknown {
  const e = error as SystemError;
  if (e.syscall !== "rm" || e.path?.length !== path.length) return error;
  return renamed(error, e.code === "EINVAL" ? "rmdir" : "lstat");
}

function isDirectoryError(error: unknown): boolean {
  return (error as SystemError).code === "EISDIR";
}

function directoryNotRemoved(path: string): Error {
  return fsError("ERR_FS_EISDIR", { code: "EISDIR", message: "is a directory", path, syscall: "rm" });
}
