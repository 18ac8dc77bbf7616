import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, afterEach, describe, expect, test } from "vitest";
import { ConnectionError, connect, createFs, type CtxFs } from "../src/index.js";
import { startProxy, type Proxy } from "./proxy.js";
import { startTestServer, type TestServer } from "./serve.js";

let server: TestServer;
let token: string;
beforeAll(async () => {
  server = await startTestServer("--idle-timeout", "3s");
  ({ token } = await server.openPanel("sessions"));
});
afterAll(() => server.stop());

describe.each(["ws", "grpc"] as const)("over %s", (transport) => {
  let proxy: Proxy;
  let fs: CtxFs;
  beforeEach(async () => {
    proxy = await startProxy(server.socket);
    fs = await connect({ address: proxy.address, token, transport, pingEvery: 200 });
  });
  afterEach(async () => {
    await fs.disconnect();
    await proxy.close();
  });

  test("a handle outlives a lost connection", async () => {
    const handle = await fs.open("/kept", "w+");
    await handle.write("before");
    proxy.cut();
    expect((await handle.stat()).size).toBe(6);
    await handle.write(" after");
    await handle.close();
    expect(await fs.readFile("/kept", "utf8")).toBe("before after");
    expect(proxy.connections).toBeGreaterThan(1);
  });

  test("a handle that the program holds does not idle out, also when the connection is lost and nothing is called", async () => {
    const handle = await fs.open("/idle", "w+");
    proxy.cut();
    const over = AbortSignal.timeout(7000); // clock: more than twice the server's idle timeout
    while (!over.aborted) await server.ctxfs("health");
    expect((await handle.stat()).size).toBe(0);
    await handle.close();
  });

  test("a change without an answer may have happened, and says so", async () => {
    proxy.mute();
    const written = fs.writeFile("/maybe", "x");
    const failed = expect(written).rejects.toMatchObject({ code: "ECONNRESET", mayHaveHappened: true });
    await until(() => server.ctxfs("--panel", "sessions", "cat", "/maybe").then((text) => text === "x", () => false));
    proxy.cut();
    await failed;
    await expect(written).rejects.toBeInstanceOf(ConnectionError);
  });

  test("what changes nothing is asked again by itself", async () => {
    await fs.writeFile("/again", "x");
    proxy.mute();
    const read = fs.readFile("/again", "utf8");
    const many = Promise.all(Array.from({ length: 300 }, () => fs.stat("/again")));
    await fs.info();
    proxy.cut();
    expect(await read).toBe("x");
    expect(await many).toHaveLength(300);
  });

  test("a signal ends what waits, and the session goes on", async () => {
    proxy.mute();
    const stop = new AbortController();
    const read = fs.readFile("/again", { signal: stop.signal });
    stop.abort();
    await expect(read).rejects.toMatchObject({ name: "AbortError", code: "ABORT_ERR" });
    proxy.cut();
    expect((await fs.stat("/")).isDirectory()).toBe(true);
  });
});

test("a large file is read on a connection of its own, and by the session when there is none", async () => {
  const bytes = Buffer.alloc(5 << 20, "large?");
  const proxy = await startProxy(server.socket);
  const fs = await connect({ address: proxy.address, token });
  await fs.writeFile("/large file?&", bytes);
  expect((await fs.readFile("/large file?&")).equals(bytes)).toBe(true);
  expect(proxy.connections).toBe(2);
  expect((await fs.readFile("/large file?&", { flag: "r+" })).equals(bytes)).toBe(true);
  expect(proxy.connections).toBe(2);
  await fs.disconnect();
  await proxy.close();
});

test("a server that is not there is told, and nothing happened", async () => {
  const gone = createFs({ socket: "/nowhere/ctxfs.sock", token });
  await expect(gone.stat("/")).rejects.toMatchObject({ code: "ECONNREFUSED", mayHaveHappened: false });
  await expect(connect({ address: "127.0.0.1:1", transport: "grpc", token })).rejects.toMatchObject({ code: "ECONNREFUSED" });
});

test.each(["ws", "grpc"] as const)("a token that is refused over %s is told", async (transport) => {
  await expect(connect({ socket: server.socket, transport, token: "wrong" })).rejects.toMatchObject({ code: "EACCES", mayHaveHappened: false });
});

test("an fs that was disconnected says so", async () => {
  const fs = await connect({ socket: server.socket, token });
  await fs.disconnect();
  await expect(fs.stat("/")).rejects.toThrow("this fs was closed");
});

test("a connection that nobody waits for does not keep a process alive", async () => {
  const index = fileURLToPath(new URL("../dist/esm/index.js", import.meta.url));
  const script = `import { connect } from ${JSON.stringify(index)};
    const fs = await connect(${JSON.stringify({ socket: server.socket, token })});
    const handle = await fs.open("/alive", "w");
    console.log((await fs.stat("/")).isDirectory());`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], { timeout: 120_000 });
  expect(stdout).toBe("true\n");
});

/** Asks until the answer is yes. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!await holds()) { /* each question takes its time */ }
}
