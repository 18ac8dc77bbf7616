import { crossed, marked, same, type Fs, type Table } from "../row.js";

type Call = (fs: Fs, dir: string, value: unknown) => unknown;

/** Calls a function with a callback. Throws what the function throws at once, else returns what the callback got, and when. */
function called(call: (callback: (...args: unknown[]) => void) => unknown): Promise<unknown> {
  let tell: (told: unknown) => void = () => undefined;
  const told = new Promise((resolve) => {
    tell = resolve;
  });
  let returned: unknown = "not yet";
  let count = 0;
  returned = call((...args) => {
    count++;
    const at = returned === "not yet" ? "before it returned" : "later";
    setImmediate(() => {
      tell({ args, at, count, returned });
    });
  });
  return told;
}

/** Opens by callbacks, does one thing with the file, and closes it. */
async function onFile(fs: Fs, path: string, flags: string, use: (fd: number) => unknown): Promise<unknown> {
  const fd = await new Promise<number>((resolve, reject) => {
    fs.open(path, flags, (e: unknown, n: number) => {
      if (e) reject(e);
      else resolve(n);
    });
  });
  try {
    return await use(fd);
  } finally {
    await new Promise((resolve) => {
      fs.close(fd, resolve);
    });
  }
}

/** Every function that takes a path and a callback. */
const calls: Record<string, (fs: Fs, p: unknown, cb: unknown, dir: string) => unknown> = {
  access: (fs, p, cb) => fs.access(p, cb),
  appendFile: (fs, p, cb) => fs.appendFile(p, "more", cb),
  chmod: (fs, p, cb) => fs.chmod(p, 0o600, cb),
  chown: (fs, p, cb) => fs.chown(p, 0, 0, cb),
  copyFile: (fs, p, cb, dir) => fs.copyFile(p, `${dir}/new`, cb),
  cp: (fs, p, cb, dir) => fs.cp(p, `${dir}/new`, cb),
  lchown: (fs, p, cb) => fs.lchown(p, 0, 0, cb),
  link: (fs, p, cb, dir) => fs.link(p, `${dir}/new`, cb),
  lstat: (fs, p, cb) => fs.lstat(p, cb),
  lutimes: (fs, p, cb) => fs.lutimes(p, 1, 1, cb),
  mkdir: (fs, p, cb) => fs.mkdir(p, cb),
  "mkdir -p": (fs, p, cb) => fs.mkdir(p, { recursive: true }, cb),
  readdir: (fs, p, cb) => fs.readdir(p, cb),
  readFile: (fs, p, cb) => fs.readFile(p, cb),
  "readFile utf8": (fs, p, cb) => fs.readFile(p, "utf8", cb),
  readlink: (fs, p, cb) => fs.readlink(p, cb),
  realpath: (fs, p, cb) => fs.realpath(p, cb),
  rename: (fs, p, cb, dir) => fs.rename(p, `${dir}/new`, cb),
  rm: (fs, p, cb) => fs.rm(p, cb),
  rmdir: (fs, p, cb) => fs.rmdir(p, cb),
  stat: (fs, p, cb) => fs.stat(p, cb),
  "stat bigint": (fs, p, cb) => fs.stat(p, { bigint: true }, cb),
  statfs: (fs, p, cb) => fs.statfs(p, cb),
  symlink: (fs, p, cb, dir) => fs.symlink(p, `${dir}/new`, cb),
  truncate: (fs, p, cb) => fs.truncate(p, 2, cb),
  unlink: (fs, p, cb) => fs.unlink(p, cb),
  utimes: (fs, p, cb) => fs.utimes(p, 1, 1, cb),
  writeFile: (fs, p, cb) => fs.writeFile(p, "content", cb),
};

const paths: Record<string, (dir: string) => unknown> = {
  "a file": (dir) => `${dir}/a.txt`,
  "a directory": (dir) => `${dir}/empty`,
  "what is not there": (dir) => `${dir}/new2`,
  undefined: () => undefined,
  null: () => null,
  "an object": () => ({}),
  "a NUL": () => "a\0b",
  "a Buffer": (dir) => Buffer.from(`${dir}/a.txt`),
};
const notCallbacks: Record<string, unknown> = { nothing: undefined, null: null, "an object": {}, "a text": "x", "a number": 5 };

const pathCalls = Object.fromEntries(
  Object.entries(calls).map(([name, call]): [string, Call] => [name, (fs, dir, value) => called((cb) => call(fs, value, cb, dir))]),
);
/** Node 20 notices that rm has no callback when it calls the callback, where nothing can catch the error. */
const unchecked = new Set(["rm"]);
const wrongCalls = Object.fromEntries(
  Object.entries(calls)
    .filter(([name]) => !unchecked.has(name))
    .map(([name, call]): [string, Call] => [`${name}, called back`, (fs, dir, value) => call(fs, `${dir}/a.txt`, value, dir)]),
);

