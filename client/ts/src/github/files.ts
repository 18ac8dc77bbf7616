import { Buffer } from "#platform";
import type { CtxFs } from "../create.js";
import { isMissing } from "../sandbox/errors.js";
import type { DiffSide } from "./diff.js";

/** The files of a repository in a sandbox. Paths are relative to the repository. */
export class WorkingFiles {
  constructor(private readonly fs: CtxFs, readonly root: string) {}

  /** Reads a file, or a link as git keeps it. Undefined when none is there, or a directory. */
  async read(path: string): Promise<DiffSide | undefined> {
    try {
      const at = `${this.root}/${path}`;
      const stat = await this.fs.lstat(at);
      if (stat.isDirectory()) return undefined;
      if (stat.isSymbolicLink()) return { mode: "120000", bytes: await this.fs.readlink(at, "buffer") };
      return { mode: stat.mode & 0o100 ? "100755" : "100644", bytes: await this.fs.readFile(at) };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  /** Lists the files below a directory; the path itself when it is a file, and nothing when it is not there. */
  async below(path: string): Promise<string[]> {
    const at = path === "" ? this.root : `${this.root}/${path}`;
    try {
      if (!(await this.fs.lstat(at)).isDirectory()) return [path];
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
    const entries = await this.fs.readdir(at, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => !entry.isDirectory()).map(({ parentPath, name }) => `${parentPath}/${name}`.slice(this.root.length + 1));
    return files.filter((file) => !isBarred(file));
  }

  /** Returns the first part of a path that is a link, or a file where a directory is needed; undefined when nothing is in the way. */
  async obstacle(path: string): Promise<string | undefined> {
    const parts = path.split("/");
    for (let i = 1; i < parts.length; i++) {
      const above = parts.slice(0, i).join("/");
      if (await this.read(above)) return above;
    }
    return undefined;
  }

  /** Writes a file, or a link. */
  async write(path: string, { mode, bytes }: DiffSide): Promise<void> {
    const at = `${this.root}/${path}`;
    await this.fs.mkdir(at.slice(0, at.lastIndexOf("/")), { recursive: true });
    if (mode === "120000") {
      await this.fs.rm(at, { force: true });
      return this.fs.symlink(Buffer.from(bytes), at);
    }
    const before = await this.read(path);
    if (before?.mode === "120000") await this.fs.unlink(at);
    await this.fs.writeFile(at, bytes);
    if (mode !== (before?.mode ?? "100644")) await this.fs.chmod(at, mode === "100755" ? 0o755 : 0o644);
  }

  /** Removes a file. */
  async remove(path: string): Promise<void> {
    await this.fs.unlink(`${this.root}/${path}`);
  }
}

/** Says whether a path of a repository must never be made, or committed: it leads elsewhere, or means git's own directory. */
export function isBarred(path: string): boolean {
  return path.split("/").some((part) => part === "" || part === "." || part === ".." || /^(\.git|git~1)$/i.test(part));
}
