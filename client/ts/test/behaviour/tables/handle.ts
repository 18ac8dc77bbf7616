import { outcomeOf } from "../outcome.js";
import { closed, onHandle } from "../handles.js";
import { crossed, marked, same, type Fs, type Table } from "../row.js";

const bytes = (): Buffer => Buffer.from("0123456789");
type HandleCall = (h: Fs, value: unknown) => unknown;

/** Makes rows' calls of what is done with a handle: how the call itself ends is compared, at once or later. */
function on(flags: string, calls: Record<string, HandleCall>): Record<string, (fs: Fs, dir: string, value: unknown) => unknown> {
  return Object.fromEntries(
    Object.entries(calls).map(([name, call]) => [
      name,
      (fs: Fs, dir: string, value: unknown) =>
        onHandle(fs, `${dir}/a.txt`, flags, async (h) => {
          const first = await outcomeOf(() => call(h, value));
          const buffer = Buffer.alloc(4);
          const after = await h.read(buffer, 0, 4, null).then(
            (r: { bytesRead: number }) => [r.bytesRead, buffer.toString()],
            (e: { code: string }) => e.code,
          );
          return { first, after };
        }),
    ]),
  );
}

const numbers: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  zero: 0,
  one: 1,
  three: 3,
  ten: 10,
  eleven: 11,
  twelve: 12,
  hundred: 100,
  "-1": -1,
  "-2": -2,
  "-0": -0,
  "a fraction": 1.5,
  NaN: NaN,
  Infinity: Infinity,
  "-Infinity": -Infinity,
  "2**31 - 1": 2 ** 31 - 1,
  "2**31": 2 ** 31,
  "2**32": 2 ** 32,
  "2**53 - 1": 2 ** 53 - 1,
  "2**53": 2 ** 53,
  "a text": "1",
  "an empty text": "",
  true: true,
  false: false,
  "a bigint": 3n,
  "a bigint of -1": -1n,
  "a bigint of -2": -2n,
  "a bigint of 2**63": 2n ** 63n,
  "a bigint of 2**63 - 1": 2n ** 63n - 1n,
  "an object": {},
  "an array": [],
  "a symbol": Symbol("n"),
  "a function": bytes,
};

const numberCalls: Record<string, HandleCall> = {
  "read offset": (h, v) => h.read(bytes(), v, 2, 0),
  "read length": (h, v) => h.read(bytes(), 0, v, 0),
  "read length, at an offset": (h, v) => h.read(bytes(), 8, v, 0),
  "read position": (h, v) => h.read(bytes(), 0, 4, v),
  "read {offset}": (h, v) => h.read({ buffer: bytes(), offset: v, length: 2, position: 0 }),
  "read {length}": (h, v) => h.read({ buffer: bytes(), length: v, position: 0 }),
  "read {position}": (h, v) => h.read({ buffer: bytes(), position: v }),
  "read buffer, {offset}": (h, v) => h.read(bytes(), { offset: v }),
  "read buffer, {length}": (h, v) => h.read(bytes(), { length: v }),
  "read buffer, {position}": (h, v) => h.read(bytes(), { position: v }),
  "readv position": (h, v) => h.readv([Buffer.alloc(2), Buffer.alloc(3)], v),
  "write offset": (h, v) => h.write(bytes(), v, 2, 0),
  "write length": (h, v) => h.write(bytes(), 0, v, 0),
  "write length, at an offset": (h, v) => h.write(bytes(), 8, v, 0),
  "write position": (h, v) => h.write(bytes(), 0, 4, v),
  "write buffer, {offset}": (h, v) => h.write(bytes(), { offset: v }),
  "write buffer, {length}": (h, v) => h.write(bytes(), { length: v }),
  "write buffer, {position}": (h, v) => h.write(bytes(), { position: v }),
  "write text, position": (h, v) => h.write("text", v),
  "writev position": (h, v) => h.writev([Buffer.from("ab"), Buffer.from("cde")], v),
};