const all: Table = {
  ...crossed(pathCalls, paths),
  ...crossed(wrongCalls, same(notCallbacks)),

  "open and close": (fs, dir) =>
    called((cb) =>
      fs.open(`${dir}/a.txt`, (e: unknown, fd: number) => {
        fs.close(fd, () => {
          cb(e, typeof fd);
        });
      }),
    ),
  "open with flags and mode": (fs, dir) =>
    called((cb) =>
      fs.open(`${dir}/new`, "w", 0o600, (e: unknown, fd: number) => {
        fs.close(fd, () => {
          cb(e, typeof fd);
        });
      }),
    ),
  "open of what is not there": (fs, dir) => called((cb) => fs.open(`${dir}/new`, cb)),
  "open with wrong flags": (fs, dir) => called((cb) => fs.open(`${dir}/a.txt`, "bogus", cb)),
  "close of what is not open": (fs) => called((cb) => fs.close(54321, cb)),
  ...Object.fromEntries(
    Object.entries({ "a text": "5", null: null, "-1": -1, "a fraction": 1.5, undefined: undefined }).map(([n, v]): [string, (fs: Fs) => unknown] => [
      `close with ${n}`,
      (fs) => called((cb) => fs.close(v, cb)),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries({ "a text": "5", null: null, "-1": -1, "a fraction": 1.5, "what is not open": 54321 }).map(
      ([n, v]): [string, (fs: Fs) => unknown] => [`fstat with ${n}`, (fs) => called((cb) => fs.fstat(v, cb))],
    ),
  ),
  "close calls back with": (fs, dir) =>
    called((cb) =>
      fs.open(`${dir}/a.txt`, (_: unknown, fd: number) => {
        fs.close(fd, cb);
      }),
    ),
  read: (fs, dir) => onFile(fs, `${dir}/a.txt`, "r", (fd) => called((cb) => fs.read(fd, Buffer.alloc(5), 0, 5, 0, cb))),
  "read with options": (fs, dir) =>
    onFile(fs, `${dir}/a.txt`, "r", (fd) => called((cb) => fs.read(fd, { buffer: Buffer.alloc(5), position: 6 }, cb))),
  "read into a buffer, with options": (fs, dir) =>
    onFile(fs, `${dir}/a.txt`, "r", (fd) => called((cb) => fs.read(fd, Buffer.alloc(5), { position: 6 }, cb))),
  "read into a buffer": (fs, dir) => onFile(fs, `${dir}/a.txt`, "r", (fd) => called((cb) => fs.read(fd, Buffer.alloc(5), cb))),
  readv: (fs, dir) => onFile(fs, `${dir}/a.txt`, "r", (fd) => called((cb) => fs.readv(fd, [Buffer.alloc(2), Buffer.alloc(3)], cb))),
  "readv at a position": (fs, dir) =>
    onFile(fs, `${dir}/a.txt`, "r", (fd) => called((cb) => fs.readv(fd, [Buffer.alloc(2), Buffer.alloc(3)], 6, cb))),
  "write of a text": (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.write(fd, "XY", cb))),
  "write of a text at a position": (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.write(fd, "XY", 3, cb))),
  "write of a text at a position, in an encoding": (fs, dir) =>
    onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.write(fd, "4142", 3, "hex", cb))),
  "write of a buffer": (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.write(fd, Buffer.from("XYZ"), 1, 2, 4, cb))),
  "write of nothing that can be written": (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.write(fd, 5, cb))),
  writev: (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.writev(fd, [Buffer.from("A"), Buffer.from("B")], cb))),
  fstat: (fs, dir) => onFile(fs, `${dir}/a.txt`, "r", (fd) => called((cb) => fs.fstat(fd, cb))),
  ftruncate: (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.ftruncate(fd, 3, cb))),
  "ftruncate to nothing": (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.ftruncate(fd, cb))),
  fchmod: (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.fchmod(fd, 0o600, cb))),
  futimes: (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.futimes(fd, 1, 1, cb))),
  fsync: (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.fsync(fd, cb))),
  fdatasync: (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.fdatasync(fd, cb))),
  "readFile of a file's number": (fs, dir) => onFile(fs, `${dir}/a.txt`, "r", (fd) => called((cb) => fs.readFile(fd, "utf8", cb))),
  "writeFile to a file's number": (fs, dir) => onFile(fs, `${dir}/a.txt`, "r+", (fd) => called((cb) => fs.writeFile(fd, "XY", cb))),
  "appendFile to a file's number": (fs, dir) => onFile(fs, `${dir}/a.txt`, "a", (fd) => called((cb) => fs.appendFile(fd, "XY", cb))),
  exists: (fs, dir) => called((cb) => fs.exists(`${dir}/a.txt`, cb)),
  "exists of what is not there": (fs, dir) => called((cb) => fs.exists(`${dir}/new`, cb)),
  "exists of what is no path": (fs) => called((cb) => fs.exists(5, cb)),
  mkdtemp: (fs, dir) =>
    called((cb) =>
      fs.mkdtemp(`${dir}/tmp-`, (e: unknown, p: string) => {
        cb(e, p.slice(dir.length, -6));
      }),
    ),
  opendir: (fs, dir) =>
    called((cb) =>
      fs.opendir(`${dir}/dir/sub`, (e: unknown, d: Fs) => {
        d.read((e2: unknown, entry: unknown) => {
          d.close(() => {
            cb(e, e2, entry);
          });
        });
      }),
    ),
  "readdir with types": (fs, dir) => called((cb) => fs.readdir(`${dir}/dir/sub`, { withFileTypes: true }, cb)),
  "cp with wrong options": (fs, dir) => called((cb) => fs.cp(`${dir}/a.txt`, `${dir}/new`, { force: 5 }, cb)),
  "rm with wrong options": (fs, dir) => called((cb) => fs.rm(`${dir}/a.txt`, { force: 5 }, cb)),
  "readFile with wrong options": (fs, dir) => called((cb) => fs.readFile(`${dir}/a.txt`, 5, cb)),
  "writeFile with wrong data": (fs, dir) => called((cb) => fs.writeFile(`${dir}/a.txt`, 5, cb)),
  "chmod with a wrong mode": (fs, dir) => called((cb) => fs.chmod(`${dir}/a.txt`, "x", cb)),
  "truncate with a wrong length": (fs, dir) => called((cb) => fs.truncate(`${dir}/a.txt`, "x", cb)),
  "utimes with a wrong time": (fs, dir) => called((cb) => fs.utimes(`${dir}/a.txt`, {}, 1, cb)),
  "symlink with a type": (fs, dir) => called((cb) => fs.symlink("a.txt", `${dir}/new`, "file", cb)),
  "readFile with a signal that has fired": (fs, dir) => called((cb) => fs.readFile(`${dir}/a.txt`, { signal: AbortSignal.abort() }, cb)),
  createReadStream: async (fs, dir) => {
    const out: string[] = [];
    for await (const piece of fs.createReadStream(`${dir}/a.txt`, { encoding: "utf8", start: 2, end: 6 })) out.push(piece);
    return out;
  },
  "createReadStream of what is not there": (fs, dir) =>
    new Promise((resolve) => {
      const s = fs.createReadStream(`${dir}/new`);
      s.on("error", (e: unknown) => {
        resolve([e, s.path]);
      });
    }),
  createWriteStream: (fs, dir) =>
    new Promise((resolve, reject) => {
      const s = fs.createWriteStream(`${dir}/new`);
      s.on("error", reject);
      s.on("close", () => {
        resolve([s.bytesWritten, s.path, s.pending]);
      });
      s.write("one");
      s.end("two");
    }),
  "createWriteStream, appending": (fs, dir) =>
    new Promise((resolve, reject) => {
      const s = fs.createWriteStream(`${dir}/a.txt`, { flags: "a" });
      s.on("error", reject);
      s.on("close", resolve);
      s.end("two");
    }),
  constants: (fs) => ({ ...fs.constants }),
  promises: async (fs, dir) => fs.promises.readFile(`${dir}/a.txt`, "utf8"),
};

