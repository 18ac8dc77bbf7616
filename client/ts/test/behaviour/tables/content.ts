import { Readable } from "node:stream";
import { onHandle } from "../handles.js";
import { crossed, marked, same, type Fs, type Table } from "../row.js";

const text = "grüße €😀\n";
const bytes = Buffer.from("0123456789abcdef");
const failure = new Error("the source failed");

function* pieces(...list: unknown[]): Generator {
  yield* list;
}
async function* later(...list: unknown[]): AsyncGenerator {
  for (const piece of list) {
    await Promise.resolve();
    yield piece;
  }
}
function* failing(): Generator {
  yield "a";
  throw failure;
}
async function* failingLater(): AsyncGenerator {
  yield "a";
  await Promise.resolve();
  throw failure;
}

/** What a program may give as content, and what it may not. Made anew for each call: streams are read once. */
const data: Record<string, () => unknown> = {
  "a text": () => text,
  "an empty text": () => "",
  "a Buffer": () => Buffer.from(bytes),
  "an empty Buffer": () => Buffer.alloc(0),
  ...Object.fromEntries(
    [
      Uint8Array,
      Int8Array,
      Uint8ClampedArray,
      Uint16Array,
      Int16Array,
      Uint32Array,
      Int32Array,
      Float32Array,
      Float64Array,
      BigInt64Array,
      BigUint64Array,
    ].map((View) => [`a ${View.name}`, () => new View(new Uint8Array(bytes).buffer)]),
  ),
  "a DataView": () => new DataView(new Uint8Array(bytes).buffer),
  "a part of a buffer": () => new Uint8Array(new Uint8Array(bytes).buffer, 3, 5),
  "an ArrayBuffer": () => new Uint8Array(bytes).buffer,
  "a SharedArrayBuffer": () => new SharedArrayBuffer(4),
  "a view of a SharedArrayBuffer": () => new Uint8Array(new SharedArrayBuffer(4)),
  "a number": () => 5,
  NaN: () => NaN,
  null: () => null,
  undefined: () => undefined,
  true: () => true,
  "a bigint": () => 5n,
  "a symbol": () => Symbol("d"),
  "an object": () => ({}),
  "an object with toString": () => ({ toString: () => "text" }),
  "a function": () => pieces,
  "a Date": () => new Date(0),
  "a String": () => new String("text"),
  "a promise": () => Promise.resolve("text"),
  "an array of texts": () => ["a", "b"],
  "an empty array": () => [],
  "an array of numbers": () => [1, 2],
  "a mixed array": () => ["a", Buffer.from("b"), new Uint8Array([99])],
  "a generator of texts": () => pieces("one", "", "two"),
  "an async generator": () => later("one", Buffer.from("two")),
  "an empty generator": () => pieces(),
  "an async generator of numbers": () => later(1),
  "a generator of text and a number": () => pieces("one", 2),
  "a generator of views": () => pieces(new Uint16Array([0x6161]), new DataView(new ArrayBuffer(1))),
  "a generator of null": () => pieces(null),
  "a generator that fails": () => failing(),
  "an async generator that fails": () => failingLater(),
  "a Set": () => new Set(["x", "y"]),
  "a Map": () => new Map([["x", "y"]]),
  "a Readable": () => Readable.from(["one", "two"]),
  "a Readable of a Buffer": () => Readable.from(Buffer.from("one")),
  "a stream of the web": () => new Blob(["one"]).stream(),
  "a Blob": () => new Blob(["one"]),
  "a large text": () => "äbc".repeat(200_000),
  "a large Buffer": () => Buffer.alloc(700_001, "x"),
  "a generator of large pieces": () => pieces(Buffer.alloc(300_000, "a"), "b".repeat(300_000)),
};

