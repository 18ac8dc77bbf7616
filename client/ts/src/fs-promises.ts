/** What bundlers give programs in place of Node's module fs/promises: the panel's files. See \@ctxfs/client/fs. */
import type { CtxFs } from "./create.js";
import { ambientFs } from "./runtime/ambient.js";

/** Node's fs/promises over the panel's context. */
const fs: CtxFs = ambientFs();
export default fs;

/* eslint-disable @typescript-eslint/no-deprecated, @typescript-eslint/unbound-method -- Node has these; none of them needs this */
export const {
  access, appendFile, chmod, chown, constants, copyFile, cp, glob, lchmod, lchown, link, lstat, lutimes, mkdir, mkdtemp, open, opendir,
  readFile, readdir, readlink, realpath, rename, rm, rmdir, stat, statfs, symlink, truncate, unlink, utimes, watch, writeFile,
} = fs;