const buffers: Record<string, () => unknown> = {
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
    ].map((View) => [`a ${View.name}`, () => new View(new ArrayBuffer(16))]),
  ),
  "a Buffer": () => Buffer.alloc(5),
  "an empty Buffer": () => Buffer.alloc(0),
  "an empty Uint16Array": () => new Uint16Array(0),
  "a DataView": () => new DataView(new ArrayBuffer(16)),
  "a part of a buffer": () => new Uint8Array(new ArrayBuffer(16), 3, 5),
  "a part of a Uint16Array": () => new Uint16Array(new ArrayBuffer(16), 2, 3),
  "a view of a SharedArrayBuffer": () => new Uint8Array(new SharedArrayBuffer(4)),
  "an ArrayBuffer": () => new ArrayBuffer(4),
  "a text": () => "text",
  "an empty text": () => "",
  undefined: () => undefined,
  null: () => null,
  "a number": () => 5,
  true: () => true,
  "an object": () => ({}),
  "an array": () => [],
  "an array of a Buffer": () => [Buffer.alloc(3)],
  "two Buffers": () => [Buffer.alloc(3), Buffer.alloc(4)],
  "a Buffer and an empty one": () => [Buffer.alloc(3), Buffer.alloc(0), Buffer.alloc(2)],
  "an array of a text": () => ["text"],
  "an array of a number": () => [5],
  "an array with a hole": () => [Buffer.alloc(2), undefined],
  "an array of views": () => [new Uint16Array(2), new DataView(new ArrayBuffer(3))],
  "an array of an ArrayBuffer": () => [new ArrayBuffer(2)],
  "a function": () => bytes,
  "a symbol": () => Symbol("b"),
  "a bigint": () => 5n,
  "{buffer: a text}": () => ({ buffer: "text" }),
  "{buffer: null}": () => ({ buffer: null }),
  "{buffer: a Buffer}": () => ({ buffer: Buffer.alloc(4) }),
  "{length}": () => ({ length: 3 }),
  "{position}": () => ({ position: 6 }),
  "more than there is": () => Buffer.alloc(100),
};

const bufferCalls: Record<string, HandleCall> = {
  "read into": (h, v) => h.read(v),
  "read into, with all arguments": (h, v) => h.read(v, 1, 3, 2),
  "read into {buffer}": (h, v) => h.read({ buffer: v }),
  "read into {buffer, offset, length, position}": (h, v) => h.read({ buffer: v, offset: 1, length: 2, position: 6 }),
  "readv into": (h, v) => h.readv(v),
  "readv into, at a position": (h, v) => h.readv(v, 6),
  "write from": (h, v) => h.write(v),
  "write from, with all arguments": (h, v) => h.write(v, 1, 2, 3),
  "write from, with options": (h, v) => h.write(v, { offset: 1, length: 2, position: 3 }),
  "writev from": (h, v) => h.writev(v),
  "writev from, at a position": (h, v) => h.writev(v, 6),
};

const optionForms: Record<string, unknown> = {
  "no options": undefined,
  null: null,
  "an empty object": {},
  "an offset only": { offset: 2 },
  "a length of 0": { length: 0 },
  "all of them": { offset: 1, length: 2, position: 3 },
  "null in all": { offset: null, length: null, position: null },
  "undefined in all": { offset: undefined, length: undefined, position: undefined },
  "a length too large": { length: 11 },
  "an offset at the end": { offset: 10 },
  "an offset beyond the end": { offset: 11 },
  "an object without prototype": Object.create(null),
};