const dataCalls: Record<string, (fs: Fs, dir: string, value: unknown) => unknown> = {
  "writeFile data": (fs, dir, v) => fs.writeFile(`${dir}/new`, v),
  "writeFile data, over a file": (fs, dir, v) => fs.writeFile(`${dir}/large.bin`, v),
  "appendFile data": (fs, dir, v) => fs.appendFile(`${dir}/a.txt`, v),
  "handle.writeFile data": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r+", (h) => h.writeFile(v)),
  "handle.appendFile data": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "a", (h) => h.appendFile(v)),
  "writeFile data to a handle": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r+", (h) => fs.writeFile(h, v)),
  "handle.write data": (fs, dir, v) =>
    onHandle(fs, `${dir}/a.txt`, "r+", async (h) => {
      const r = await h.write(v);
      return [r.bytesWritten, typeof r.buffer, r.buffer === v];
    }),
  "handle.writev data": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r+", (h) => h.writev([v])),
};

const encodings: Record<string, unknown> = {
  ...Object.fromEntries(
    [
      "utf8",
      "utf-8",
      "UTF8",
      "Utf-8",
      "ucs2",
      "ucs-2",
      "utf16le",
      "UTF-16LE",
      "latin1",
      "binary",
      "ascii",
      "base64",
      "BASE64",
      "base64url",
      "hex",
      "HEX",
      "buffer",
    ].map((e) => [e, e]),
  ),
  null: null,
  undefined: undefined,
  "an empty text": "",
  bogus: "bogus",
  "utf-32": "utf-32",
  "a number": 5,
  zero: 0,
  true: true,
  false: false,
  "an object": {},
  "an array": ["utf8"],
  "a symbol": Symbol("e"),
  "a function": pieces,
};

const encodingCalls: Record<string, (fs: Fs, dir: string, value: unknown) => unknown> = {
  "readFile encoding": (fs, dir, v) => fs.readFile(`${dir}/utf8.txt`, v),
  "readFile {encoding}": (fs, dir, v) => fs.readFile(`${dir}/utf8.txt`, { encoding: v }),
  "handle.readFile encoding": (fs, dir, v) => onHandle(fs, `${dir}/utf8.txt`, "r", (h) => h.readFile(v)),
  "handle.readFile {encoding}": (fs, dir, v) => onHandle(fs, `${dir}/bytes.bin`, "r", (h) => h.readFile({ encoding: v })),
  "writeFile encoding": (fs, dir, v) => fs.writeFile(`${dir}/new`, "616263ä==", v),
  "writeFile {encoding}": (fs, dir, v) => fs.writeFile(`${dir}/new`, "616263ä", { encoding: v }),
  "writeFile {encoding}, of pieces": (fs, dir, v) => fs.writeFile(`${dir}/new`, ["616263ä"], { encoding: v }),
  "writeFile {encoding}, of a Buffer": (fs, dir, v) => fs.writeFile(`${dir}/new`, Buffer.from("616263"), { encoding: v }),
  "appendFile encoding": (fs, dir, v) => fs.appendFile(`${dir}/a.txt`, "616263", v),
  "handle.writeFile encoding": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r+", (h) => h.writeFile("616263ä", v)),
  "handle.write encoding": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r+", (h) => h.write("616263", null, v)),
  "readdir encoding": async (fs, dir, v) => inOrder(await fs.readdir(`${dir}/dir`, v)),
  "readdir {encoding, withFileTypes}": async (fs, dir, v) =>
    inOrder((await fs.readdir(`${dir}/dir`, { encoding: v, withFileTypes: true })).map((e: { name: unknown }) => e.name)),
  "readdir {encoding, recursive}": async (fs, dir, v) => inOrder(await fs.readdir(`${dir}/dir`, { encoding: v, recursive: true })),
  "opendir encoding": async (fs, dir, v) => {
    const d = await fs.opendir(`${dir}/dir/sub`, v);
    const e = await d.read();
    await d.close();
    return e.name;
  },
  "opendir {encoding}": async (fs, dir, v) => {
    const d = await fs.opendir(`${dir}/dir/sub`, { encoding: v });
    const e = await d.read();
    await d.close();
    return e.name;
  },
  "readlink encoding": (fs, dir, v) => fs.readlink(`${dir}/link`, v),
  "readlink {encoding}": (fs, dir, v) => fs.readlink(`${dir}/link`, { encoding: v }),
  "realpath encoding": async (fs, dir, v) => textIn(await fs.realpath(`${dir}/dirlink`, v), v),
  "realpath {encoding}": async (fs, dir, v) => textIn(await fs.realpath(`${dir}/dirlink`, { encoding: v }), v),
  "mkdtemp encoding": async (fs, dir, v) => typeof (await fs.mkdtemp(`${dir}/tmp-`, v)),
  "mkdtemp {encoding}": async (fs, dir, v) => typeof (await fs.mkdtemp(`${dir}/tmp-`, { encoding: v })),
  "watch encoding": (fs, dir, v) => fs.watch(dir, v).return(),
  "watch {encoding}": (fs, dir, v) => fs.watch(dir, { encoding: v, signal: AbortSignal.abort() }).next(),
};

