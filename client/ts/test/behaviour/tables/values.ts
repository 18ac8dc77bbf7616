import { constants } from "node:fs";
import { onHandle } from "../handles.js";
import { crossed, marked, same, type Fs, type Table } from "../row.js";

type Call = (fs: Fs, dir: string, value: unknown) => unknown;

const ignored = (): void => undefined;

const modes: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  zero: 0,
  "0o644": 0o644,
  "0o1777": 0o1777,
  "0o7777": 0o7777,
  seven: 7,
  eight: 8,
  "-1": -1,
  "-0": -0,
  "2**32 - 1": 2 ** 32 - 1,
  "2**32": 2 ** 32,
  "2**31": 2 ** 31,
  "a fraction": 1.5,
  NaN: NaN,
  Infinity: Infinity,
  "the text 644": "644",
  "the text 0644": "0644",
  "the text 0o644": "0o644",
  "the text 999": "999",
  "an empty text": "",
  "the text abc": "abc",
  "the text 777777777777": "777777777777",
  true: true,
  "an object": {},
  "a bigint": 5n,
  "a symbol": Symbol("m"),
  "a file's whole mode": 0o100640,
};

const modeCalls: Record<string, Call> = {
  "access mode": (fs, dir, v) => fs.access(`${dir}/a.txt`, v),
  "chmod mode": (fs, dir, v) => fs.chmod(`${dir}/a.txt`, v),
  "lchmod mode": (fs, dir, v) => fs.lchmod(`${dir}/a.txt`, v),
  "handle.chmod mode": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r", (h) => h.chmod(v)),
  "open mode": async (fs, dir, v) => (await fs.open(`${dir}/new`, "w", v)).close(),
  "mkdir mode": (fs, dir, v) => fs.mkdir(`${dir}/new`, v),
  "mkdir {mode}": (fs, dir, v) => fs.mkdir(`${dir}/new`, { mode: v }),
  "mkdir {mode, recursive}": (fs, dir, v) => fs.mkdir(`${dir}/new/newer`, { mode: v, recursive: true }),
  "writeFile {mode}": (fs, dir, v) => fs.writeFile(`${dir}/new`, "x", { mode: v }),
  "appendFile {mode}": (fs, dir, v) => fs.appendFile(`${dir}/new`, "x", { mode: v }),
  "copyFile mode": (fs, dir, v) => fs.copyFile(`${dir}/a.txt`, `${dir}/new`, v),
  "copyFile mode, to a file": (fs, dir, v) => fs.copyFile(`${dir}/a.txt`, `${dir}/lines.txt`, v),
  "cp {mode}": (fs, dir, v) => fs.cp(`${dir}/a.txt`, `${dir}/new`, { mode: v }),
};

const O = constants;
const flags: Record<string, unknown> = {
  ...Object.fromEntries(
    ["r", "rs", "sr", "r+", "rs+", "sr+", "w", "wx", "xw", "w+", "wx+", "xw+", "a", "ax", "xa", "as", "sa", "a+", "ax+", "xa+", "as+", "sa+"].map(
      (f) => [`"${f}"`, f],
    ),
  ),
  "an empty text": "",
  '"R"': "R",
  '"rw"': "rw",
  '"r++"': "r++",
  '"w "': "w ",
  '"0"': "0",
  '"b"': "b",
  '"rb"': "rb",
  '"__proto__"': "__proto__",
  undefined: undefined,
  null: null,
  O_RDONLY: O.O_RDONLY,
  O_WRONLY: O.O_WRONLY,
  O_RDWR: O.O_RDWR,
  "O_RDWR|O_CREAT": O.O_RDWR | O.O_CREAT,
  "O_WRONLY|O_CREAT|O_EXCL": O.O_WRONLY | O.O_CREAT | O.O_EXCL,
  "O_WRONLY|O_TRUNC": O.O_WRONLY | O.O_TRUNC,
  "O_WRONLY|O_APPEND": O.O_WRONLY | O.O_APPEND,
  "O_RDWR|O_CREAT|O_TRUNC|O_APPEND": O.O_RDWR | O.O_CREAT | O.O_TRUNC | O.O_APPEND,
  O_DIRECTORY: O.O_DIRECTORY,
  O_NOFOLLOW: O.O_NOFOLLOW,
  "O_RDWR|O_SYNC": O.O_RDWR | O.O_SYNC,
  "a fraction": 1.5,
  "-1": -1,
  "2**31": 2 ** 31,
  NaN: NaN,
  Infinity: Infinity,
  "an object": {},
  true: true,
  false: false,
  "a bigint": 2n,
  "a symbol": Symbol("f"),
  "an array": ["r"],
};

