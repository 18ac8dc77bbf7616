import type { Fs } from "../row.js";

type PathCall = (fs: Fs, dir: string, path: unknown) => unknown;

/** Every function that takes a path, with each of its path arguments in turn, and what else it needs. */
export const pathCalls: Record<string, PathCall> = {
  access: (fs, _, p) => fs.access(p),
  appendFile: (fs, _, p) => fs.appendFile(p, "more"),
  chmod: (fs, _, p) => fs.chmod(p, 0o750),
  chown: (fs, _, p) => fs.chown(p, 0, 0),
  "copyFile from": (fs, dir, p) => fs.copyFile(p, `${dir}/new`),
  "copyFile to": (fs, dir, p) => fs.copyFile(`${dir}/a.txt`, p),
  "cp from": (fs, dir, p) => fs.cp(p, `${dir}/new`),
  "cp to": (fs, dir, p) => fs.cp(`${dir}/a.txt`, p),
  "cp -r from": (fs, dir, p) => fs.cp(p, `${dir}/new`, { recursive: true }),
  "cp -r to": (fs, dir, p) => fs.cp(`${dir}/dir`, p, { recursive: true }),
  lchmod: (fs, _, p) => fs.lchmod(p, 0o600),
  lchown: (fs, _, p) => fs.lchown(p, 0, 0),
  "link from": (fs, dir, p) => fs.link(p, `${dir}/new`),
  "link to": (fs, dir, p) => fs.link(`${dir}/a.txt`, p),
  lstat: (fs, _, p) => fs.lstat(p),
  lutimes: (fs, _, p) => fs.lutimes(p, 1, 2),
  mkdir: (fs, _, p) => fs.mkdir(p),
  "mkdir -p": (fs, _, p) => fs.mkdir(p, { recursive: true }),
  open: async (fs, _, p) => (await fs.open(p)).close(),
  "open w": async (fs, _, p) => (await fs.open(p, "w")).close(),
  opendir: async (fs, _, p) => {
    const d = await fs.opendir(p);
    const path = d.path;
    await d.close();
    return path;
  },
  readdir: (fs, _, p) => sorted(fs.readdir(p)),
  "readdir -r": (fs, _, p) => sorted(fs.readdir(p, { recursive: true })),
  readFile: (fs, _, p) => fs.readFile(p),
  readlink: (fs, _, p) => fs.readlink(p),
  realpath: (fs, _, p) => fs.realpath(p),
  "rename from": (fs, dir, p) => fs.rename(p, `${dir}/new`),
  "rename to": (fs, dir, p) => fs.rename(`${dir}/a.txt`, p),
  "rename to, a directory": (fs, dir, p) => fs.rename(`${dir}/dir`, p),
  rm: (fs, _, p) => fs.rm(p),
  "rm -f": (fs, _, p) => fs.rm(p, { force: true }),
  "rm -r": (fs, _, p) => fs.rm(p, { recursive: true }),
  rmdir: (fs, _, p) => fs.rmdir(p),
  stat: (fs, _, p) => fs.stat(p),
  statfs: (fs, _, p) => fs.statfs(p),
  symlink: (fs, _, p) => fs.symlink("a.txt", p),
  "symlink target": async (fs, dir, p) => {
    await fs.symlink(p, `${dir}/new`);
    return fs.readlink(`${dir}/new`);
  },
  truncate: (fs, _, p) => fs.truncate(p, 3),
  unlink: (fs, _, p) => fs.unlink(p),
  utimes: (fs, _, p) => fs.utimes(p, 1, 2),
  watch: async (fs, _, p) => {
    const stop = new AbortController();
    const there = await fs.stat(p).then(
      () => true,
      () => false,
    );
    if (there)
      // clock: the watch may have begun by then, or not
      setTimeout(() => {
        stop.abort();
      }, 10);
    return fs.watch(p, { signal: stop.signal }).next();
  },
  writeFile: (fs, _, p) => fs.writeFile(p, "content"),
};

/** The order of a directory's entries is the file system's own. */
async function sorted(names: Promise<string[]>): Promise<string[]> {
  return (await names).sort();
}
