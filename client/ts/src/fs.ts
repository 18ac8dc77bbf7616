/**
 * What bundlers give programs in place of Node's module fs: the panel's files. It connects at its first call; see
 * configure of \@ctxfs/client/runtime for where to. constants are there at once.
 */
import { Dirent } from "#platform";
import { Dir } from "./fs/dir.js";
import { BigIntStats, StatFs, Stats } from "./fs/stats.js";
import { moduleOf, type ModuleFs } from "./modules/hybrid.js";
import { refused } from "./modules/sync.js";
import { ambientFs } from "./runtime/ambient.js";

export type { ModuleFs } from "./modules/hybrid.js";
export { BigIntStats, Dir, Dirent, StatFs, Stats };

/** Node's fs over the panel's context: with callbacks, or with promises where the last argument is no function. */
const fs: ModuleFs = moduleOf(ambientFs());
export default fs;

/* eslint-disable @typescript-eslint/no-deprecated -- programs import what Node has, and Node has these */
export const {
  access, appendFile, chmod, chown, close, constants, copyFile, cp, createReadStream, createWriteStream, exists, fchmod, fchown,
  fdatasync, fstat, fsync, ftruncate, futimes, lchmod, lchown, link, lstat, lutimes, mkdir, mkdtemp, open, opendir, promises, read,
  readFile, readdir, readlink, readv, realpath, rename, rm, rmdir, stat, statfs, symlink, truncate, unlink, utimes, watch, write,
  writeFile, writev,
} = fs;
/* eslint-enable @typescript-eslint/no-deprecated */

export const { F_OK, R_OK, W_OK, X_OK } = constants;

export const {
  accessSync, appendFileSync, chmodSync, chownSync, closeSync, copyFileSync, cpSync, existsSync, fchmodSync, fchownSync, fdatasyncSync,
  fstatSync, fsyncSync, ftruncateSync, futimesSync, lchmodSync, lchownSync, linkSync, lstatSync, lutimesSync, mkdirSync, mkdtempSync,
  openSync, opendirSync, readdirSync, readFileSync, readlinkSync, readSync, readvSync, realpathSync, renameSync, rmdirSync, rmSync,
  statSync, statfsSync, symlinkSync, truncateSync, unlinkSync, utimesSync, writeFileSync, writeSync, writevSync,
} = refused;
