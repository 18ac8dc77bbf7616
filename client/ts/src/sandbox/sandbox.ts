import type { CtxFs } from "../create.js";
import { dirname, isWithin, resolve } from "../fs/posix.js";
import { NotFoundError, SandboxError, sandboxError } from "./errors.js";

/** Files under a few names with a meaning: "/workspace/report.md" is work, "/cache/page.html" a download. */
export interface Sandbox {
  /** Reads a text. */
  read(path: string): Promise<string>;
  /** Reads bytes. */
  readBinary(path: string): Promise<Uint8Array>;
  /** Writes a text, and makes missing directories. */
  write(path: string, text: string): Promise<void>;
  /** Writes bytes, and makes missing directories. */
  writeBinary(path: string, bytes: Uint8Array): Promise<void>;
  /** Removes a file, or a directory with its content. NotFoundError when nothing is there. */
  delete(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** The names in a directory, sorted. */
  list(path: string): Promise<string[]>;
  /** Makes a directory, and its missing parents. */
  mkdir(path: string): Promise<void>;
  /** The zones: the directories that paths begin with. */
  readonly zones: readonly string[];
  /** The whole of fs/promises beneath. It knows no zones. */
  readonly fs: CtxFs;
}

/** Makes a sandbox over an fs, in which each zone is a directory. */
export function sandboxOver(fs: CtxFs, zones: readonly string[]): Sandbox {
  /** Runs a call with the path that was given, which has to be in a zone. */
  const at = async <T>(given: string, run: (path: string) => Promise<T>): Promise<T> => {
    const path = inZone(given, zones);
    try {
      return await run(path);
    } catch (error) {
      throw sandboxError(error, given);
    }
  };
  const write = (path: string, content: string | Uint8Array): Promise<void> => at(path, async (p) => {
    await fs.mkdir(dirname(p), { recursive: true });
    await fs.writeFile(p, content);
  });
  return {
    fs, zones,
    read: (path) => at(path, (p) => fs.readFile(p, "utf8")),
    readBinary: (path) => at(path, (p) => fs.readFile(p)),
    write, writeBinary: write,
    delete: (path) => at(path, (p) => {
      if (zones.includes(p)) throw new SandboxError(`${p} is a zone: delete what is in it`, "EBUSY", path);
      return fs.rm(p, { recursive: true });
    }),
    exists: (path) => at(path, (p) => fs.access(p).then(() => true, () => false)),
    list: (path) => at(path, async (p) => (await fs.readdir(p)).sort()),
    mkdir: (path) => at(path, async (p) => { await fs.mkdir(p, { recursive: true }); }),
  };
}

/** Returns the absolute path. NotFoundError when it is in no zone. */
function inZone(given: string, zones: readonly string[]): string {
  const path = resolve("/", given);
  if (zones.some((zone) => isWithin(zone, path))) return path;
  throw new NotFoundError(`${given} is in no zone of this sandbox: paths begin with ${zones.join(" or ")}`, given);
}