function inOrder(names: (string | Buffer)[]): unknown[] {
  return names.map((n) => (typeof n === "string" ? n : `Buffer ${n.toString()}`)).sort();
}

/** Undoes the encoding of a path: encoded, it does not show the directory that differs. Of two bytes a letter, the last one may be lost. */
function textIn(path: unknown, encoding: unknown): unknown {
  if (typeof path !== "string") return { buffer: String(path) };
  const known = typeof encoding === "string" && Buffer.isEncoding(encoding) ? encoding : "utf8";
  const text = Buffer.from(path, known).toString();
  return { text: text.slice(0, text.indexOf("/row/di") + 7) };
}

/** Ends a stream before it did anything, and returns its events. */
function ended(stream: Fs): Promise<unknown> {
  const told: unknown[] = [];
  return new Promise((resolve) => {
    stream.on("error", (error: unknown) => {
      told.push(error);
    });
    stream.on("close", () => {
      resolve(told);
    });
    stream.destroy();
  });
}

const options: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  "a number": 5,
  zero: 0,
  true: true,
  false: false,
  "an object": {},
  "an array": [],
  "a symbol": Symbol("o"),
  "a function": pieces,
  "a bigint": 5n,
  "a Date": new Date(0),
  "an object without prototype": Object.create(null),
  "an inherited encoding": Object.create({ encoding: "hex" }),
  "a String": new String("hex"),
  "{signal: null}": { signal: null },
  "{signal: undefined}": { signal: undefined },
  "{signal: {}}": { signal: {} },
  "{signal: 'x'}": { signal: "x" },
  "{signal: 5}": { signal: 5 },
  "a signal": { signal: new AbortController().signal },
  "a signal that has fired": { signal: AbortSignal.abort() },
  "a signal that has fired for a reason": { signal: AbortSignal.abort("why") },
  "a signal that has fired for an Error": { signal: AbortSignal.abort(failure) },
  "a look-alike of a signal that has fired": { signal: { aborted: true, reason: "why" } },
  "an unknown option": { bogus: 1 },
};

