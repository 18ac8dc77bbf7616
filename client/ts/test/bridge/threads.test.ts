import { build } from "esbuild";
import { once } from "node:events";
import * as nodefs from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MessageChannel, Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startWorld, type World } from "./fixture.js";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

let world: World;
let dir: string;
beforeAll(async () => {
  world = await startWorld();
  dir = await nodefs.mkdtemp(join(tmpdir(), "ctxfs-thread-"));
  await build({
    entryPoints: [at("panel.worker.ts")], outfile: join(dir, "panel.mjs"), bundle: true, platform: "node", format: "esm", target: "node20",
    alias: { "#platform": at("../../src/platform/node.ts") },
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" }, // for what is CommonJS in it
  });
});
afterAll(async () => {
  await world.stop();
  await nodefs.rm(dir, { recursive: true });
});

test("panels in threads of their own work side by side, and leave no handle", async () => {
  const names = ["one", "two", "three"];
  const answers = await Promise.all(names.map(async (name) => {
    const contextId = await world.open(`thread/${name}`);
    const { port1, port2 } = new MessageChannel();
    world.bridge.serve(port1, contextId);
    const worker = new Worker(join(dir, "panel.mjs"), { workerData: { port: port2, name }, transferList: [port2] });
    const exit = once(worker, "exit");
    const [answer] = (await once(worker, "message")) as [unknown];
    await worker.terminate();
    await exit;
    return answer;
  }));
  expect(answers).toEqual(names.map((name) => ({ contextId: `ctx_thread~${name}`, entries: ["worker"], size: 5 << 20 })));
  for (const name of names) {
    const large = await nodefs.readFile(join(world.server.folder(`ctx_thread~${name}`), "large"));
    expect(large.equals(Buffer.alloc(5 << 20, name))).toBe(true);
    await expect.poll(() => world.handles(`thread/${name}`)).toEqual([]);
  }
});
