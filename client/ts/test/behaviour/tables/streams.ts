import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";
import { crossed, marked, same, type Fs, type Table } from "../row.js";

type Make = (handle: Fs, value: unknown) => Fs;

/** Follows a stream to its end, and returns its events, its data, and the state of the handle. */
async function followed(fs: Fs, path: string, flags: string, make: (h: Fs) => Fs, feed: (stream: Fs) => void = () => undefined): Promise<unknown> {
  const handle = await fs.open(path, flags);
  try {
    const stream = make(handle);
    const events: unknown[] = [];
    const data: unknown[] = [];
    stream.on("data", (piece: unknown) => {
      data.push(piece);
    });
    for (const event of ["open", "ready", "end", "finish"])
      stream.on(event, () => {
        events.push(event);
      });
    stream.on("error", (error: unknown) => {
      events.push(["error", error]);
    });
    const closed = new Promise((resolve) => {
      stream.on("close", () => {
        events.push("close");
        resolve(undefined);
      });
      const state = stream._writableState ?? stream._readableState;
      const closes = stream.autoClose && state.emitClose;
      setTimeout(resolve, closes ? 60_000 : 250).unref(); // clock: some never close
    });
    feed(stream);
    await closed;
    const { bytesRead, bytesWritten, start, end, autoClose, path: shown, flags: f, mode, pending, destroyed } = stream;
    return {
      events: [...events],
      data: joined(data),
      fields: { bytesRead, bytesWritten, start, end, autoClose, shown, f, mode, pending, destroyed },
      handle: handle.fd === -1,
    };
  } finally {
    // Node 20 closes a stream with its handle that could not be made, and fails in that.
    try {
      await handle.close();
    } catch {
      /* told above */
    }
  }
}

/** Where pieces are cut is the stream's own affair unless highWaterMark says it. */
function joined(data: unknown[]): unknown {
  return data.every((d) => Buffer.isBuffer(d)) ? { pieces: data.length, bytes: Buffer.concat(data) } : data;
}

const read =
  (make: Make, file = "a.txt") =>
  (fs: Fs, dir: string, value?: unknown): unknown =>
    followed(fs, `${dir}/${file}`, "r", (h) => make(h, value));
const write =
  (make: Make, feed: (stream: Fs) => void, file = "a.txt", flags = "r+") =>
  (fs: Fs, dir: string, value?: unknown): unknown =>
    followed(fs, `${dir}/${file}`, flags, (h) => make(h, value), feed);
const twoWrites = (stream: Fs): void => {
  stream.write("AB");
  stream.end("CD");
};

const numbers: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  zero: 0,
  three: 3,
  hundred: 100,
  "-1": -1,
  "a fraction": 1.5,
  NaN: NaN,
  Infinity: Infinity,
  "a text": "3",
  "a bigint": 3n,
  true: true,
  "an object": {},
  "2**53": 2 ** 53,
};
const anything: Record<string, unknown> = { undefined: undefined, null: null, true: true, false: false, zero: 0, "a text": "x", "an object": {} };