/** Every method, on a closed handle. */
const methods: Record<string, (h: Fs) => unknown> = {
  appendFile: (h) => h.appendFile("x"),
  chmod: (h) => h.chmod(0o600),
  chown: (h) => h.chown(0, 0),
  datasync: (h) => h.datasync(),
  sync: (h) => h.sync(),
  read: (h) => h.read(Buffer.alloc(1)),
  "read of nothing": (h) => h.read(Buffer.alloc(0)),
  "read wrong": (h) => h.read(5),
  readv: (h) => h.readv([Buffer.alloc(1)]),
  "readv wrong": (h) => h.readv(5),
  readFile: (h) => h.readFile(),
  "readFile wrong": (h) => h.readFile(5),
  stat: (h) => h.stat(),
  truncate: (h) => h.truncate(1),
  "truncate wrong": (h) => h.truncate("x"),
  utimes: (h) => h.utimes(1, 1),
  "utimes wrong": (h) => h.utimes({}, 1),
  write: (h) => h.write("x"),
  "write wrong": (h) => h.write(5),
  writev: (h) => h.writev([Buffer.from("x")]),
  writeFile: (h) => h.writeFile("x"),
  close: (h) => h.close(),
  "close twice": (h) => Promise.all([h.close(), h.close()]),
  readableWebStream: (h) => h.readableWebStream(),
  createReadStream: (h) => h.createReadStream(),
  createWriteStream: (h) => h.createWriteStream(),
  readLines: (h) => h.readLines(),
  fd: (h) => h.fd,
};

