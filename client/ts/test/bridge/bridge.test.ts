import * as nodefs from "node:fs/promises";
import { join } from "node:path";
import { once } from "node:events";
import { MessageChannel } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createBridge, createPortFs } from "../../src/bridge/index.js";
import type { CtxFs } from "../../src/create.js";
import { startWorld, type World } from "./fixture.js";

let world: World;
beforeAll(async () => { world = await startWorld(); });
afterAll(() => world.stop());

/** Watches the root while something is done again and again. */
async function* watchWhile(fs: CtxFs, act: () => Promise<void>): AsyncGenerator<{ filename: string | null }> {
  const stop = new AbortController();
  const acting = (async () => { while (!stop.signal.aborted) await act(); })();
  try {
    yield* fs.watch("/", { signal: AbortSignal.timeout(180_000) });
  } finally {
    stop.abort();
    await acting;
  }
}

test("many panels work at once over one connection, each in its own folder", async () => {
  const before = world.proxy.connections;
  const panels = await Promise.all(Array.from({ length: 12 }, (_, i) => world.panel(`many/${i}`)));
  await Promise.all(panels.map(async ({ fs, contextId }) => {
    await Promise.all(Array.from({ length: 30 }, (_, n) => fs.writeFile(`/f${n}`, `${contextId} ${n}`)));
  }));
  for (const { fs, contextId } of panels) {
    expect(await fs.readFile("/f29", "utf8")).toBe(`${contextId} 29`);
    expect(await nodefs.readFile(join(world.server.folder(contextId), "f7"), "utf8")).toBe(`${contextId} 7`);
  }
  expect(world.proxy.connections - before).toBe(1);
});

test("by WebSockets each panel has a connection", async () => {
  const contextId = await world.open("sockets");
  const bridge = createBridge({ openPanel: (id) => world.host.openPanel(id), address: { socket: world.proxy.socket } }, { transport: "ws" });
  const before = world.proxy.connections;
  for (const id of ["sockets", "sockets"]) {
    await bridge.open(id);
    const { port1, port2 } = new MessageChannel();
    bridge.serve(port1, contextId);
    expect(await createPortFs(port2).readFile("/repo/hello.txt", "utf8")).toBe("hello\n");
  }
  expect(world.proxy.connections - before).toBe(2);
  await bridge.close();
});

test("the panel knows its context, and gets no token", async () => {
  const { fs, contextId } = await world.panel("info");
  expect(await fs.info()).toEqual({ contextId, partition: `persist:${contextId}`, readOnly: false });
});

test("content of many megabytes goes both ways", async () => {
  const { fs, contextId } = await world.panel("large");
  const bytes = Buffer.alloc(33 << 20, "0123456789abcdef!");
  await fs.writeFile("/large", bytes);
  expect(bytes.equals(await nodefs.readFile(join(world.server.folder(contextId), "large")))).toBe(true);
  expect(bytes.equals(await fs.readFile("/large"))).toBe(true);
});

test("what a caller gives to write is still its own afterwards", async () => {
  const { fs } = await world.panel("own");
  const bytes = new Uint8Array(300_000).fill(7);
  await fs.writeFile("/own", bytes);
  expect(bytes.byteLength).toBe(300_000);
  expect(bytes[299_999]).toBe(7);
});

test("a watch and other answers in parts come through", async () => {
  const { fs } = await world.panel("parts");
  for await (const { filename } of watchWhile(fs, () => fs.writeFile("/new.txt", "x"))) if (filename === "new.txt") break;
  const found: unknown[] = [];
  for await (const path of fs.glob("**/*.txt")) found.push(path);
  expect(found.sort()).toEqual(["new.txt", "repo/hello.txt"]);
});

test("handles close at once when the panel's end of the port closes", async () => {
  const { fs, port } = await world.panel("gone");
  await fs.open("/repo/hello.txt");
  await fs.open("/half", "w");
  expect(await world.handles("gone")).toHaveLength(2);
  port.close();
  await expect.poll(() => world.handles("gone")).toEqual([]);
});

test("handles close at once when the host ends a panel, and its calls reject", async () => {
  const contextId = await world.open("ended");
  const { port1, port2 } = new MessageChannel();
  const end = world.bridge.serve(port1, contextId);
  const fs = createPortFs(port2);
  const handle = await fs.open("/repo/hello.txt");
  end();
  await once(port2, "close");
  await expect(handle.stat()).rejects.toMatchObject({ code: "ECONNREFUSED" });
  await expect.poll(() => world.handles("ended")).toEqual([]);
});

test("handles of the panel's other ports stay", async () => {
  const one = await world.panel("two-windows");
  const two = await world.panel("two-windows");
  const handle = await two.fs.open("/repo/hello.txt");
  await one.fs.open("/repo/hello.txt");
  one.port.close();
  await expect.poll(() => world.handles("two-windows")).toHaveLength(1);
  expect((await handle.readFile("utf8"))).toBe("hello\n");
});

test("a lost connection to the server costs no handle", async () => {
  const { fs } = await world.panel("lost");
  const handle = await fs.open("/repo/hello.txt");
  world.proxy.cut();
  await expect.poll(() => handle.stat().then(({ size }) => size, () => 0)).toBe(6);
  expect(await fs.readFile("/repo/hello.txt", "utf8")).toBe("hello\n");
});

test("a session outlives its first token", async () => {
  // A busy machine may be too slow to renew a token in time: the next one lives twice as long.
  for (let ttlMs = 1500; ; ttlMs *= 2) {
    const contextId = await world.open("renewed", { ttlMs });
    const { port1, port2 } = new MessageChannel();
    world.bridge.serve(port1, contextId);
    const fs = createPortFs(port2);
    const expired = AbortSignal.timeout(2 * ttlMs); // the first token's life is over by then, however long that takes
    try {
      // A watch ends with its session, and is not begun again.
      for await (const { filename } of watchWhile(fs, () => fs.writeFile("/tick", "x"))) {
        expect(filename).not.toBeUndefined();
        if (expired.aborted) return;
      }
      throw new Error("the watch ended");
    } catch (error) {
      if (ttlMs > 20_000) throw error;
    } finally {
      port2.close();
    }
  }
});

test("a panel that disconnects takes its handles with it, and is no misuse", async () => {
  const { fs } = await world.panel("bye");
  await fs.open("/repo/hello.txt");
  await fs.disconnect();
  await expect.poll(() => world.handles("bye")).toEqual([]);
  expect(world.errors).toEqual([]);
});

test("a port is served for opened panels alone", () => {
  const { port1 } = new MessageChannel();
  expect(() => world.bridge.serve(port1, "ctx_nobody")).toThrow("ctx_nobody was not opened by this bridge: await bridge.open(panelId) first");
  port1.close();
});

test("where panels share a context, the caller says which one is meant", async () => {
  const contextId = await world.open("sharing/a");
  await world.open("sharing/b", { contextId, readOnly: true });
  const { port1, port2 } = new MessageChannel();
  expect(() => world.bridge.serve(port1, contextId)).toThrow("the panels sharing/a, sharing/b share ctx_sharing~a: name one by panelId");
  world.bridge.serve(port1, contextId, "sharing/b");
  expect(await createPortFs(port2).info()).toMatchObject({ contextId, readOnly: true });
});