const all: Table = {
  ...crossed(
    {
      "createReadStream {start}": read((h, v) => h.createReadStream({ start: v })),
      "createReadStream {end}": read((h, v) => h.createReadStream({ end: v })),
      "createReadStream {start: 2, end}": read((h, v) => h.createReadStream({ start: 2, end: v })),
      "createReadStream {highWaterMark}": read((h, v) => h.createReadStream({ highWaterMark: v })),
      "createWriteStream {start}": write((h, v) => h.createWriteStream({ start: v }), twoWrites),
      "createWriteStream {highWaterMark}": write((h, v) => h.createWriteStream({ highWaterMark: v }), twoWrites),
    },
    same(numbers),
  ),
  ...crossed(
    {
      "createReadStream {autoClose}": read((h, v) => h.createReadStream({ autoClose: v })),
      "createReadStream {emitClose}": read((h, v) => h.createReadStream({ emitClose: v })),
      "createWriteStream {autoClose}": write((h, v) => h.createWriteStream({ autoClose: v }), twoWrites),
      "createWriteStream {emitClose}": write((h, v) => h.createWriteStream({ emitClose: v }), twoWrites),
      "createWriteStream {flush}": write((h, v) => h.createWriteStream({ flush: v }), twoWrites),
    },
    same(anything),
  ),
  ...crossed(
    {
      "createReadStream encoding": read((h, v) => h.createReadStream(v), "utf8.txt"),
      "createReadStream {encoding}": read((h, v) => h.createReadStream({ encoding: v }), "utf8.txt"),
      "createWriteStream encoding": write(
        (h, v) => h.createWriteStream(v),
        (s) => {
          s.end("6162");
        },
      ),
      "createWriteStream {encoding}": write(
        (h, v) => h.createWriteStream({ encoding: v }),
        (s) => {
          s.end("6162");
        },
      ),
    },
    same({ utf8: "utf8", hex: "hex", base64: "base64", bogus: "bogus", undefined: undefined, null: null, "a number": 5, "an object": {} }),
  ),

  createReadStream: read((h) => h.createReadStream()),
  "createReadStream of an empty file": read((h) => h.createReadStream(), "empty.txt"),
  "createReadStream of a large file": async (fs, dir) => {
    const h = await fs.open(`${dir}/large.bin`);
    let n = 0;
    for await (const piece of h.createReadStream()) n += piece.length;
    return [n, h.fd];
  },
  "createReadStream of a directory": read((h) => h.createReadStream(), "dir"),
  "createReadStream {start, end} of one byte": read((h) => h.createReadStream({ start: 4, end: 4 })),
  "createReadStream after a read": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    await h.read(Buffer.alloc(6));
    const out: string[] = [];
    for await (const piece of h.createReadStream({ encoding: "utf8" })) out.push(piece);
    return out.join("");
  },
  "createReadStream with a signal that has fired": read((h) => h.createReadStream({ signal: AbortSignal.abort() })),
  "createReadStream with a signal that fires": read((h) => {
    const c = new AbortController();
    const s = h.createReadStream({ signal: c.signal, highWaterMark: 1000 });
    s.once("data", () => {
      c.abort("enough");
    });
    return s;
  }, "large.bin"),
  "createReadStream, destroyed": read((h) => {
    const s = h.createReadStream();
    s.destroy();
    return s;
  }),
  "createReadStream, destroyed with an error": read((h) => {
    const s = h.createReadStream();
    s.destroy(new Error("mine"));
    return s;
  }),
  "createReadStream, closed with its handle": read((h) => {
    const s = h.createReadStream({ highWaterMark: 1000 });
    s.once("data", () => {
      void h.close();
    });
    return s;
  }, "large.bin"),
  "createReadStream twice": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const a = h.createReadStream({ autoClose: false, start: 0, end: 2, encoding: "utf8" });
    const out: string[] = [];
    for await (const piece of a) out.push(piece);
    const b = h.createReadStream({ start: 6, encoding: "utf8" });
    for await (const piece of b) out.push(piece);
    await h.close();
    return out;
  },
  "createReadStream, pipeline": async (fs, dir) => {
    const [from, to] = [await fs.open(`${dir}/large.bin`), await fs.open(`${dir}/new`, "w")];
    await pipeline(from.createReadStream(), to.createWriteStream());
    return [from.fd, to.fd];
  },
  "createReadStream class": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const s = h.createReadStream();
    const name = [s.constructor.name, s instanceof Readable];
    s.destroy();
    await h.close();
    return name;
  },
  createWriteStream: write((h) => h.createWriteStream(), twoWrites),
  "createWriteStream of a new file": write((h) => h.createWriteStream(), twoWrites, "new", "w"),
  "createWriteStream, appending": write((h) => h.createWriteStream(), twoWrites, "a.txt", "a"),
  "createWriteStream, corked": write(
    (h) => h.createWriteStream(),
    (s) => {
      s.cork();
      s.write("A");
      s.write(Buffer.from("B"));
      s.uncork();
      s.end();
    },
  ),
  "createWriteStream, nothing": write(
    (h) => h.createWriteStream(),
    (s) => {
      s.end();
    },
  ),
  "createWriteStream, destroyed": write(
    (h) => h.createWriteStream(),
    (s) => {
      s.destroy();
    },
  ),
  "createWriteStream, to a file opened to read": write((h) => h.createWriteStream(), twoWrites, "a.txt", "r"),
  "createWriteStream, wrong data": write(
    (h) => h.createWriteStream(),
    (s) => {
      try {
        s.write(5);
      } catch (error) {
        s.destroy(error);
      }
    },
  ),
  "createWriteStream, write after end": write(
    (h) => h.createWriteStream(),
    (s) => {
      s.end("x");
      s.write("y");
    },
  ),
  "createWriteStream with a signal that has fired": write(
    (h) => h.createWriteStream({ signal: AbortSignal.abort() }),
    () => undefined,
  ),

  readLines: (fs, dir) => lines(fs, `${dir}/lines.txt`),
  "readLines of an empty file": (fs, dir) => lines(fs, `${dir}/empty.txt`),
  "readLines of a file that ends with a line's end": (fs, dir) => lines(fs, `${dir}/a.txt`),
  "readLines {start, end}": (fs, dir) => lines(fs, `${dir}/lines.txt`, { start: 2, end: 7 }),
  "readLines {encoding}": (fs, dir) => lines(fs, `${dir}/utf8.txt`, { encoding: "utf8" }),
  "readLines {encoding: hex}": (fs, dir) => lines(fs, `${dir}/utf8.txt`, { encoding: "hex" }),
  "readLines {highWaterMark}": (fs, dir) => lines(fs, `${dir}/lines.txt`, { highWaterMark: 1 }),
  "readLines closes its handle": async (fs, dir) => {
    const h = await fs.open(`${dir}/lines.txt`);
    for await (const _ of h.readLines()) {
      /* to the end */
    }
    return h.fd;
  },
  "readLines, left early": async (fs, dir) => {
    const h = await fs.open(`${dir}/lines.txt`);
    let first: unknown;
    for await (const line of h.readLines()) {
      first = line;
      break;
    }
    await h.close();
    return [first, h.fd];
  },
  "readLines {autoClose: false}": async (fs, dir) => {
    const h = await fs.open(`${dir}/lines.txt`);
    for await (const _ of h.readLines({ autoClose: false })) {
      /* to the end */
    }
    const open = h.fd >= 0;
    await h.close();
    return open;
  },
  "readLines of many lines": async (fs, dir, disk) => {
    const { writeFile } = await import("node:fs/promises");
    await writeFile(`${disk}/many`, "line\n".repeat(20_000));
    let n = 0;
    const h = await fs.open(`${dir}/many`);
    for await (const line of h.readLines()) n += line.length;
    return n;
  },

  readableWebStream: (fs, dir) => web(fs, `${dir}/a.txt`),
  "readableWebStream of a large file": async (fs, dir) => {
    const h = await fs.open(`${dir}/large.bin`);
    let n = 0;
    for await (const piece of h.readableWebStream()) n += piece.byteLength;
    const left = h.fd;
    if (left >= 0) await h.close();
    return n;
  },
  "readableWebStream of an empty file": (fs, dir) => web(fs, `${dir}/empty.txt`),
  "readableWebStream {type: bytes}": (fs, dir) => web(fs, `${dir}/a.txt`, { type: "bytes" }),
  "readableWebStream twice": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    h.readableWebStream();
    try {
      return h.readableWebStream();
    } finally {
      await h.close();
    }
  },
  "readableWebStream of a closed handle": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    await h.close();
    return h.readableWebStream();
  },
  "readableWebStream of a closing handle": async (fs, dir) => {
    const h = await fs.open(`${dir}/a.txt`);
    const p = h.close();
    try {
      return h.readableWebStream();
    } finally {
      await p;
    }
  },
};

async function lines(fs: Fs, path: string, options?: object): Promise<string[]> {
  const handle = await fs.open(path);
  const out: string[] = [];
  for await (const line of handle.readLines(options)) out.push(line);
  return out;
}

async function web(fs: Fs, path: string, options?: object): Promise<unknown> {
  const handle = await fs.open(path);
  const stream = handle.readableWebStream(options);
  const reader = stream.getReader();
  const parts: Buffer[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value instanceof ArrayBuffer ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.byteLength));
  }
  reader.releaseLock();
  if (handle.fd >= 0) await handle.close();
  return [stream.constructor.name, stream.locked, Buffer.concat(parts).toString()];
}

/** Streams of a handle. */
export const streams = marked(all, [
  /^createWriteStream \{autoClose\} with false$/,
  "Node 20 never closes a handle whose stream does not close it",
  { resolved: { events: ["finish"] } },
  "fatal",
]);
