import { nodeMajor } from "#platform";
import { nodeError } from "../errors/node.js";
import type { Stat } from "../gen/ctxfs/v1/fs_types_pb.js";
import type { CallOptions } from "../session/operations.js";
import type { Core } from "./core.js";
import { pathFields, pathOf } from "./paths.js";
import { aborted } from "./pieces.js";
import { statsOf, StatFs, type BigIntStats, type Stats } from "./stats.js";
import { callMode, idOf, modeOf, requireObject, requireSignal, timeOf, type TimedCall } from "./validate.js";

interface StatOptions { bigint?: boolean; signal?: unknown; throwIfNoEntry?: boolean }

/** The functions that ask for attributes, and those that change them. */
export function attributeFunctions({ caller }: Core) {
  return {
    /** Attributes, following a final link. */
    async stat(path: unknown, options: StatOptions = {}): Promise<Stats | BigIntStats | undefined> {
      const how = statCall(options);
      try {
        return attributes(await caller.call("stat", pathFields(pathOf(path)), how), options);
      } catch (error) {
        if (!mayBeAbsent(error, options)) throw error;
        return undefined;
      }
    },

    /** Attributes of the name itself. */
    async lstat(path: unknown, options: StatOptions = {}): Promise<Stats | BigIntStats> {
      return attributes(await caller.call("lstat", pathFields(pathOf(path)), statCall(options)), options);
    },

    /** Describes the file system of a path. */
    async statfs(path: unknown, options: Pick<StatOptions, "bigint"> = {}): Promise<StatFs | StatFs<bigint>> {
      const answer = await caller.call("statfs", pathFields(pathOf(path)));
      return options.bigint === true ? new StatFs(answer, BigInt) : new StatFs(answer, Number);
    },

    /** Rejects unless the path may be used so. */
    async access(path: unknown, mode?: unknown): Promise<void> {
      await caller.call("access", { ...pathFields(pathOf(path)), mode: callMode(mode) });
    },

    /** Sets permission bits, following a final link. */
    async chmod(path: unknown, mode: unknown): Promise<void> {
      const p = pathOf(path);
      await caller.call("chmod", { ...pathFields(p), modeForm: { case: "mode", value: modeOf(mode, "mode") } });
    },

    /** Exists on macOS only: rejects, as Node does elsewhere. */
    lchmod(): Promise<never> {
      return Promise.reject(nodeError(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The lchmod() method is not implemented"));
    },

    /** Sets owner and group, following a final link. */
    async chown(path: unknown, uid: unknown, gid: unknown): Promise<void> {
      const p = pathOf(path);
      await caller.call("chown", { ...pathFields(p), uid: idOf(uid, "uid"), gid: idOf(gid, "gid") });
    },

    /** Sets owner and group of the name itself. */
    async lchown(path: unknown, uid: unknown, gid: unknown): Promise<void> {
      const p = pathOf(path);
      await caller.call("lchown", { ...pathFields(p), uid: idOf(uid, "uid"), gid: idOf(gid, "gid") });
    },

    /** Sets times, following a final link. */
    async utimes(path: unknown, atime: unknown, mtime: unknown): Promise<void> {
      const p = pathOf(path);
      const times = timesOf(atime, mtime, { syscall: "utime", path: p.shown });
      await caller.call("utimes", { ...pathFields(p), ...times });
    },

    /** Sets times of the name itself. */
    async lutimes(path: unknown, atime: unknown, mtime: unknown): Promise<void> {
      const p = pathOf(path);
      const times = timesOf(atime, mtime, { syscall: "lutime", path: p.shown });
      await caller.call("lutimes", { ...pathFields(p), ...times });
    },
  };
}

function timesOf(atime: unknown, mtime: unknown, call: TimedCall): { atimeNs: bigint; mtimeNs: bigint } {
  return { atimeNs: timeOf(atime, call), mtimeNs: timeOf(mtime, call) };
}

const asNumbers: CallOptions = { numbers: true };
const asBigints: CallOptions = {};

/** How to call stat, lstat and fstat. Node checks the options, and takes a signal, from version 26 on. */
export function statCall(options: StatOptions): CallOptions {
  const signal = nodeMajor < 26 ? undefined : requireSignal(requireObject(options, "options").signal, "options.signal");
  aborted(signal);
  const how = options.bigint === true ? asBigints : asNumbers;
  return signal ? { ...how, signal } : how;
}

/** The attributes in a reply. */
export function attributes({ stat }: { stat?: Stat | undefined }, options: StatOptions): Stats | BigIntStats {
  if (!stat) throw new Error("the server gave no attributes");
  return statsOf(stat, options.bigint === true);
}

/** Says whether stat returns undefined for an error: with throwIfNoEntry: false, from Node 24 on. */
function mayBeAbsent(error: unknown, { throwIfNoEntry = true }: StatOptions): boolean {
  const { code } = error as { code?: string };
  return !throwIfNoEntry && nodeMajor >= 24 && (code === "ENOENT" || code === "ENOTDIR");
}
