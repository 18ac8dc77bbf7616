import * as nodefs from "node:fs/promises";
import { differs, type Fs, type Table } from "../row.js";

const functions = Object.entries(nodefs)
  .filter(([, value]) => typeof value === "function")
  .map(([name]) => name)
  .filter((n) => n !== "default");

/** Starts a watch, does something, and returns the first change of the name. */
async function firstChange(fs: Fs, path: string, name: string, options: object, act: () => Promise<unknown>): Promise<unknown> {
  const stop = new AbortController();
  const changes = fs.watch(path, { ...options, signal: stop.signal });
  const next = (async () => {
    for await (const change of changes) if (String(change.filename) === name) return change;
    return "none";
  })();
  // A watch begins some time after it was asked for: what happens is repeated until it is seen.
  let last: Promise<unknown> = Promise.resolve();
  const again = setInterval(() => {
    last = last.then(act).catch(() => undefined);
  }, 30);
  try {
    return await next;
  } finally {
    clearInterval(again);
    stop.abort();
    await last;
  }
}

/** The object as a whole, what its functions are called, and watching. */
export const whole: Table = {
  ...Object.fromEntries(functions.map((name): [string, Table[string]] => [`${name} is a function`, (fs) => typeof fs[name]])),
  "opendir without arguments": differs(
    "Node's opendir is made of the one with a callback, and misses that first",
    { rejected: { code: "ERR_INVALID_ARG_TYPE" } },
    (fs) => fs.opendir(),
  ),
  ...Object.fromEntries(
    functions
      .filter((n) => n !== "opendir")
      .map((name): [string, Table[string]] => [
        `${name} without arguments`,
        async (fs) => {
          const r = fs[name]();
          return name === "watch" ? r.next() : r;
        },
      ]),
  ),
  glob: differs("Node 20 has none", { resolved: "function" }, (fs) => Promise.resolve(typeof fs.glob), { below: 22 }),
  constants: (fs) => ({ ...fs.constants }),
  "constants cannot be changed": (fs) => {
    try {
      fs.constants.F_OK = 9;
    } catch {
      /* strict */
    }
    return fs.constants.F_OK;
  },
  "functions need no this": (fs, dir) => {
    const { readFile } = fs;
    return readFile(`${dir}/a.txt`, "utf8");
  },
  "functions give Promises of this realm": async (fs, dir) => {
    const p = fs.stat(`${dir}/a.txt`);
    const is = p instanceof Promise;
    await p;
    return is;
  },

  "watch gives an async iterator": async (fs, dir) => {
    const w = fs.watch(dir);
    const told = [typeof w.next, typeof w.return, typeof w[Symbol.asyncIterator], w[Symbol.asyncIterator]() === w];
    await w.return();
    return told;
  },
  "watch of a new file": (fs, dir, disk) =>
    firstChange(fs, dir, "new", {}, () => nodefs.writeFile(`${disk}/new`, "x").then(() => nodefs.rm(`${disk}/new`))),
  "watch of a changed file": (fs, dir, disk) =>
    firstChange(fs, dir, "a.txt", {}, () => nodefs.appendFile(`${disk}/a.txt`, "").then(() => nodefs.utimes(`${disk}/a.txt`, 1, 1))),
  "watch as buffers": differs("Node 20's watch refuses what its documentation allows", { resolved: { filename: 'Buffer "new"' } }, (fs, dir, disk) =>
    firstChange(fs, dir, "new", { encoding: "buffer" }, () => nodefs.writeFile(`${disk}/new`, "x").then(() => nodefs.rm(`${disk}/new`))),
  ),
  "watch as hex": (fs, dir, disk) =>
    firstChange(fs, dir, "6e6577", { encoding: "hex" }, () => nodefs.writeFile(`${disk}/new`, "x").then(() => nodefs.rm(`${disk}/new`))),
  "watch recursive": differs("Node fails at a link that leads to itself", { resolved: { eventType: "rename", filename: "dir/new" } }, (fs, dir, disk) =>
    firstChange(fs, dir, "dir/new", { recursive: true }, () => nodefs.writeFile(`${disk}/dir/new`, "x").then(() => nodefs.rm(`${disk}/dir/new`))), { from: 26 }),
  "watch of a file": (fs, dir, disk) =>
    firstChange(fs, `${dir}/a.txt`, "a.txt", {}, () => nodefs.appendFile(`${disk}/a.txt`, "x").then(() => nodefs.truncate(`${disk}/a.txt`))),
  "watch of what is not there": (fs, dir) => fs.watch(`${dir}/new`).next(),
  "watch with a signal that has fired": (fs, dir) => fs.watch(dir, { signal: AbortSignal.abort("why") }).next(),
  "watch with a signal that fires": (fs, dir) => {
    const c = new AbortController();
    const p = fs.watch(dir, { signal: c.signal }).next();
    // clock: the watch may have begun by then, or not
    setTimeout(() => {
      c.abort("why");
    }, 20);
    return p;
  },
  "watch with a signal that fires, in a loop": async (fs, dir) => {
    const c = new AbortController();
    // clock: the watch may have begun by then, or not
    setTimeout(() => {
      c.abort();
    }, 20);
    for await (const _ of fs.watch(dir, { signal: c.signal })) break;
  },
  "watch, ended": async (fs, dir) => {
    const w = fs.watch(dir);
    await w.return();
    return w.next();
  },
};
