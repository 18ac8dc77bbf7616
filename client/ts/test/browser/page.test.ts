import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import * as nodefs from "node:fs/promises";
import { join } from "node:path";
import type { ViteDevServer } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bundle, bundleByVite, serveByVite } from "./bundles.js";
import { setStage, type Stage } from "./stage.js";


let stage: Stage;
let dev: ViteDevServer | undefined;
beforeAll(async () => { stage = await setStage(); });
afterAll(async () => {
  await dev?.close();
  await stage.stop();
});

test("a page reaches the server by WebSocket", async () => {
  const script = await bundle(stage.installed.dir, "websocket.ts");
  const saw = await stage.run(script, { url: stage.server.url, panel: "pages~ws" });
  expect(saw).toEqual({
    text: "äöü", many: true, large: true,
    content: { fetched: 1, put: [204, String(24 << 20)], range: [39, 52, 65], none: "ENOENT", credentials: "refused" },
    lines: ["one", "two", "three"], seen: "seen.txt", entries: [["hello.txt", true]],
    missing: { code: "ENOENT", message: "ENOENT: no such file or directory, stat '/none'", path: "/none" },
    wrong: { code: "ERR_INVALID_ARG_VALUE", message: expect.stringContaining("no-such-encoding") as string },
    refused: { code: "EACCES", message: expect.stringContaining("ctxfs refused the token") as string },
    unreachable: { code: "ECONNREFUSED", message: expect.stringContaining("--origin") as string },
    info: { contextId: "ctx_pages~ws", partition: "persist:ctx_pages~ws", readOnly: false },
    review: {
      submitted: 305, state: "submitted", changes: [["/a.txt", "added"]], version: "äöü",
      refused: { code: "EACCES", message: expect.stringContaining("EACCES") as string },
    },
  });
  expect(await nodefs.readFile(join(stage.server.folder("ctx_pages~ws"), "a.txt"), "utf8")).toBe("äöü");
});

test("a page runs commands in the context of its panel", async (context) => {
  const script = await bundle(stage.installed.dir, "exec.ts");
  const { token } = await stage.host.openPanel("pages~exec", { exec: true });
  const saw = await stage.run(script, { url: stage.server.url, token }) as { unavailable?: string };
  if (saw.unavailable !== undefined) return context.skip(saw.unavailable);
  expect(saw).toEqual({ out: "hello\n", err: "typed\n", exit: 3, sizes: ["20 90", "50 100"], killed: "killed", processes: ["killed", "exited", "exited"], refused: "ENOENT" });
});

test("a page of another origin is not let in, and is told why", async () => {
  const script = await bundle(stage.installed.dir, "stranger.ts");
  const { token } = await stage.host.openPanel("pages~stranger");
  const elsewhere = createServer((request, response) => {
    fetch(`${stage.origin}${request.url ?? ""}`).then(async (page) => {
      response.writeHead(200, { "content-type": page.headers.get("content-type") ?? "" }).end(Buffer.from(await page.arrayBuffer()));
    }, (error: unknown) => { response.writeHead(500).end(String(error)); });
  }).listen(0, "127.0.0.1");
  await once(elsewhere, "listening");
  const page = await stage.open(script, { url: stage.server.url, token }, `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`);
  const saw = await page.evaluate(() => (globalThis as unknown as { reported: Promise<{ error: string; content: string[] }> }).reported);
  expect(saw.error).toMatch(/^ECONNREFUSED: no ctxfs server was reached \(.* refuses pages of this origin \(ctxfs serve --origin lets them\)\); nothing happened$/);
  expect(saw.content).toEqual(["TypeError: Failed to fetch", "TypeError: Failed to fetch"]);
  expect(await nodefs.readdir(stage.server.folder("ctx_pages~stranger")).catch(() => [])).not.toContain("put");
  await page.close();
  elsewhere.closeAllConnections();
  elsewhere.close();
});

const bundlers: Record<string, (dir: string, name: string) => Promise<string>> = {
  esbuild: bundle,
  vite: bundleByVite,
  "vite-dev": async (dir, name) => {
    dev = await serveByVite(dir);
    stage.use(dev.middlewares);
    return `/panels/${name}`;
  },
};

test.each(Object.entries(bundlers))("a panel that imports fs, given by %s, runs on its files", async (name, build) => {
  const script = await build(stage.installed.dir, "imports-fs.ts");
  const panel = await stage.host.openPanel(`pages/${name}`);
  const { contextId } = panel;
  const saw = await stage.run(script, { ctxfs: { url: stage.server.url, token: panel.token } });
  expect(saw).toEqual({
    before: { contextId: null, constants: 0o100, early: true },
    byCallback: "from the panel\nand more\n",
    refusal: "existsSync() cannot wait for a ctxfs server: use fs.promises.access()",
    after: { contextId, info: { contextId, partition: `persist:${contextId}`, readOnly: false } },
    names: ["a.txt", "deep"],
    stats: { size: 24, isFile: true, date: true },
    read: { bytesRead: 4, text: "the " },
    buffer: { utf8: "from the panel\nand more\n", hex: "66726f6d", bytes: true },
    error: { code: "ENOENT", errno: -2, syscall: "open", path: "/nope", message: "ENOENT: no such file or directory, open '/nope'" },
    large: true, same: true,
  });
  expect(await nodefs.readFile(join(stage.server.folder(contextId), "src/deep/b.txt"), "utf8")).toBe("from the panel\nand more\n");
});

test("a page that does not say where its files are is told how", async () => {
  const script = await bundle(stage.installed.dir, "imports-fs.ts");
  await expect(stage.run(script)).rejects.toThrow("call configure() of @ctxfs/client/runtime, set globalThis.ctxfs = { url, token } in the page");
});
