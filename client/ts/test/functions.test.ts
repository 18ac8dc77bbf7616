import * as nodefs from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, type CtxFs, type GlobOptions } from "../src/index.js";
import { startTestServer, type TestServer } from "./serve.js";

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const item of items) out.push(item);
  return out;
}

let server: TestServer;
let fs: CtxFs;
let real: (name: string) => string;

beforeAll(async () => {
  server = await startTestServer();
  const panel = await server.openPanel("functions");
  fs = await connect({ url: server.url, token: panel.token });
  real = (name) => join(server.folder(panel.contextId), name);
});
afterAll(async () => {
  await fs.disconnect();
  await server.stop();
});

test("every function of Node's fs/promises is there", () => {
  const missing = Object.keys(nodefs).filter((name) => name !== "default" && typeof fs[name as keyof CtxFs] !== typeof nodefs[name as keyof typeof nodefs]);
  expect(missing).toEqual([]);
  expect(typeof fs.glob).toBe("function");
  expect(fs.promises).toBe(fs);
  expect(fs.constants).toMatchObject(nodefs.constants);
});

describe("names", () => {
  test("are made, moved, linked, resolved and removed", async () => {
    expect(await fs.mkdir("/n/a/b", { recursive: true })).toBe("/n");
    expect(await fs.mkdir("/n/a/b", { recursive: true })).toBeUndefined();
    await fs.writeFile("/n/f", "1");
    await fs.rename("/n/f", "/n/a/g");
    await fs.link("/n/a/g", "/n/h");
    await fs.symlink("a/g", "/n/s");
    expect(await fs.readlink("/n/s")).toBe("a/g");
    expect(await fs.readlink("/n/s", "buffer")).toEqual(Buffer.from("a/g"));
    expect(await fs.realpath("/n/s")).toBe("/n/a/g");
    expect((await fs.lstat("/n/s")).isSymbolicLink()).toBe(true);
    expect((await fs.stat("/n/h")).nlink).toBe(2);
    await fs.unlink("/n/s");
    await expect(fs.rmdir("/n/a")).rejects.toMatchObject({ code: "ENOTEMPTY", syscall: "rmdir", path: "/n/a" });
    await expect(fs.rm("/n")).rejects.toMatchObject({ name: "SystemError", code: "ERR_FS_EISDIR", path: "/n" });
    await fs.rm("/n", { recursive: true });
    await expect(fs.access("/n")).rejects.toMatchObject({ message: "ENOENT: no such file or directory, access '/n'" });
    await fs.rm("/n", { force: true });
    const made = await fs.mkdtemp("/tmp-");
    expect(made).toMatch(/^\/tmp-.{6}$/);
    await fs.rmdir(made);
  });

  test("that are not UTF-8 survive", async () => {
    const name = Buffer.from([0x2f, 0x72, 0xff, 0x61]);
    await fs.writeFile(name, "raw");
    expect(await fs.readFile(name, "utf8")).toBe("raw");
    expect(await fs.readdir("/", "buffer")).toContainEqual(name.subarray(1));
    await fs.unlink(name);
    expect(await fs.readdir("/", { encoding: "buffer" })).not.toContainEqual(name.subarray(1));
  });

  test("may be file URLs", async () => {
    await fs.writeFile(new URL("file:///with%20space"), "u");
    expect(await fs.readFile("/with space", "utf8")).toBe("u");
    await expect(fs.readFile(new URL("http://x/y"))).rejects.toMatchObject({ code: "ERR_INVALID_URL_SCHEME" });
  });
});

describe("attributes", () => {
  test("are set and told", async () => {
    await fs.writeFile("/attr", "x", { mode: 0o600 });
    expect((await fs.stat("/attr")).mode & 0o777).toBe(0o600);
    await fs.chmod("/attr", "644");
    await fs.utimes("/attr", 1.5, new Date(2500));
    await fs.lutimes("/attr", 1.5, new Date(2500));
    const { uid, gid } = await fs.stat("/attr");
    await fs.chown("/attr", uid, gid);
    await fs.lchown("/attr", uid, gid);
    const stats = await fs.stat("/attr", { bigint: true });
    expect([stats.mode & 0o777n, stats.atimeNs, stats.mtimeMs, stats.mtime]).toEqual([0o644n, 1_500_000_000n, 2500n, new Date(2500)]);
    await fs.truncate("/attr", 10);
    expect((await nodefs.stat(real("attr"))).size).toBe(10);
    const [ours, theirs] = await Promise.all([fs.statfs("/"), nodefs.statfs(real("."))]);
    expect([ours.type, ours.bsize, ours.blocks]).toEqual([theirs.type, theirs.bsize, theirs.blocks]);
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- it is a function of fs/promises still
    await expect(fs.lchmod("/attr", 0o600)).rejects.toMatchObject({ code: "ERR_METHOD_NOT_IMPLEMENTED" });
  });
});

