import { execFile } from "node:child_process";
import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execPath } from "node:process";
import { fileURLToPath } from "node:url";
import { inspect, promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Client, connect, type CtxFs } from "../src/index.js";
import { wsDialer } from "../src/links/ws.js";
import { startTestServer, type TestServer } from "./serve.js";

/* What ctxfs shares with the Node that runs and the table of behaviours cannot show: warnings, very large files, signals in a Proxy. */

const run = promisify(execFile);
let server: TestServer;
let fs: CtxFs;
let panel: { token: string; contextId: string };
beforeAll(async () => {
  server = await startTestServer();
  panel = await server.openPanel("node");
  fs = await connect({ socket: server.socket, token: panel.token });
});
afterAll(async () => {
  await fs.disconnect();
  await server.stop();
});

/** Runs the calls that Node warns of on one fs, in a process of its own, and prints the warnings. */
const program = (open: string, dir: string): string => `
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc");
const told = [];
process.on("warning", ({ name, code, message }) => { told.push([name, code, message.replace(/descriptor \\d+/, "descriptor N")].join(" ")); });
process.on("uncaughtException", () => {});
const turn = () => new Promise((resolve) => setTimeout(resolve, 10)); // clock: warnings come in a later turn of the loop
const { promises, callbacks } = ${open};
const dir = ${JSON.stringify(dir)};
const attempt = async (call) => { await call().catch(() => {}); };
await promises.mkdir(dir + "/full");
await attempt(() => promises.rmdir(dir + "/full", { recursive: true }));
await attempt(() => promises.rmdir(dir + "/full", { recursive: true }));
await promises.mkdtemp(dir + "/tmpX");
await promises.writeFile(dir + "/f", "");
const fd = await new Promise((resolve) => { callbacks.open(dir + "/f", "r+", (_, fd) => resolve(fd)); });
await attempt(async () => { await new Promise((resolve) => { callbacks.truncate(fd, 0, resolve); }); });
await new Promise((resolve) => { callbacks.close(fd, resolve); });
await turn();
await (async () => { await promises.open(dir + "/f"); })();
for (let i = 0; i < 100 && !told.some((text) => text.includes("garbage")) && ${parseInt(process.versions.node) < 25}; i++) { await turn(); gc(); }
await turn();
console.log(told.join("\\n"));
process.exit(0);
`;

test("warnings are those of the Node that runs", async () => {
  const dir = await mkdtemp(join(tmpdir(), "ctxfs-warnings-"));
  await writeFile(join(dir, "node.mjs"), program('await import("node:fs").then((fs) => ({ promises: fs.promises, callbacks: fs.default }))', dir));
  const entry = fileURLToPath(new URL("../dist/esm/index.js", import.meta.url));
  const open = `await import(${JSON.stringify(entry)}).then(({ createFs }) => { const fs = createFs(${JSON.stringify({ socket: server.socket, token: panel.token })}); return { promises: fs, callbacks: fs.callbacks }; })`;
  await fs.mkdir("/warnings");
  await writeFile(join(dir, "ctxfs.mjs"), program(open, "/warnings"));
  const [node, ours] = await Promise.all(["node.mjs", "ctxfs.mjs"].map((name) => run(execPath, [join(dir, name)])));
  expect(ours?.stdout.split("\n").sort()).toEqual(node?.stdout.split("\n").sort());
  expect(ours?.stdout).toContain("mkdtemp() templates ending with X");
  await rm(dir, { recursive: true });
});

test("a handle that the program lost is closed on the server", async () => {
  const { setFlagsFromString } = await import("node:v8");
  const { runInNewContext } = await import("node:vm");
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  const client = new Client({ dialer: wsDialer({ socket: server.socket, secure: false }), token: panel.token });
  const open = async (): Promise<number> => (await client.call("listHandles", {})).handles.length;
  const before = await open();
  await (async () => { await fs.open("/lost", "w"); })();
  expect(await open()).toBe(before + 1);
  await expect.poll(async () => { gc(); return open(); }).toBe(before);
  await client.close();
});

test("a file of 2 GiB is too large for readFile, and not for a stream", async () => {
  await fs.writeFile("/huge", "");
  await truncate(join(server.folder(panel.contextId), "huge"), 2 ** 31);
  const tooLarge = { name: "RangeError", code: "ERR_FS_FILE_TOO_LARGE", message: "File size (2147483648) is greater than 2 GiB" };
  await expect(fs.readFile("/huge")).rejects.toMatchObject(tooLarge);
  await using handle = await fs.open("/huge");
  await expect(handle.readFile()).rejects.toMatchObject(tooLarge);
  await using overGrpc = await connect({ socket: server.socket, token: panel.token, transport: "grpc" });
  await expect(overGrpc.readFile("/huge")).rejects.toMatchObject(tooLarge);
  expect((await handle.read(Buffer.alloc(4), 0, 4, 2 ** 31 - 2)).bytesRead).toBe(2);
});

/** Proxies that programs put around signals: a plain one, and one that calls methods on the signal itself. */
const proxies: Record<string, (signal: AbortSignal) => AbortSignal> = {
  "a plain Proxy": (signal) => new Proxy(signal, {}),
  "a Proxy that binds methods": (signal) => new Proxy(signal, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  }),
};

test.each(Object.entries(proxies))("a signal in %s aborts", async (_, wrap) => {
  const stop = new AbortController();
  const signal = wrap(stop.signal);
  expect(await fs.readFile("/repo/hello.txt", { signal, encoding: "utf8" })).toBe("hello\n");
  const watch = expect(fs.watch("/repo", { signal })[Symbol.asyncIterator]().next()).rejects.toMatchObject({ name: "AbortError" });
  const rest = (async function* () {
    yield "a";
    await fs.stat("/");
    stop.abort();
    yield "b";
  })();
  await expect(fs.writeFile("/pieces", rest, { signal })).rejects.toMatchObject({ name: "AbortError", code: "ABORT_ERR" });
  await watch;
  await expect(fs.readFile("/repo/hello.txt", { signal })).rejects.toMatchObject({ name: "AbortError" });
});

test("results are printed under Node's names", async () => {
  const stat = await fs.stat("/");
  expect(inspect(stat)).toMatch(/^Stats \{/);
  expect(inspect(await fs.stat("/", { bigint: true }))).toMatch(/^BigIntStats \{/);
  expect(inspect((await fs.readdir("/repo", { withFileTypes: true }))[0])).toMatch(/^Dirent \{/);
});

test("mkdtempDisposable removes its directory", async () => {
  const { mkdtempDisposable } = fs as unknown as { mkdtempDisposable: (prefix: string) => Promise<AsyncDisposable & { path: string; remove: () => Promise<void> }> };
  let path: string;
  {
    await using made = await mkdtempDisposable("/made-");
    ({ path } = made);
    await fs.writeFile(`${path}/f`, "x");
  }
  await expect(fs.stat(path)).rejects.toMatchObject({ code: "ENOENT" });
  const again = await mkdtempDisposable("made-");
  expect(again.path).toMatch(/^made-.{6}$/);
  await again.remove();
  expect(await fs.readdir("/")).not.toContain(again.path);
});

test("stat with throwIfNoEntry: false gives undefined, from Node 24 on", async () => {
  const absent = fs.stat("/nope", { throwIfNoEntry: false } as object);
  if (parseInt(process.versions.node) >= 24) expect(await absent).toBeUndefined();
  else await expect(absent).rejects.toMatchObject({ code: "ENOENT" });
});