/** Opens a file, and returns what it allows. */
async function tryFlags(fs: Fs, path: string, value: unknown): Promise<unknown> {
  const handle = await fs.open(path, value);
  const told: unknown[] = [];
  for (const step of [() => handle.read(Buffer.alloc(4), 0, 4), () => handle.write("XY"), () => handle.write("Z", 1)]) {
    told.push(
      await step().then(
        (r: object) => Object.values(r).map(String),
        (e: { message: string }) => e.message,
      ),
    );
  }
  await handle.close();
  return told;
}

const flagCalls: Record<string, Call> = {
  "open flags": (fs, dir, v) => tryFlags(fs, `${dir}/a.txt`, v),
  "open flags, of what is not there": (fs, dir, v) => tryFlags(fs, `${dir}/new`, v),
  "open flags, of a link": async (fs, dir, v) => (await fs.open(`${dir}/link`, v)).close(),
  "open flags, of a broken link": async (fs, dir, v) => (await fs.open(`${dir}/broken`, v)).close(),
  "open flags, of a directory": async (fs, dir, v) => (await fs.open(`${dir}/dir`, v)).close(),
  "readFile {flag}": (fs, dir, v) => fs.readFile(`${dir}/a.txt`, { flag: v, encoding: "utf8" }),
  "readFile {flag}, of what is not there": (fs, dir, v) => fs.readFile(`${dir}/new`, { flag: v, encoding: "utf8" }),
  "writeFile {flag}": (fs, dir, v) => fs.writeFile(`${dir}/a.txt`, "NEW", { flag: v }),
  "writeFile {flag}, of what is not there": (fs, dir, v) => fs.writeFile(`${dir}/new`, "NEW", { flag: v }),
  "writeFile {flag}, large": (fs, dir, v) => fs.writeFile(`${dir}/new`, Buffer.alloc(600_000), { flag: v }),
  "appendFile {flag}": (fs, dir, v) => fs.appendFile(`${dir}/a.txt`, "NEW", { flag: v }),
};

const ids: Record<string, unknown> = {
  zero: 0,
  "1000": 1000,
  "-1": -1,
  "-2": -2,
  "-0": -0,
  "2**32 - 1": 2 ** 32 - 1,
  "2**32": 2 ** 32,
  "a fraction": 1.5,
  NaN: NaN,
  Infinity: Infinity,
  "a text": "0",
  null: null,
  undefined: undefined,
  "a bigint": 5n,
  true: true,
  "an object": {},
};

/** What every program may give: its own id. */
const self = process.getuid?.() ?? 0;

const idCalls: Record<string, Call> = {
  "chown uid": async (fs, dir, v) => {
    await fs.chown(`${dir}/a.txt`, v, self);
    return owner(fs, `${dir}/a.txt`);
  },
  "chown gid": async (fs, dir, v) => {
    await fs.chown(`${dir}/link`, self, v);
    return owner(fs, `${dir}/a.txt`);
  },
  "lchown uid": async (fs, dir, v) => {
    await fs.lchown(`${dir}/link`, v, self);
    return owner(fs, `${dir}/link`);
  },
  "lchown gid": async (fs, dir, v) => {
    await fs.lchown(`${dir}/link`, self, v);
    return owner(fs, `${dir}/link`);
  },
  "handle.chown uid": (fs, dir, v) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      await h.chown(v, self);
      return owner(fs, `${dir}/a.txt`);
    }),
  "handle.chown gid": (fs, dir, v) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      await h.chown(self, v);
      return owner(fs, `${dir}/a.txt`);
    }),
};

async function owner(fs: Fs, path: string): Promise<unknown> {
  const { uid, gid } = await fs.lstat(path);
  return { uid, gid };
}

const times: Record<string, unknown> = {
  zero: 0,
  one: 1,
  "a fraction": 1.5,
  "a small fraction": 1234567890.1234567,
  microseconds: 1600000000.000001,
  "-1": -1,
  "-1.5": -1.5,
  "-0": -0,
  "the text 1": "1",
  "the text 1.5": "1.5",
  "the text -1": "-1",
  "the text abc": "abc",
  "the text 1abc": "1abc",
  "the text 0x10": "0x10",
  "the text 1e3": "1e3",
  "an empty text": "",
  "a blank text": " ",
  "a text with blanks": " 5 ",
  "the text Infinity": "Infinity",
  "the text NaN": "NaN",
  NaN: NaN,
  Infinity: Infinity,
  "-Infinity": -Infinity,
  "a Date": new Date(1_500_000_000_123),
  "a Date before 1970": new Date(-1500),
  "a Date of 1900": new Date("1900-01-01"),
  "an invalid Date": new Date(NaN),
  null: null,
  undefined: undefined,
  true: true,
  "an object": {},
  "a bigint": 5n,
  "a symbol": Symbol("t"),
  "2**31": 2 ** 31,
  "2**33": 2 ** 33,
  "1e10": 1e10,
  "an object with valueOf": { valueOf: () => 5 },
};