const native = "Node's realpath with a callback is made of lstat and readlink, and takes everything for a text; this one is its realpath.native";
const later = "Node calls back before it returns here; a callback that only sometimes is called at once is a trap, and ctxfs's never is";

/** Node's fs with callbacks, beside fs.callbacks. */
export const callbacks = marked(
  all,
  [/^realpath with what is not there$/, native, { resolved: { args: [{ code: "ENOENT", syscall: "realpath" }] } }],
  [/^realpath with (undefined|null|an object)$/, native, { threw: { code: "ERR_INVALID_ARG_TYPE" } }],
  [/^readlink with (undefined|null|an object|a NUL)$/, "the error names the argument as the promise's readlink does", { threw: { name: "TypeError" } }, { from: 22 }],
  [/^mkdir, called back with a text$/, "a missing callback is told before other wrong arguments", { threw: { code: "ERR_INVALID_ARG_TYPE" } }, { from: 22 }],
  [/^(exists of what is no path|readFile with a signal that has fired)$/, later, { resolved: { at: "later" } }],
  [
    /^truncate with a wrong length$/,
    "the file is opened first, as the promise's truncate does it",
    { resolved: { args: [{ code: "ERR_INVALID_ARG_TYPE" }] } },
  ],
  [/^cp with a file$/, "Node calls back with an undefined result beside null", { resolved: { args: [null] } }],
  [
    /^cp with a Buffer$/,
    "Node 20's cp takes Buffers for texts, and fails in the middle; ctxfs takes them as everywhere",
    { resolved: { args: [null] } },
  ],
);
