import type * as nodefs from "node:fs";
import type { FsPromises } from "./promises.js";

type Shared =
  | "access" | "appendFile" | "chmod" | "chown" | "close" | "copyFile" | "cp" | "createReadStream" | "createWriteStream" | "exists"
  | "fchmod" | "fchown" | "fdatasync" | "fstat" | "fsync" | "ftruncate" | "futimes" | "lchmod" | "lchown" | "link" | "lstat" | "lutimes"
  | "mkdir" | "mkdtemp" | "open" | "opendir" | "read" | "readFile" | "readdir" | "readlink" | "readv" | "realpath" | "rename" | "rm"
  | "rmdir" | "stat" | "statfs" | "symlink" | "truncate" | "unlink" | "utimes" | "watch" | "write" | "writeFile" | "writev" | "constants";

/** Node's fs with callbacks, without what would have to wait in place (…Sync), and without watchFile. */
export type CallbackFs = Pick<typeof nodefs, Shared> & { readonly promises: FsPromises };
