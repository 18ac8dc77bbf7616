import { Dir, Dirent, Stats } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { outcomeOf } from "../outcome.js";
import { crossed, differs, same, type Fs, type Table } from "../row.js";

interface Entry {
  name: string;
  parentPath: string;
  path: string;
}

async function all(entries: AsyncIterable<Entry>): Promise<Entry[]> {
  const list: Entry[] = [];
  for await (const entry of entries) list.push(entry);
  return byName(list);
}

function byName<T extends Entry>(list: T[]): T[] {
  return list.sort((a, b) => (a.parentPath + a.name < b.parentPath + b.name ? -1 : 1));
}

/** Opens a directory and says how each step ends. */
async function steps(fs: Fs, path: string, ...list: ((d: Fs) => unknown)[]): Promise<unknown[]> {
  const dir = await fs.opendir(path);
  const told: unknown[] = [];
  for (const step of list) told.push(await outcomeOf(() => step(dir)));
  await dir.close().catch(() => undefined);
  return told;
}

const read = (d: Fs): unknown => d.read();
const close = (d: Fs): unknown => d.close();

/** Calls with a callback, and returns what the callback got, and whether at once. */
function called(call: (callback: (...args: unknown[]) => void) => unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let returned: unknown = "not yet";
    try {
      returned = call((...args) => {
        resolve({ args, before: returned === "not yet", returned });
      });
    } catch (error) {
      reject(error);
    }
  });
}

/** A tree with an order: every directory has few entries of one kind, so that both file systems list them alike. */
async function tree(disk: string): Promise<void> {
  await mkdir(join(disk, "t/one/two/three"), { recursive: true });
  await writeFile(join(disk, "t/one/two/three/file"), "");
  await symlink("one", join(disk, "t/one/two/three/link"));
}

const notFunctions: Record<string, unknown> = { null: null, "a number": 5, "a text": "x", "an object": {}, true: true };