const timeCalls: Record<string, Call> = {
  "utimes atime": async (fs, dir, v) => {
    await fs.utimes(`${dir}/a.txt`, v, 5);
    return timesOf(fs, `${dir}/a.txt`);
  },
  "utimes mtime": async (fs, dir, v) => {
    await fs.utimes(`${dir}/link`, 5, v);
    return timesOf(fs, `${dir}/a.txt`);
  },
  "lutimes mtime": async (fs, dir, v) => {
    await fs.lutimes(`${dir}/link`, 5, v);
    return timesOf(fs, `${dir}/link`);
  },
  "lutimes atime": async (fs, dir, v) => {
    await fs.lutimes(`${dir}/a.txt`, v, 5);
    return timesOf(fs, `${dir}/a.txt`);
  },
  "handle.utimes atime": (fs, dir, v) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      await h.utimes(v, 5);
      return timesOf(fs, `${dir}/a.txt`);
    }),
  "handle.utimes mtime": (fs, dir, v) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      await h.utimes(5, v);
      return timesOf(fs, `${dir}/a.txt`);
    }),
};

async function timesOf(fs: Fs, path: string): Promise<unknown> {
  const { atimeNs, mtimeNs, atimeMs, mtimeMs } = await fs.lstat(path, { bigint: true });
  const { atimeMs: a, mtimeMs: m, atime, mtime } = await fs.lstat(path);
  return { atimeNs, mtimeNs, atimeMs, mtimeMs, a, m, atime, mtime };
}

const lengths: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  zero: 0,
  five: 5,
  twenty: 20,
  "-1": -1,
  "-0": -0,
  "a fraction": 1.5,
  NaN: NaN,
  Infinity: Infinity,
  "a text": "5",
  "a bigint": 5n,
  "2**53": 2 ** 53,
  "2**53 - 1": 2 ** 53 - 1,
  true: true,
  "an object": {},
  "a symbol": Symbol("l"),
};

const lengthCalls: Record<string, Call> = {
  "truncate length": (fs, dir, v) => fs.truncate(`${dir}/a.txt`, v),
  "handle.truncate length": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r+", (h) => h.truncate(v)),
};

const anything: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  true: true,
  false: false,
  zero: 0,
  one: 1,
  "a text": "x",
  "an empty text": "",
  "an object": {},
  "an array": [],
  "a function": ignored,
  "a symbol": Symbol("b"),
  "a bigint": 1n,
  "-1": -1,
  "a fraction": 1.5,
  NaN: NaN,
  "2**32": 2 ** 32,
};

