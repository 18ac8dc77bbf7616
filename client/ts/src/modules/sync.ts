import { nodeError } from "../errors/node.js";

type SyncName =
  | "accessSync" | "appendFileSync" | "chmodSync" | "chownSync" | "closeSync" | "copyFileSync" | "cpSync" | "existsSync" | "fchmodSync"
  | "fchownSync" | "fdatasyncSync" | "fstatSync" | "fsyncSync" | "ftruncateSync" | "futimesSync" | "lchmodSync" | "lchownSync"
  | "linkSync" | "lstatSync" | "lutimesSync" | "mkdirSync" | "mkdtempSync" | "openSync" | "opendirSync" | "readdirSync" | "readFileSync"
  | "readlinkSync" | "readSync" | "readvSync" | "realpathSync" | "renameSync" | "rmdirSync" | "rmSync" | "statSync" | "statfsSync"
  | "symlinkSync" | "truncateSync" | "unlinkSync" | "utimesSync" | "writeFileSync" | "writeSync" | "writevSync";

/**
 * Functions that would have to wait in place for a server, which no page can. They exist by name, so that bundlers link
 * libraries that import them and do without when they can, and throw when they are called.
 */
export const refused = new Proxy({} as Record<SyncName, (...args: unknown[]) => never>, {
  get: (_, name) => () => {
    const asked = String(name);
    const instead = asked === "existsSync" ? "access" : asked.replace(/Sync$/, "");
    throw nodeError(Error, "ERR_METHOD_NOT_IMPLEMENTED", `${asked}() cannot wait for a ctxfs server: use fs.promises.${instead}()`);
  },
});