const all: Table = {
  ...crossed(on("r+", numberCalls), same(numbers)),
  ...crossed(on("r+", bufferCalls), buffers),
  ...crossed(on("r+", { "read buffer with": (h, v) => h.read(bytes(), v), "write buffer with": (h, v) => h.write(bytes(), v) }), same(optionForms)),
  ...crossed(
    on("a+", { "appending, write": (h, v) => h.write("XY", v), "appending, writev": (h, v) => h.writev([Buffer.from("XY")], v) }),
    same({ "no position": undefined, zero: 0, three: 3 }),
  ),
  ...Object.fromEntries(
    Object.entries(methods).map(([name, call]): [string, Table[string]] => [
      `closed: ${name}`,
      async (fs, dir) => {
        const h = await closed(fs, dir);
        return outcomeOf(() => call(h));
      },
    ]),
  ),

  "a new handle": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const told = [typeof h.fd, h.fd >= 0, Object.prototype.toString.call(h), h.constructor.name];
    await h.close();
    return [told, h.fd];
  },
  "a handle has Node's methods": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const names = Object.keys(methods)
      .filter((n) => !n.includes(" ") && n !== "fd")
      .concat("on", "once", "off", "emit", "addListener", "removeListener")
      .map((n) => [n, typeof h[n]]);
    const dispose = typeof h[Symbol.asyncDispose];
    await h.close();
    return [names, dispose];
  },
  "the close event": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const told: string[] = [];
    h.on("close", () => told.push("close event"));
    const p = h.close().then(() => told.push("close promise"));
    told.push("after close()");
    await p;
    return told;
  },
  "the close event comes once": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    let n = 0;
    h.on("close", () => n++);
    await Promise.all([h.close(), h.close()]);
    await h.close();
    return n;
  },
  "fd while closing": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const p = h.close();
    const fd = h.fd;
    await p;
    return [fd, h.fd];
  },
  "close is one promise": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const p = h.close();
    const same = p === h.close();
    await p;
    return same;
  },
  "close resolves with": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    return h.close();
  },
  "close waits for what is under way": async (fs, dir) => {
    const h = await fs.open(`${dir}/large.bin`);
    const told: string[] = [];
    const r = h.readFile("latin1").then((t: string) => told.push(`read ${t.length}`));
    await h.close().then(() => told.push("closed"));
    await r;
    return told.sort();
  },
  "use after close() was called": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const p = h.close();
    const told = await outcomeOf(() => h.stat());
    await p;
    return told;
  },
  asyncDispose: async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const r = await h[Symbol.asyncDispose]();
    return [r, h.fd];
  },
  "asyncDispose after close": async (fs, dir) => {
    const h = await closed(fs, dir);
    return h[Symbol.asyncDispose]();
  },
  "open of a directory": (fs, dir) => onHandle(fs, `${dir}/dir`, "r", async (h) => (await h.stat()).isDirectory()),
  "read of a directory": (fs, dir) => onHandle(fs, `${dir}/dir`, "r", (h) => h.read(Buffer.alloc(4))),
  "write to a file opened to read": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r", (h) => h.write("x")),
  "writev to a file opened to read": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r", (h) => h.writev([Buffer.from("x")])),
  "read of a file opened to write": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "w", (h) => h.read(Buffer.alloc(4))),
  "readv of a file opened to write": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "w", (h) => h.readv([Buffer.alloc(4)])),
  "truncate of a file opened to read": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r", (h) => h.truncate(3)),
  "sync and datasync": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r+", async (h) => [await h.sync(), await h.datasync()]),
  "reading on": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      const out: unknown[] = [];
      for (let i = 0; i < 4; i++) {
        const b = Buffer.alloc(5);
        const r = await h.read(b, 0, 5);
        out.push([r.bytesRead, b.toString()]);
      }
      return out;
    }),
  "reading at a position leaves the handle's": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      const b = Buffer.alloc(3);
      await h.read(b, 0, 3, 6);
      const t = b.toString();
      await h.read(b, 0, 3);
      return [t, b.toString()];
    }),
  "writing on": (fs, dir) =>
    onHandle(fs, `${dir}/new`, "w", async (h) => {
      await h.write("one");
      await h.write(Buffer.from("two"));
      await h.write("X", 1);
      await h.writev([Buffer.from("a"), Buffer.from("b")]);
    }),
  "a hole": (fs, dir) => onHandle(fs, `${dir}/new`, "w", (h) => h.write("x", 5)),
  "read gives the buffer that it was given": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      const b = Buffer.alloc(3);
      return (await h.read(b)).buffer === b;
    }),
  "read without a buffer": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      const r = await h.read();
      return [r.bytesRead, r.buffer.length, r.buffer.toString("latin1", 0, r.bytesRead)];
    }),
  "read at the end": (fs, dir) => onHandle(fs, `${dir}/empty.txt`, "r", (h) => h.read(Buffer.alloc(3))),
  "readv gives the array that it was given": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      const b = [Buffer.alloc(3)];
      return (await h.readv(b)).buffers === b;
    }),
  "writev gives the array that it was given": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r+", async (h) => {
      const b = [Buffer.alloc(3)];
      return (await h.writev(b)).buffers === b;
    }),
  "many reads at once": (fs, dir) =>
    onHandle(fs, `${dir}/large.bin`, "r", async (h) =>
      Promise.all(
        Array.from({ length: 20 }, async (_, i) => {
          const b = Buffer.alloc(5);
          await h.read(b, 0, 5, i * 7);
          return b.toString();
        }),
      ),
    ),
  "a write of hex with an odd length": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r+", (h) => h.write("abc", null, "hex")),
  "handle.stat": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r", (h) => h.stat()),
  "handle.stat as bigint": (fs, dir) => onHandle(fs, `${dir}/a.txt`, "r", (h) => h.stat({ bigint: true })),
  "a method taken off its handle": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r", (h) => {
      const { close } = h;
      return typeof close;
    }),
  "a file that was removed": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r", async (h) => {
      await fs.unlink(`${dir}/a.txt`);
      return [await h.readFile("utf8"), (await h.stat()).nlink];
    }),
  "a file that was renamed": (fs, dir) =>
    onHandle(fs, `${dir}/a.txt`, "r+", async (h) => {
      await fs.rename(`${dir}/a.txt`, `${dir}/new`);
      await h.write("X");
    }),
};

const aborts = "Node 20 does not check this length, and ends the process further inside";

/** What a FileHandle does: reading and writing with every argument, and its life. */
export const handle = marked(
  all,
  [
    /^read (length|\{length\}|buffer, \{length\}) with (a fraction|NaN|a text|an empty text|true|false|an object|an array|a function)$/,
    aborts,
    { resolved: { first: { rejected: { keys: "code" } } } },
    { fatal: true, below: 26 },
  ],
  [
    /^read length, at an offset with (a fraction|NaN|an empty text|true|false|an object|an array|a function)$/,
    aborts,
    { resolved: { first: { rejected: { keys: "code" } } } },
    { fatal: true, below: 26 },
  ],
  [/^close is one promise$/, "a second close gives the first one's promise; Node makes another one that settles with it", { resolved: true }],
  [/^write .*length.* with -0$/, aborts, { resolved: { first: { resolved: { bytesWritten: 0 } } } }, "fatal"],
);
