import { nodeError } from "../errors/node.js";
import type { Stat } from "../gen/ctxfs/v1/fs_types_pb.js";
import type { Core } from "./core.js";
import { pathFields, pathOf } from "./paths.js";
import { statsOf, StatFs, type BigIntStats, type Stats } from "./stats.js";
import { callMode, idOf, modeOf, timeOf, type TimedCall } from "./validate.js";

interface BigIntOption { bigint?: boolean }

/** The functions that ask for attributes, and those that change them. */
export function attributeFunctions({ caller }: Core) {
  return {
    /** Attributes, following a final link. */
    async stat(path: unknown, options: BigIntOption = {}): Promise<Stats | BigIntStats> {
      const { stat } = await caller.call("stat", pathFields(pathOf(path)));
      return given(stat, options);
    },

    /** Attributes of the name itself. */
    async lstat(path: unknown, options: BigIntOption = {}): Promise<Stats | BigIntStats> {
      const { stat } = await caller.call("lstat", pathFields(pathOf(path)));
      return given(stat, options);
    },

    /** Describes the file system of a path. */
    async statfs(path: unknown, options: BigIntOption = {}): Promise<StatFs | StatFs<bigint>> {
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

function given(stat: Stat | undefined, options: BigIntOption): Stats | BigIntStats {
  if (!stat) throw new Error("the server gave no attributes");
  return statsOf(stat, options.bigint === true);
}