describe("trees", () => {
  beforeAll(async () => {
    await fs.mkdir("/t/sub/deep", { recursive: true });
    await Promise.all(["a.js", "b.txt", "sub/c.js", "sub/deep/d.js"].map((name) => fs.writeFile(`/t/${name}`, name)));
  });

  test("are listed", async () => {
    const names = ["a.js", "b.txt", "sub", "sub/c.js", "sub/deep", "sub/deep/d.js"]; // in the order of their names, as in Node
    expect(await fs.readdir("/t", { recursive: true })).toEqual(names);
    const entries = await fs.readdir("/t", { recursive: true, withFileTypes: true });
    expect(entries.map((e) => `${e.parentPath}/${e.name}`)).toEqual(names.map((name) => `/t/${name}`));
    const dir = await fs.opendir("/t");
    const read: string[] = [];
    for await (const entry of dir) read.push(entry.name);
    expect(read.sort()).toEqual(["a.js", "b.txt", "sub"]);
    await expect((async () => dir.read())()).rejects.toThrow("Directory handle was closed"); // Node 20 throws at once
    await expect(fs.opendir("/none")).rejects.toMatchObject({ code: "ENOENT", syscall: "opendir" });
  });

  test("are copied", async () => {
    await fs.cp("/t", "/t2", { recursive: true });
    expect(await nodefs.readFile(real("t2/sub/deep/d.js"), "utf8")).toBe("sub/deep/d.js");
    await expect(fs.cp("/t", "/t3")).rejects.toMatchObject({ code: "ERR_FS_EISDIR" });
    await expect(fs.cp("/t", "/t/sub/x", { recursive: true })).rejects.toMatchObject({ code: "ERR_FS_CP_EINVAL" });
    await expect(fs.cp("/t/a.js", "/t/b.txt", { force: false, errorOnExist: true })).rejects.toMatchObject({ code: "ERR_FS_CP_EEXIST" });
    await fs.copyFile("/t/a.js", "/copy");
    await expect(fs.copyFile("/t/a.js", "/copy", fs.constants.COPYFILE_EXCL)).rejects.toMatchObject({ code: "EEXIST", path: "/t/a.js", dest: "/copy" });
  });

  test("are copied as far as a filter lets them", async () => {
    const asked: string[] = [];
    await fs.cp("/t", "/new/t4", { recursive: true, filter: (src) => { asked.push(src); return Promise.resolve(!src.endsWith("deep")); } });
    expect((await fs.readdir("/new/t4", { recursive: true })).sort()).toEqual(["a.js", "b.txt", "sub", "sub/c.js"]);
    expect(asked.sort()).toEqual(["/t", "/t/a.js", "/t/b.txt", "/t/sub", "/t/sub/c.js", "/t/sub/deep"]);
  });

  test("are searched by patterns", async () => {
    const found = async (pattern: string, options?: GlobOptions): Promise<string[]> => (await all(fs.glob(pattern, options))).sort();
    expect(await found("**/*.js", { cwd: "/t" })).toEqual(["a.js", "sub/c.js", "sub/deep/d.js"]);
    expect(await found("/t/*.txt")).toEqual(["/t/b.txt"]);
    expect(await found("**/*.js", { cwd: "/t", exclude: (path: string) => path === "sub/deep" })).toEqual(["a.js", "sub/c.js"]);
  });
});

test("a watch tells changes until its signal fires", async () => {
  const stop = new AbortController();
  await fs.mkdir("/w");
  const events = fs.watch("/w", { signal: stop.signal });
  const told = (async () => {
    for await (const { filename } of events) if (filename === "f") return true;
    return false;
  })();
  // The watch begins with the loop; what is written before it is in place is not told, so write until something is.
  const state = { over: false };
  void told.finally(() => { state.over = true; });
  for (let i = 0; !state.over; i++) await fs.writeFile("/w/f", String(i));
  expect(await told).toBe(true);
  const next = all(fs.watch("/w", { signal: stop.signal }));
  stop.abort();
  await expect(next).rejects.toMatchObject({ name: "AbortError", code: "ABORT_ERR" });
});

