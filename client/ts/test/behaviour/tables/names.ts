import { execFileSync } from "node:child_process";
import { symlink } from "node:fs/promises";
import { differs, type Fs, type Table } from "../row.js";

const tree = { recursive: true };

/** cp, and then again: the second time everything is there. */
async function twice(fs: Fs, dir: string, options: object): Promise<void> {
  await fs.cp(`${dir}/dir`, `${dir}/new`, tree);
  await fs.cp(`${dir}/dir`, `${dir}/new`, options);
}

/** Making, moving, copying and removing names. */
export const names: Table = {
  "mkdir resolves with": (fs, dir) => fs.mkdir(`${dir}/new`),
  "mkdir -p resolves with the first": (fs, dir) => fs.mkdir(`${dir}/x/y/z`, tree),
  "mkdir -p of what is there": (fs, dir) => fs.mkdir(`${dir}/dir/sub`, tree),
  "mkdir -p of a part": (fs, dir) => fs.mkdir(`${dir}/dir/x/y`, tree),
  "mkdir -p of a relative path": (fs) => fs.mkdir("row/x/y", tree),
  "mkdir -p of a path with dots": (fs, dir) => fs.mkdir(`${dir}/x/../y/./z`, tree),
  "mkdir -p of a Buffer": (fs, dir) => fs.mkdir(Buffer.from(`${dir}/x/y`), tree),
  "mkdir -p of a URL": (fs, dir) => fs.mkdir(new URL(`file://${dir}/x/y`), tree),
  "mkdir -p with doubled slashes": (fs, dir) => fs.mkdir(`${dir}//x//y//`, tree),
  "mkdir -p through a link": (fs, dir) => fs.mkdir(`${dir}/dirlink/x/y`, tree),
  "mkdir -p over a file": (fs, dir) => fs.mkdir(`${dir}/a.txt`, tree),
  "mkdir -p below a file": (fs, dir) => fs.mkdir(`${dir}/a.txt/x/y`, tree),
  "mkdir of a link to a directory": (fs, dir) => fs.mkdir(`${dir}/dirlink`, tree),
  mkdtemp: async (fs, dir) => (await fs.mkdtemp(`${dir}/tmp-`)).replace(/.{6}$/, "XXXXXX"),
  "mkdtemp of a Buffer": async (fs, dir) => String(await fs.mkdtemp(Buffer.from(`${dir}/tmp-`))).replace(/.{6}$/, "XXXXXX"),
  "mkdtemp of a URL": async (fs, dir) => String(await fs.mkdtemp(new URL(`file://${dir}/tmp-`))).replace(/.{6}$/, "XXXXXX"),
  "mkdtemp of a relative path": async (fs) => (await fs.mkdtemp("row/tmp-")).replace(/.{6}$/, "XXXXXX"),
  "mkdtemp where no directory is": async (fs, dir) => {
    try {
      return await fs.mkdtemp(`${dir}/no/tmp-`);
    } catch (e) {
      const { message, path, ...rest } = e as Record<string, string>;
      return [message?.replace(/.{6}'$/, "XXXXXX'"), path?.replace(/.{6}$/, "XXXXXX"), rest];
    }
  },
  ...Object.fromEntries(
    ["undefined", "null", "5", "{}", "''", "'a\\0b'"].map((text): [string, Table[string]] => [
      `mkdtemp with ${text}`,
      (fs, dir) =>
        fs
          .mkdtemp(({ undefined, null: null, "5": 5, "{}": {}, "''": `${dir}/no/`.slice(0, 0), "'a\\0b'": "a\0b" } as Record<string, unknown>)[text])
          .catch((e: { code: string; message: string }) => [e.code, e.message.replace(/'?.{6}'$/, "XXXXXX'")])
          .then((r: unknown) => (typeof r === "string" ? fs.rmdir(r).then(() => "made") : r)),
    ]),
  ),
  rename: (fs, dir) => fs.rename(`${dir}/a.txt`, `${dir}/new`),
  "rename over a file": (fs, dir) => fs.rename(`${dir}/a.txt`, `${dir}/lines.txt`),
  "rename to itself": (fs, dir) => fs.rename(`${dir}/a.txt`, `${dir}/a.txt`),
  "rename of a directory into itself": (fs, dir) => fs.rename(`${dir}/dir`, `${dir}/dir/sub/new`),
  "rename of a directory over an empty one": (fs, dir) => fs.rename(`${dir}/dir`, `${dir}/empty`),
  "rename of a directory over a full one": (fs, dir) => fs.rename(`${dir}/empty`, `${dir}/dir`),
  "rename of a link": (fs, dir) => fs.rename(`${dir}/link`, `${dir}/new`),
  link: (fs, dir) => fs.link(`${dir}/a.txt`, `${dir}/new`),
  "link of a link": async (fs, dir) => {
    await fs.link(`${dir}/link`, `${dir}/new`);
    return (await fs.lstat(`${dir}/new`)).isSymbolicLink();
  },
  "symlink to a relative path": async (fs, dir) => {
    await fs.symlink("dir/b.txt", `${dir}/new`);
    return fs.readFile(`${dir}/new`, "utf8");
  },
  "symlink to an absolute path": async (fs, dir) => {
    await fs.symlink(`${dir}/dir/b.txt`, `${dir}/new`);
    return [await fs.readlink(`${dir}/new`), await fs.readFile(`${dir}/new`, "utf8"), await fs.realpath(`${dir}/new`)];
  },
  "symlink to what is not there": (fs, dir) => fs.symlink("nowhere", `${dir}/new`),
  "symlink to a URL": async (fs, dir) => {
    await fs.symlink(new URL(`file://${dir}/a.txt`), `${dir}/new`);
    return fs.readlink(`${dir}/new`);
  },
  "symlink to a Buffer": async (fs, dir) => {
    await fs.symlink(Buffer.from("a.txt"), `${dir}/new`);
    return fs.readlink(`${dir}/new`);
  },
  "symlink to bytes that are no UTF-8": async (fs, dir) => {
    await fs.symlink(Buffer.from([0x61, 0xff]), `${dir}/new`);
    return [await fs.readlink(`${dir}/new`), await fs.readlink(`${dir}/new`, "buffer")];
  },
  ...Object.fromEntries(
    ["dir", "file", "junction", "bogus", ""].map((type): [string, Table[string]] => [
      `symlink of type "${type}"`,
      (fs, dir) => fs.symlink("a.txt", `${dir}/new`, type),
    ]),
  ),
  "symlink over a file": (fs, dir) => fs.symlink("x", `${dir}/a.txt`),
  "realpath of a chain": async (fs, dir) => {
    await fs.symlink("dirlink/b.txt", `${dir}/l1`);
    await fs.symlink("l1", `${dir}/l2`);
    return fs.realpath(`${dir}/l2`);
  },
  "realpath of a relative path": (fs) => fs.realpath("row/dirlink/../link"),
  "rm of a link": (fs, dir) => fs.rm(`${dir}/link`),
  "rm -r of a link to a directory": (fs, dir) => fs.rm(`${dir}/dirlink`, tree),
  "rm -r of a tree": (fs, dir) => fs.rm(`${dir}/dir`, tree),
  "rm -rf of what is not there": (fs, dir) => fs.rm(`${dir}/new`, { recursive: true, force: true }),
  "rm -f of a directory": (fs, dir) => fs.rm(`${dir}/dir`, { force: true }),
  "rm -f below what is not there": (fs, dir) => fs.rm(`${dir}/no/new`, { force: true }),
  "rm with retries": (fs, dir) => fs.rm(`${dir}/a.txt`, { maxRetries: 3, retryDelay: 10 }),
  "rmdir of a full directory": (fs, dir) => fs.rmdir(`${dir}/dir`),
  "rmdir -r of a full directory": (fs, dir) => fs.rmdir(`${dir}/dir`, tree),
  "rmdir -r of a file": (fs, dir) => fs.rmdir(`${dir}/a.txt`, tree),
  "rmdir -r of what is not there": (fs, dir) => fs.rmdir(`${dir}/new`, tree),
  "rmdir of a link to a directory": (fs, dir) => fs.rmdir(`${dir}/dirlink`),

  "cp of a file": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/new`),
  "cp of a file over a file": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/lines.txt`),
  "cp of a file, without force": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/lines.txt`, { force: false }),
  "cp of a file, without force, errorOnExist": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/lines.txt`, { force: false, errorOnExist: true }),
  "cp of a file, errorOnExist": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/lines.txt`, { errorOnExist: true }),
  "cp of a file, preserveTimestamps": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/new`, { preserveTimestamps: true }),
  "cp of a read-only file": (fs, dir) => fs.cp(`${dir}/readonly.txt`, `${dir}/new`),
  "cp of a read-only file, preserveTimestamps": (fs, dir) => fs.cp(`${dir}/readonly.txt`, `${dir}/new`, { preserveTimestamps: true }),
  "cp to itself": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/a.txt`),
  "cp to a hard link of itself": async (fs, dir) => {
    await fs.link(`${dir}/a.txt`, `${dir}/new`);
    return fs.cp(`${dir}/a.txt`, `${dir}/new`);
  },
  "cp of a directory, not recursive": (fs, dir) => fs.cp(`${dir}/dir`, `${dir}/new`),
  "cp of a tree": (fs, dir) => fs.cp(`${dir}/dir`, `${dir}/new`, tree),
  "cp of a tree into a directory": (fs, dir) => fs.cp(`${dir}/dir`, `${dir}/empty`, tree),
  "cp of a tree over itself": (fs, dir) => fs.cp(`${dir}/dir`, `${dir}/dir`, tree),
  "cp of a tree into itself": (fs, dir) => fs.cp(`${dir}/dir`, `${dir}/dir/sub/new`, tree),
  "cp of a tree over a file": (fs, dir) => fs.cp(`${dir}/dir`, `${dir}/a.txt`, tree),
  "cp of a file over a directory": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/dir`),
  "cp of a tree, twice": (fs, dir) => twice(fs, dir, tree),
  "cp of a tree, twice, without force": (fs, dir) => twice(fs, dir, { recursive: true, force: false }),
  "cp of a tree, twice, errorOnExist": (fs, dir) => twice(fs, dir, { recursive: true, force: false, errorOnExist: true }),
  "cp of a tree, preserveTimestamps": (fs, dir) => fs.cp(`${dir}/dir`, `${dir}/new`, { recursive: true, preserveTimestamps: true }),
  "cp of a link": async (fs, dir) => {
    await fs.cp(`${dir}/link`, `${dir}/new`);
    return fs.readlink(`${dir}/new`);
  },
  "cp of a link, verbatimSymlinks": async (fs, dir) => {
    await fs.cp(`${dir}/link`, `${dir}/new`, { verbatimSymlinks: true });
    return fs.readlink(`${dir}/new`);
  },
  "cp of a link, dereference": (fs, dir) => fs.cp(`${dir}/link`, `${dir}/new`, { dereference: true }),
  "cp of a link to a directory, dereference": (fs, dir) => fs.cp(`${dir}/dirlink`, `${dir}/new`, { dereference: true, recursive: true }),
  "cp of a link to a directory, dereference, not recursive": (fs, dir) => fs.cp(`${dir}/dirlink`, `${dir}/new`, { dereference: true }),
  "cp of a broken link": (fs, dir) => fs.cp(`${dir}/broken`, `${dir}/new`),
  "cp of a broken link, dereference": (fs, dir) => fs.cp(`${dir}/broken`, `${dir}/new`, { dereference: true }),
  "cp of a link over a link": async (fs, dir) => {
    await fs.symlink("lines.txt", `${dir}/new`);
    await fs.cp(`${dir}/link`, `${dir}/new`);
    return fs.readlink(`${dir}/new`);
  },
  "cp of a link over a file": (fs, dir) => fs.cp(`${dir}/link`, `${dir}/lines.txt`),
  "cp of a file over a link": (fs, dir) => fs.cp(`${dir}/lines.txt`, `${dir}/link`),
  "cp of a file over a broken link": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/broken`),
  "cp of a tree with links": async (fs, dir, disk) => {
    await symlink("b.txt", `${disk}/dir/rel`);
    await fs.cp(`${dir}/dir`, `${dir}/new`, tree);
    return fs.readlink(`${dir}/new/rel`);
  },
  "cp of a tree with links, verbatimSymlinks": async (fs, dir, disk) => {
    await symlink("b.txt", `${disk}/dir/rel`);
    await fs.cp(`${dir}/dir`, `${dir}/new`, { recursive: true, verbatimSymlinks: true });
    return fs.readlink(`${dir}/new/rel`);
  },
  "cp dereference and verbatimSymlinks": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/new`, { dereference: true, verbatimSymlinks: true }),
  "cp of a link to where it points": (fs, dir) => fs.cp(`${dir}/dirlink`, `${dir}/dir`, tree),
  "cp of a link to a directory over one to a part of it": async (fs, dir) => {
    await fs.symlink("dir/sub", `${dir}/sublink`);
    return fs.cp(`${dir}/dirlink`, `${dir}/sublink`, tree);
  },
  "cp with a filter": async (fs, dir) => {
    const asked: string[] = [];
    await fs.cp(`${dir}/dir`, `${dir}/new`, {
      recursive: true,
      filter: (src: string, dest: string) => {
        asked.push(`${src} ${dest}`);
        return !src.endsWith("c.txt");
      },
    });
    return asked.sort();
  },
  "cp with an async filter": async (fs, dir) => {
    const asked: string[] = [];
    await fs.cp(`${dir}/dir`, `${dir}/new`, {
      recursive: true,
      filter: async (src: string) => {
        asked.push(src);
        await Promise.resolve();
        return !src.endsWith("sub");
      },
    });
    return asked.sort();
  },
  "cp with a filter that takes nothing": (fs, dir) => fs.cp(`${dir}/dir`, `${dir}/new`, { recursive: true, filter: () => false }),
  "cp with a filter that fails": (fs, dir) =>
    fs.cp(`${dir}/dir`, `${dir}/new`, {
      recursive: true,
      filter: (src: string) => {
        if (src.endsWith("b.txt")) throw new Error("no");
        return true;
      },
    }),
  "cp of a file with a filter": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/x/new`, { filter: () => true }),
  "cp with COPYFILE_EXCL": (fs, dir) => fs.cp(`${dir}/a.txt`, `${dir}/lines.txt`, { mode: fs.constants.COPYFILE_EXCL }),
  "cp of a FIFO": (fs, dir, disk) => {
    execFileSync("mkfifo", [`${disk}/fifo`]);
    return fs.cp(`${dir}/fifo`, `${dir}/new`);
  },
  "cp of a tree with a FIFO": differs(
    "the server leaves out what has no content, and copies the rest",
    { resolved: "(undefined)" },
    (fs, dir, disk) => {
      execFileSync("mkfifo", [`${disk}/empty/fifo`]);
      return fs.cp(`${dir}/empty`, `${dir}/new`, tree);
    },
  ),
  lchmod: (fs, dir) => fs.lchmod(`${dir}/link`, 0o600),
  "lutimes of a link": async (fs, dir) => {
    await fs.lutimes(`${dir}/link`, 1, 2);
    return [(await fs.lstat(`${dir}/link`)).mtimeMs, (await fs.stat(`${dir}/link`)).mtimeMs];
  },
  "stat of a FIFO": async (fs, dir, disk) => {
    execFileSync("mkfifo", [`${disk}/fifo`]);
    const s = await fs.stat(`${dir}/fifo`);
    return [s.isFIFO(), s.isFile(), s.mode];
  },
  "a path that leads beyond the root": differs(
    "the context is all there is: what leads out of it is refused",
    { rejected: { code: "EACCES", path: "/../.." } },
    (fs) => fs.realpath("/../.."),
  ),
  "the root": differs("the root is the context's, and not the machine's", { resolved: true }, async (fs) => (await fs.readdir("/")).includes("row")),
};