const optionCalls: Record<string, (fs: Fs, dir: string, value: unknown) => unknown> = {
  "readFile options": (fs, dir, v) => fs.readFile(`${dir}/a.txt`, v),
  "readFile options, of what is not there": (fs, dir, v) => fs.readFile(`${dir}/new`, v),
  "writeFile options": (fs, dir, v) => fs.writeFile(`${dir}/new`, "text", v),
  "writeFile options, with wrong data": (fs, dir, v) => fs.writeFile(`${dir}/new`, 5, v),
  "writeFile options, with pieces": (fs, dir, v) => fs.writeFile(`${dir}/new`, ["a", "b"], v),
  "appendFile options": (fs, dir, v) => fs.appendFile(`${dir}/new`, "text", v),
  "handle.readFile options": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r", (h) => h.readFile(v)),
  "handle.writeFile options": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r+", (h) => h.writeFile("text", v)),
  "handle.appendFile options": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "a", (h) => h.appendFile("text", v)),
  "handle.stat options": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r", async (h) => (await h.stat(v)).size),
  "stat options": async (fs, dir, v) => (await fs.stat(`${dir}/a.txt`, v)).size,
  "lstat options": async (fs, dir, v) => (await fs.lstat(`${dir}/a.txt`, v)).size,
  "statfs options": async (fs, dir, v) => typeof (await fs.statfs(dir, v)).bsize,
  "mkdir options": (fs, dir, v) => fs.mkdir(`${dir}/new`, v),
  "rm options": (fs, dir, v) => fs.rm(`${dir}/a.txt`, v),
  "rmdir options": (fs, dir, v) => fs.rmdir(`${dir}/empty`, v),
  "cp options": (fs, dir, v) => fs.cp(`${dir}/a.txt`, `${dir}/new`, v),
  "readdir options": async (fs, dir, v) => inOrder(await fs.readdir(`${dir}/dir`, v)),
  "opendir options": async (fs, dir, v) => {
    const d = await fs.opendir(`${dir}/dir/sub`, v);
    const e = await d.read();
    await d.close();
    return e;
  },
  "readlink options": (fs, dir, v) => fs.readlink(`${dir}/link`, v),
  "realpath options": async (fs, dir, v) =>
    textIn(await fs.realpath(`${dir}/dirlink`, v), (v as { encoding?: unknown } | null | undefined)?.encoding),
  "mkdtemp options": async (fs, dir, v) => typeof (await fs.mkdtemp(`${dir}/tmp-`, v)),
  "watch options": (fs, dir, v) => fs.watch(dir, v).return(),
  "handle.createReadStream options": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r", (h) => ended(h.createReadStream(v))),
  "handle.createWriteStream options": (fs, dir, v) => onHandle(fs, `${dir}/a.txt`, "r+", (h) => ended(h.createWriteStream(v))),
  "handle.readableWebStream options": async (fs, dir, v) => {
    const h = await fs.open(`${dir}/a.txt`);
    await h.readableWebStream(v).cancel();
  },
};

