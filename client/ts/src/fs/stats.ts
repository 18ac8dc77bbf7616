import type { Stat } from "../gen/ctxfs/v1/fs_types_pb.js";
import type { StatfsResponse } from "../gen/ctxfs/v1/fs_messages_pb.js";
import { nodeClasses, nodeMajor } from "#platform";
import type { NumberStat } from "../session/results.js";
import { constants } from "./constants.js";

const nsPerMs = 1_000_000n;
const times = ["atime", "mtime", "ctime", "birthtime"] as const;

/** What Stats and BigIntStats share: numbers or bigints, and questions about the type. */
abstract class StatsBase<T extends number | bigint> {
  declare dev: T;
  declare mode: T;
  declare nlink: T;
  declare uid: T;
  declare gid: T;
  declare rdev: T;
  declare blksize: T;
  declare ino: T;
  declare size: T;
  declare blocks: T;
  declare atimeMs: T;
  declare mtimeMs: T;
  declare ctimeMs: T;
  declare birthtimeMs: T;
  declare atime: Date;
  declare mtime: Date;
  declare ctime: Date;
  declare birthtime: Date;

  protected constructor(stat: Stat | NumberStat, convert: (value: bigint | number) => T) {
    this.dev = convert(stat.dev);
    this.mode = convert(stat.mode);
    this.nlink = convert(stat.nlink);
    this.uid = convert(stat.uid);
    this.gid = convert(stat.gid);
    this.rdev = convert(stat.rdev);
    this.blksize = convert(stat.blksize);
    this.ino = convert(stat.ino);
    this.size = convert(stat.size);
    this.blocks = convert(stat.blocks);
  }

  declare isDirectory: () => boolean;
  declare isFile: () => boolean;
  declare isBlockDevice: () => boolean;
  declare isCharacterDevice: () => boolean;
  declare isSymbolicLink: () => boolean;
  declare isFIFO: () => boolean;
  declare isSocket: () => boolean;
}

/** Attributes of a file, as Node's Stats, and in Node an instance of it. */
export class Stats extends StatsBase<number> {
  /** Makes Stats from the server's reply. */
  constructor(stat: Stat | NumberStat) {
    super(stat, Number);
    const inMs = "atimeMs" in stat;
    this.atimeMs = inMs ? stat.atimeMs : milliseconds(stat.atimeNs);
    this.mtimeMs = inMs ? stat.mtimeMs : milliseconds(stat.mtimeNs);
    this.ctimeMs = inMs ? stat.ctimeMs : milliseconds(stat.ctimeNs);
    this.birthtimeMs = inMs ? stat.birthtimeMs : milliseconds(stat.birthtimeNs);
  }
}

/** Attributes of a file as bigints, with nanoseconds, as Node's BigIntStats. */
export class BigIntStats extends StatsBase<bigint> {
  declare atimeNs: bigint;
  declare mtimeNs: bigint;
  declare ctimeNs: bigint;
  declare birthtimeNs: bigint;

  /** Makes BigIntStats from the server's reply. */
  constructor(stat: Stat) {
    super(stat, BigInt);
    this.atimeMs = stat.atimeNs / nsPerMs;
    this.mtimeMs = stat.mtimeNs / nsPerMs;
    this.ctimeMs = stat.ctimeNs / nsPerMs;
    this.birthtimeMs = stat.birthtimeNs / nsPerMs;
    this.atimeNs = stat.atimeNs;
    this.mtimeNs = stat.mtimeNs;
    this.ctimeNs = stat.ctimeNs;
    this.birthtimeNs = stat.birthtimeNs;
  }
}

/** Adds seconds and nanoseconds as Node does: a double has no room for nanoseconds since the epoch. */
function milliseconds(ns: bigint): number {
  const seconds = ns / 1_000_000_000n;
  return Number(seconds) * 1000 + Number(ns - seconds * 1_000_000_000n) / 1e6;
}

const types = {
  isDirectory: constants.S_IFDIR, isFile: constants.S_IFREG, isBlockDevice: constants.S_IFBLK, isCharacterDevice: constants.S_IFCHR,
  isSymbolicLink: constants.S_IFLNK, isFIFO: constants.S_IFIFO, isSocket: constants.S_IFSOCK,
};

for (const { prototype } of [Stats, BigIntStats]) {
  for (const [question, type] of Object.entries(types)) {
    define(prototype, question, function (this: Stats | BigIntStats) { return (Number(this.mode) & constants.S_IFMT) === type; });
  }
  for (const name of times) defineDate(prototype, name);
}
if (nodeClasses.Stats) Object.setPrototypeOf(Stats.prototype, nodeClasses.Stats.prototype);

/** A date is made when a program asks for it, as from Node 22 on: most programs ask for none of the four. */
function defineDate(prototype: object, name: typeof times[number]): void {
  Object.defineProperty(prototype, name, {
    configurable: true,
    enumerable: true,
    get(this: Stats | BigIntStats) {
      const value = new Date(Math.round(Number(this[`${name}Ms`])));
      define(this, name, value);
      return value;
    },
    set(this: object, value: unknown) {
      define(this, name, value);
    },
  });
}

function define(target: object, name: string, value: unknown): void {
  Object.defineProperty(target, name, { value, configurable: true, enumerable: true, writable: true });
}

/** Makes Stats or BigIntStats. */
export function statsOf(stat: Stat | NumberStat, bigint: boolean): Stats | BigIntStats {
  return bigint && !("atimeMs" in stat) ? new BigIntStats(stat) : new Stats(stat);
}

const statfsFields = ["type", "bsize", "blocks", "bfree", "bavail", "files", "ffree"] as const;

/** Describes a file system, as Node's StatFs. */
export class StatFs<T extends number | bigint = number> {
  declare type: T;
  declare bsize: T;
  /** From Node 24 on. */
  declare frsize: T;
  declare blocks: T;
  declare bfree: T;
  declare bavail: T;
  declare files: T;
  declare ffree: T;

  /** Makes one of what the server gives. */
  constructor(from: StatfsResponse, convert: (value: bigint) => T) {
    for (const field of statfsFields) {
      this[field] = convert(from[field]);
      // Its order in the object is Node's. The server does not report it; file systems have the same number twice.
      if (field === "bsize" && nodeMajor >= 24) this.frsize = this.bsize;
    }
  }
}