/** Listing, directories and attributes. */
export const listing: Table = {
  readdir: async (fs, dir) => (await fs.readdir(dir)).sort(),
  "readdir of an empty directory": (fs, dir) => fs.readdir(`${dir}/empty`),
  "readdir with types": async (fs, dir) => byName(await fs.readdir(dir, { withFileTypes: true })),
  "readdir with types, of a path with a slash": (fs, dir) => fs.readdir(`${dir}/dir/sub/`, { withFileTypes: true }),
  "readdir with types, of a path with dots": (fs, dir) => fs.readdir(`${dir}/dir/../dir/./sub`, { withFileTypes: true }),
  "readdir with types, of a relative path": (fs) => fs.readdir("row/dir/sub", { withFileTypes: true }),
  "readdir with types, of a Buffer": (fs, dir) => fs.readdir(Buffer.from(`${dir}/dir/sub`), { withFileTypes: true }),
  "readdir with types, of a URL": (fs, dir) => fs.readdir(new URL(`file://${dir}/dir/sub`), { withFileTypes: true }),
  "readdir with types, as buffers": async (fs, dir) => {
    const [e] = await fs.readdir(`${dir}/dir/sub`, { withFileTypes: true, encoding: "buffer" });
    return [e.name, e.parentPath, e.path];
  },
  "readdir recursive": differs(
    "Node goes through links to directories where no types are asked for, and not where they are; the server never does, since links lead in circles",
    {
      resolved: [
        "a.txt",
        "broken",
        "bytes.bin",
        "dir",
        "dir/b.txt",
        "dir/c.txt",
        "dir/sub",
        "dir/sub/deep.txt",
        "dirlink",
        "empty",
        "empty.txt",
        "large.bin",
        "lines.txt",
        "link",
        "loop",
        "readonly.txt",
        "utf8.txt",
      ],
    },
    async (fs, dir) => (await fs.readdir(dir, { recursive: true })).sort(),
  ),
  "readdir recursive keeps Node's order": async (fs, dir, disk) => {
    await tree(disk);
    return fs.readdir(`${dir}/t`, { recursive: true });
  },
  "readdir recursive with types keeps Node's order": async (fs, dir, disk) => {
    await tree(disk);
    return fs.readdir(`${dir}/t`, { recursive: true, withFileTypes: true });
  },
  "readdir recursive with types": differs(
    "Node 26 goes through links to directories, and without types it does not",
    { resolved: { length: 17 } },
    async (fs, dir) => byName(await fs.readdir(dir, { recursive: true, withFileTypes: true })),
    { from: 26 },
  ),
  "readdir recursive with types, of a path with a slash": async (fs, dir) =>
    byName(await fs.readdir(`${dir}/dir/`, { recursive: true, withFileTypes: true })),
  "readdir recursive with types, of a relative path": async (fs) => byName(await fs.readdir("row/dir", { recursive: true, withFileTypes: true })),
  "readdir recursive, of a path with dots": async (fs, dir) => (await fs.readdir(`${dir}/dir/../dir/./`, { recursive: true })).sort(),
  "readdir recursive, of a link": async (fs, dir) => (await fs.readdir(`${dir}/dirlink`, { recursive: true })).sort(),
  "readdir recursive, of a link, with types": async (fs, dir) => byName(await fs.readdir(`${dir}/dirlink`, { recursive: true, withFileTypes: true })),
  "readdir recursive, of an empty directory": (fs, dir) => fs.readdir(`${dir}/empty`, { recursive: true }),
  "readdir of a name that is no UTF-8": async (fs, dir, disk) => {
    await writeFile(Buffer.concat([Buffer.from(`${disk}/empty/`), Buffer.from([0xff, 0x61])]), "");
    return [await fs.readdir(`${dir}/empty`), await fs.readdir(`${dir}/empty`, "buffer"), await fs.readdir(`${dir}/empty`, "hex")];
  },
  "readdir of many": async (fs, dir, disk) => {
    await Promise.all(Array.from({ length: 500 }, (_, i) => writeFile(`${disk}/empty/${i}`, "")));
    const n = (await fs.readdir(`${dir}/empty`)).length;
    await fs.rm(`${dir}/empty`, { recursive: true });
    return n;
  },

  opendir: async (fs, dir) => all(await fs.opendir(dir)),
  "opendir recursive": async (fs, dir) => all(await fs.opendir(dir, { recursive: true })),
  "opendir recursive, of a path with a slash": async (fs, dir) => all(await fs.opendir(`${dir}/dir/`, { recursive: true })),
  "opendir recursive, of a relative path": async (fs) => all(await fs.opendir("row/dir", { recursive: true })),
  "opendir of many": async (fs, dir, disk) => {
    await Promise.all(Array.from({ length: 700 }, (_, i) => writeFile(`${disk}/empty/${i}`, "")));
    const n = (await all(await fs.opendir(`${dir}/empty`, { bufferSize: 3 }))).length;
    await fs.rm(`${dir}/empty`, { recursive: true });
    return n;
  },
  "a new Dir": async (fs, dir) => {
    const d = await fs.opendir(`${dir}/empty`);
    const told = [Object.prototype.toString.call(d), d.constructor.name, d.path, typeof d[Symbol.asyncIterator], typeof d.entries];
    await d.close();
    return told;
  },
  "Dir.path of a URL": async (fs, dir) => {
    const d = await fs.opendir(new URL(`file://${dir}/empty`));
    await d.close();
    return String(d.path);
  },
  "Dir.path cannot be set": async (fs, dir) => {
    const d = await fs.opendir(`${dir}/empty`);
    try {
      d.path = "x";
    } finally {
      await d.close();
    }
    return d.path;
  },
  "Dir.read to the end": (fs, dir) => steps(fs, `${dir}/dir/sub`, read, read, read),
  "Dir.read after close": (fs, dir) => steps(fs, `${dir}/dir`, close, read),
  "Dir.close twice": (fs, dir) => steps(fs, `${dir}/dir`, close, close),
  "Dir.close resolves with": (fs, dir) => steps(fs, `${dir}/dir`, close),
  "Dir.read by callback": (fs, dir) =>
    steps(
      fs,
      `${dir}/dir/sub`,
      (d) => called((cb) => d.read(cb)),
      (d) => called((cb) => d.read(cb)),
    ),
  "Dir.read by callback after close": (fs, dir) => steps(fs, `${dir}/dir/sub`, close, (d) => called((cb) => d.read(cb))),
  "Dir.close by callback": (fs, dir) => steps(fs, `${dir}/dir`, (d) => called((cb) => d.close(cb))),
  "Dir.close by callback, twice": (fs, dir) => steps(fs, `${dir}/dir`, close, (d) => called((cb) => d.close(cb))),
  "reads of a Dir at once": (fs, dir) => steps(fs, `${dir}/dir/sub`, async (d) => Promise.all([d.read(), d.read(), d.read()])),
  "a loop closes its Dir": (fs, dir) => steps(fs, `${dir}/dir`, all, read),
  "a loop that is left closes its Dir": (fs, dir) =>
    steps(
      fs,
      `${dir}/dir`,
      async (d) => {
        for await (const _ of d) break;
      },
      read,
    ),
  "a loop that fails closes its Dir": (fs, dir) =>
    steps(
      fs,
      `${dir}/dir`,
      async (d) => {
        for await (const _ of d) throw new Error("enough");
      },
      read,
    ),
  "entries() of a Dir": (fs, dir) => steps(fs, `${dir}/dir/sub`, async (d) => all(d.entries())),
  "a loop over a closed Dir": (fs, dir) => steps(fs, `${dir}/dir`, close, all),
  "entries() is the iterator": async (fs, dir) => {
    const d = await fs.opendir(`${dir}/empty`);
    const told = d[Symbol.asyncIterator] === d.entries;
    await d.close();
    return told;
  },
  "asyncDispose of a Dir": differs(
    "Node 20 has none; Node 22 closes the directory",
    { resolved: [{ resolved: "(undefined)" }, { threw: { code: "ERR_DIR_CLOSED" } }] },
    (fs, dir) => steps(fs, `${dir}/dir`, (d) => d[Symbol.asyncDispose](), read),
    { below: 22 },
  ),
  "readSync and closeSync of a Dir": differs(
    "nothing can wait in place for an answer of the server",
    {
      resolved: [
        { threw: { code: "ERR_METHOD_NOT_IMPLEMENTED", message: "Dir.readSync() cannot wait for a ctxfs server: use await dir.read()" } },
        { threw: { code: "ERR_METHOD_NOT_IMPLEMENTED", message: "Dir.closeSync() cannot wait for a ctxfs server: use await dir.close()" } },
      ],
    },
    (fs, dir) => steps(fs, `${dir}/empty`, (d) => d.readSync(), (d) => d.closeSync()),
  ),
  ...crossed<unknown>(
    {
      "Dir.read with": (fs, dir, v) => steps(fs, `${dir}/dir/sub`, (d) => d.read(v)),
      "Dir.close with": (fs, dir, v) => steps(fs, `${dir}/dir/sub`, (d) => d.close(v)),
    },
    same(notFunctions),
  ),

  "a Dirent's fields": async (fs, dir) => {
    const [e] = await fs.readdir(`${dir}/dir/sub`, { withFileTypes: true });
    return [Object.keys(e), JSON.stringify({ ...e }).includes("deep.txt"), e.constructor.name];
  },
  "stats' dates are getters": differs(
    "Node 20 has fields, and makes four dates for each file, of which most programs need none",
    { resolved: { own: false, date: "Date 1580608922125" } },
    async (fs, dir) => {
      const s = await fs.stat(`${dir}/a.txt`);
      return { own: Object.keys(s).includes("mtime"), date: s.mtime };
    },
    { below: 22 },
  ),
  "results are instances of Node's classes": async (fs, dir) => {
    const d = await fs.opendir(`${dir}/dir`);
    const entry = await d.read();
    await d.close();
    const [listed] = await fs.readdir(`${dir}/dir`, { withFileTypes: true });
    const s = await fs.stat(dir);
    const big = await fs.lstat(dir, { bigint: true });
    return [s instanceof Stats, big instanceof Stats, d instanceof Dir, entry instanceof Dirent, listed instanceof Dirent, listed.constructor === Dirent];
  },
  "stats' fields": async (fs, dir) => Object.keys(await fs.stat(`${dir}/a.txt`)).filter((k) => !["atime", "mtime", "ctime", "birthtime"].includes(k)),
  "stats' dates can be set": async (fs, dir) => {
    const s = await fs.stat(`${dir}/a.txt`);
    s.mtime = 5;
    return s.mtime;
  },
  "stat of each type": async (fs, dir) => Promise.all(["a.txt", "dir", "link", "dirlink"].map((n) => fs.lstat(`${dir}/${n}`))),
  "stat as bigint": (fs, dir) => fs.stat(`${dir}/a.txt`, { bigint: true }),
  "lstat as bigint": (fs, dir) => fs.lstat(`${dir}/link`, { bigint: true }),
  statfs: (fs, dir) => fs.statfs(dir),
  "statfs as bigint": async (fs, dir) => Object.entries(await fs.statfs(dir, { bigint: true })).map(([k, v]) => `${k} ${typeof v}`),
  "access R_OK|W_OK": (fs, dir) => fs.access(`${dir}/a.txt`, fs.constants.R_OK | fs.constants.W_OK),
  "access X_OK of a file": (fs, dir) => fs.access(`${dir}/a.txt`, fs.constants.X_OK),
  "access X_OK of a directory": (fs, dir) => fs.access(`${dir}/dir`, fs.constants.X_OK),
  "access of a broken link": (fs, dir) => fs.access(`${dir}/broken`),
};