const all: Table = {
  ...crossed(dataCalls, data),
  ...crossed(encodingCalls, same(encodings)),
  ...crossed(optionCalls, same(options)),

  "readFile of a large file": async (fs, dir) => (await fs.readFile(`${dir}/large.bin`)).toString("latin1", 0, 40),
  "readFile of a large file, as text": async (fs, dir) => (await fs.readFile(`${dir}/large.bin`, "utf8")).length,
  "readFile of an empty file": (fs, dir) => fs.readFile(`${dir}/empty.txt`),
  "readFile of an empty file, as text": (fs, dir) => fs.readFile(`${dir}/empty.txt`, "utf8"),
  "readFile of bytes as utf8": (fs, dir) => fs.readFile(`${dir}/bytes.bin`, "utf8"),
  "readFile gives a Buffer of its own": async (fs, dir) => {
    const b = await fs.readFile(`${dir}/a.txt`);
    return [Buffer.isBuffer(b), b.byteOffset, b.buffer.byteLength];
  },
  "readFile of a handle": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r", (h) => fs.readFile(h, "utf8")),
  "readFile of a handle that was read": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      await h.read(Buffer.alloc(3));
      return fs.readFile(h, "utf8");
    }),
  "readFile of a handle, twice": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r", async (h) => [await h.readFile("utf8"), await h.readFile("utf8")]),
  "readFile of a closed handle": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    await h.close();
    return fs.readFile(h);
  },
  "writeFile to a closed handle": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`, "w");
    await h.close();
    return fs.writeFile(h, "x");
  },
  "readFile of a handle of a directory": (fs, dir) => onHandle(fs, `${dir}/dir`, "r", (h) => h.readFile()),
  "readFile of a handle opened to write": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "w", (h) => h.readFile()),
  "appendFile to a handle opened to read": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r", (h) => fs.appendFile(h, "x")),
  "writeFile to a handle, twice": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r+", async (h) => {
      await fs.writeFile(h, "one");
      await fs.writeFile(h, "two");
    }),
  "writeFile to a handle opened to append": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "a", (h) => h.writeFile("x")),
  "writeFile over a read-only file's mode": (fs, dir) => fs.writeFile(`${dir}/empty.txt`, "x", { mode: 0o600 }),
  "writeFile and flush": (fs, dir) => fs.writeFile(`${dir}/new`, "x", { flush: true }),
  "writeFile of pieces and flush": (fs, dir) => fs.writeFile(`${dir}/new`, ["x"], { flush: true }),
  "appendFile and flush": (fs, dir) => fs.appendFile(`${dir}/a.txt`, "x", { flush: true }),
  "a signal that fires at once stops readFile": (fs, dir) => {
    const c = new AbortController();
    const p = fs.readFile(`${dir}/large.bin`, { signal: c.signal });
    c.abort();
    return p;
  },
  "a signal that fires at once stops writeFile": (fs, dir) => {
    const c = new AbortController();
    const p = fs.writeFile(`${dir}/new`, Buffer.alloc(5 << 20), { signal: c.signal }).finally(() => fs.rm(`${dir}/new`, { force: true }));
    c.abort();
    return p;
  },
  "a signal that fires between pieces stops writeFile": (fs, dir) => {
    const c = new AbortController();
    return fs.writeFile(
      `${dir}/new`,
      (function* () {
        yield "one";
        c.abort("enough");
        yield "two";
      })(),
      { signal: c.signal },
    );
  },
  "a signal that fires afterwards does nothing": async (fs, dir) => {
    const c = new AbortController();
    const read = await fs.readFile(`${dir}/a.txt`, { signal: c.signal });
    c.abort();
    return read;
  },
  copyFile: (fs, dir) => fs.copyFile(`${dir}/a.txt`, `${dir}/new`),
  "copyFile over a file": (fs, dir) => fs.copyFile(`${dir}/a.txt`, `${dir}/lines.txt`),
  "copyFile COPYFILE_EXCL over a file": (fs, dir) => fs.copyFile(`${dir}/a.txt`, `${dir}/lines.txt`, fs.constants.COPYFILE_EXCL),
  "copyFile COPYFILE_FICLONE": (fs, dir) => fs.copyFile(`${dir}/a.txt`, `${dir}/new`, fs.constants.COPYFILE_FICLONE),
  "copyFile to itself": (fs, dir) => fs.copyFile(`${dir}/a.txt`, `${dir}/a.txt`),
  "copyFile of a link": (fs, dir) => fs.copyFile(`${dir}/link`, `${dir}/new`),
  "copyFile of a read-only file": (fs, dir) => fs.copyFile(`${dir}/readonly.txt`, `${dir}/new`),
  "truncate to more": (fs, dir) => fs.truncate(`${dir}/a.txt`, 20),
  "truncate of a link": (fs, dir) => fs.truncate(`${dir}/link`, 2),
};

const nested = "Node 20 takes encoded names for paths, and does not find the directories below";
const callback = "Node 20 takes the function for opendir's callback, and the promise never settles";

/** Content, encodings and options, each in every form. */
export const content = marked(
  all,
  [/^readdir \{encoding, recursive\} with (ucs|utf16|UTF-16|base64|BASE64|hex|HEX)/, nested, { resolved: { length: 4 } }, { below: 26 }],
  [/^readdir \{encoding, recursive\} with buffer$/, nested, { resolved: ["Buffer b.txt", "Buffer c.txt", "Buffer sub", "Buffer sub/deep.txt"] }, { below: 26 }],
  [/^opendir encoding with a function$/, callback, { resolved: "deep.txt" }, "fatal"],
  [/^opendir options with a function$/, callback, { resolved: { name: "deep.txt" } }, "fatal"],
  [/^watch \{encoding\} with buffer$/, "Node 20's watch refuses what its documentation allows", { rejected: { code: "ABORT_ERR" } }],
);