const optionCalls: Record<string, Call> = {
  "mkdir {recursive}": (fs, dir, v) => fs.mkdir(`${dir}/x/y`, { recursive: v }),
  "rm {force}": (fs, dir, v) => fs.rm(`${dir}/new`, { force: v }),
  "rm {recursive}": (fs, dir, v) => fs.rm(`${dir}/dir`, { recursive: v }),
  "rm {maxRetries}": (fs, dir, v) => fs.rm(`${dir}/a.txt`, { maxRetries: v }),
  "rm {retryDelay}": (fs, dir, v) => fs.rm(`${dir}/a.txt`, { retryDelay: v }),
  "rmdir {recursive}": (fs, dir, v) => fs.rmdir(`${dir}/empty`, { recursive: v }),
  "rmdir {maxRetries}": (fs, dir, v) => fs.rmdir(`${dir}/empty`, { maxRetries: v }),
  "rmdir {retryDelay}": (fs, dir, v) => fs.rmdir(`${dir}/empty`, { retryDelay: v }),
  "readdir {withFileTypes}": async (fs, dir, v) => (await fs.readdir(`${dir}/empty`, { withFileTypes: v })).length,
  "readdir {recursive}": async (fs, dir, v) => (await fs.readdir(`${dir}/dir`, { recursive: v })).sort(),
  "opendir {recursive}": async (fs, dir, v) => (await entriesOf(await fs.opendir(`${dir}/dir`, { recursive: v }))).sort(),
  "opendir {bufferSize}": async (fs, dir, v) => (await entriesOf(await fs.opendir(`${dir}/dir`, { bufferSize: v }))).sort(),
  "stat {bigint}": async (fs, dir, v) => typeof (await fs.stat(`${dir}/a.txt`, { bigint: v })).size,
  "lstat {bigint}": async (fs, dir, v) => typeof (await fs.lstat(`${dir}/a.txt`, { bigint: v })).size,
  "statfs {bigint}": async (fs, dir, v) => typeof (await fs.statfs(`${dir}/a.txt`, { bigint: v })).bsize,
  "handle.stat {bigint}": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r", async (h) => typeof (await h.stat({ bigint: v })).size),
  "writeFile {flush}": (fs, dir, v) => fs.writeFile(`${dir}/a.txt`, "x", { flush: v }),
  "appendFile {flush}": (fs, dir, v) => fs.appendFile(`${dir}/a.txt`, "x", { flush: v }),
  ...Object.fromEntries(
    ["dereference", "errorOnExist", "force", "preserveTimestamps", "recursive", "verbatimSymlinks", "filter", "mode"].map((name): [string, Call] => [
      `cp {${name}}`,
      (fs, dir, v) => fs.cp(`${dir}/a.txt`, `${dir}/new`, { [name]: v }),
    ]),
  ),
  "symlink type": (fs, dir, v) => fs.symlink("a.txt", `${dir}/new`, v),
  "watch {persistent}": (fs, dir, v) => fs.watch(dir, { persistent: v, signal: AbortSignal.abort() }).next(),
  "watch {recursive}": (fs, dir, v) => fs.watch(dir, { recursive: v, signal: AbortSignal.abort() }).next(),
  "handle.readableWebStream {type}": async (fs, dir, v) => {
    const handle = await fs.open(`${dir}/a.txt`);
    // Node 20 ends the process when a handle is closed that its stream has closed.
    try {
      await handle.readableWebStream({ type: v }).cancel();
    } catch (error) {
      await handle.close();
      throw error;
    }
  },
};

async function entriesOf(opened: AsyncIterable<{ name: string }>): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of opened) names.push(name);
  return names;
}

const all: Table = {
  ...crossed(modeCalls, same(modes)),
  ...crossed(flagCalls, same(flags)),
  ...crossed(idCalls, same(ids)),
  ...crossed(timeCalls, same(times)),
  ...crossed(lengthCalls, same(lengths)),
  ...crossed(optionCalls, same(anything)),
};

const aborts = "Node 20 lets 32 bits through and then ends the process, since 31 are expected further inside";

const wrongSize = "Node 20 throws this where nothing can catch it, and ends the process";

const strangers: [RegExp, string, unknown] = [
  /chown .* with 1000$/,
  "the server gives files to no other user, as if it were none of root's",
  { rejected: { code: "EPERM" } },
];

/** Every number, flag and switch, each with what it can be and with what it cannot. */
export const values = marked(
  all,
  ...(self === 0 ? [strangers] : []),
  [
    /^(chmod|handle.chmod|open|mkdir|mkdir \{mode(, recursive)?\}|writeFile \{mode\}|appendFile \{mode\}).* with (-0|2\*\*(31|32 - 1)|the text 777777777777)$/,
    aborts,
    {},
    "fatal",
  ],
  [/^opendir \{bufferSize\} with (?!undefined|one)/, wrongSize, { rejected: { keys: "code" } }, "fatal"],
  [/^opendir \{bufferSize\} with undefined/, wrongSize, { resolved: ["b.txt", "c.txt", "sub"] }, "fatal"],
  [
    /^(chmod|handle.chmod|open|writeFile \{mode\}|appendFile \{mode\}).* with 0o7777$/,
    "the server sets no set-user-id and set-group-id bits",
    { files: {} },
  ],
  [
    /^copyFile mode, to a file with seven$/,
    "the server says that it cannot share blocks before it looks at the destination",
    { rejected: { code: "ENOTSUP" } },
  ],
  [/^(open flags|\w+ \{flag\}).* with -1$/, "the server does not take all flags at once", { rejected: { code: "EINVAL" } }],
  [/^watch \{recursive\} with true$/, "Node fails at a link that leads to itself", { rejected: { code: "ABORT_ERR" } }, { from: 26 }],
  [/utimes .* with an invalid Date$/, "Node leaves that time alone; here it is refused", { rejected: { code: "EINVAL" } }, { from: 22 }],
  [/utimes .* with 1e10$/, "ctxfs counts nanoseconds in 64 bits, which end in the year 2262", { rejected: { code: "EINVAL" } }],
);