describe("content", () => {
  test("comes as text in every encoding, as bytes, pieces and streams", async () => {
    for (const encoding of ["utf8", "latin1", "hex", "base64", "base64url", "utf16le", "ascii"] as const) {
      const given = Buffer.from("hello+/~").toString(encoding);
      await fs.writeFile("/e", given, encoding);
      expect(await fs.readFile("/e", encoding)).toBe(Buffer.from(given, encoding).toString(encoding));
    }
    await fs.writeFile("/e", new Float64Array([1, 2]));
    expect((await fs.readFile("/e")).length).toBe(16);
    await fs.writeFile("/e", ["a", "b"]);
    await fs.appendFile("/e", Readable.from(["c", "d"]) as never);
    expect(await fs.readFile("/e", "utf8")).toBe("abcd");
    await expect(fs.readFile("/e", { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "ABORT_ERR" });
    await expect(fs.writeFile("/e", 5 as unknown as string)).rejects.toMatchObject({
      code: "ERR_INVALID_ARG_TYPE",
      message: 'The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received type number (5)',
    });
  });

  test("is appended in large amounts", async () => {
    const bytes = Buffer.alloc(1 << 20, "ab");
    await fs.appendFile("/app", bytes);
    await fs.appendFile("/app", bytes);
    expect((await fs.readFile("/app")).equals(Buffer.concat([bytes, bytes]))).toBe(true);
  });
});

describe("a handle", () => {
  test("does what Node's does", async () => {
    await using handle = await fs.open("/handle", "w+");
    await handle.writeFile("one\ntwo\n");
    await handle.appendFile("three\n");
    expect(await handle.readFile("utf8")).toBe("");
    expect((await handle.stat()).size).toBe(14);
    expect((await handle.writev([Buffer.from("ONE"), Buffer.from("\n")], 0)).bytesWritten).toBe(4);
    const [a, b] = [Buffer.alloc(3), Buffer.alloc(4)];
    expect((await handle.readv([a, b], 0)).bytesRead).toBe(7);
    expect([a.toString(), b.toString()]).toEqual(["ONE", "\ntwo"]);
    await handle.truncate(7);
    await handle.chmod(0o600);
    await handle.utimes(1, 2);
    await handle.sync();
    await handle.datasync();
    const stats = await handle.stat();
    expect([stats.size, stats.mode & 0o777, stats.mtimeMs]).toEqual([7, 0o600, 2000]);
    await handle.chown(stats.uid, stats.gid);
    const events: string[] = [];
    handle.on("close", () => { events.push("close"); });
    await handle.close();
    expect(events).toEqual(["close"]);
  });

  test("gives lines and streams", async () => {
    await fs.writeFile("/lines", "one\ntwo\r\nthree");
    const lines = await fs.open("/lines");
    expect(await all(lines.readLines())).toEqual(["one", "two", "three"]);
    const web = await fs.open("/lines");
    expect(await text(web.readableWebStream({ autoClose: true } as object) as never)).toBe("one\ntwo\r\nthree");
    await expect.poll(() => web.fd).toBe(-1);
    const out = await fs.open("/out", "w");
    await pipeline(Readable.from(["x", "y"]), out.createWriteStream());
    const back = await fs.open("/out");
    expect(await text(back.createReadStream({ start: 1 }))).toBe("y");
  });
});

describe("the fs with callbacks", () => {
  test("calls back", async () => {
    const { callbacks } = fs;
    await new Promise<void>((resolve, reject) => { callbacks.writeFile("/cb", "hi", (error) => { if (error) reject(error); else resolve(); }); });
    const content = await new Promise((resolve, reject) => { callbacks.readFile("/cb", "utf8", (error, data) => { if (error) reject(error); else resolve(data); }); });
    expect(content).toBe("hi");
    const error = await new Promise((resolve) => { callbacks.stat("/none", resolve); });
    expect(error).toMatchObject({ code: "ENOENT", syscall: "stat" });
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- libraries call it still
    expect(await new Promise((resolve) => { callbacks.exists("/cb", resolve); })).toBe(true);
    const withoutCallback = callbacks.stat as unknown as (path: string) => void;
    expect(() => { withoutCallback("/cb"); }).toThrow('The "cb" argument must be of type function. Received undefined');
  });

  test("opens files as numbers", async () => {
    const { callbacks } = fs;
    const fd = await new Promise<number>((resolve, reject) => { callbacks.open("/cb2", "w+", (error, opened) => { if (error) reject(error); else resolve(opened); }); });
    const wrote = await new Promise((resolve) => { callbacks.write(fd, "text", (_, n, given) => { resolve([n, given]); }); });
    expect(wrote).toEqual([4, "text"]);
    const read = await new Promise((resolve) => { callbacks.read(fd, Buffer.alloc(4), 0, 4, 0, (_, n, buffer) => { resolve([n, buffer.toString()]); }); });
    expect(read).toEqual([4, "text"]);
    expect(await new Promise((resolve) => { callbacks.close(fd, resolve); })).toBeNull();
    expect(await new Promise((resolve) => { callbacks.fstat(fd, resolve); })).toMatchObject({ code: "EBADF", syscall: "fstat" });
  });

  test("gives streams of paths", async () => {
    const bytes = Buffer.alloc(300_000, "stream!");
    await pipeline(Readable.from([bytes]), fs.callbacks.createWriteStream("/stream"));
    expect(await text(fs.callbacks.createReadStream("/stream", { start: 7, end: 13 }))).toBe("stream!");
    expect((await fs.readFile("/stream")).equals(bytes)).toBe(true);
    await expect(text(fs.callbacks.createReadStream("/none"))).rejects.toMatchObject({ code: "ENOENT", syscall: "open" });
  });
});
