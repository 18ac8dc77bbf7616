import { afterAll, beforeAll, expect, test } from "vitest";
import { wsDialer } from "../../src/links/ws.js";
import { Client } from "../../src/session/client.js";
import { bundle } from "./bundles.js";
import { setStage, type Stage } from "./stage.js";


let stage: Stage;
beforeAll(async () => { stage = await setStage(); });
afterAll(() => stage.stop());

/** How many handles a panel has open on the server. */
async function handles(panel: string): Promise<number> {
  const client = new Client({ dialer: wsDialer({ socket: stage.server.socket, secure: false }, { panel }) });
  const { handles: open } = await client.call("listHandles", {});
  await client.close();
  return open.length;
}

test("a page serves panels in frames and workers, each its own, through reloads and ends", async () => {
  const frame = await bundle(stage.installed.dir, "framed.ts");
  const page = await stage.open(await bundle(stage.installed.dir, "host.ts"), { url: stage.server.url, frame, worker: frame });
  interface Host { reported: Promise<unknown>; reload: () => Promise<unknown>; remove: () => void; terminate: () => void }
  const answer = (contextId: string): object => ({
    say: "done", who: contextId, info: { contextId, partition: `persist:${contextId}`, readOnly: false }, large: true,
  });
  const answers = await page.evaluate(() => (globalThis as unknown as Host).reported);
  expect(answers).toEqual(["frames-one", "frames-two", "frames-worker"].map((name) => answer(`ctx_${name}`)));
  expect(await Promise.all(["frames-one", "frames-two", "frames-worker"].map(handles))).toEqual([1, 1, 1]);

  expect(await page.evaluate(() => (globalThis as unknown as Host).reload())).toEqual(answer("ctx_frames-one"));
  await expect.poll(() => handles("frames-one")).toBe(1); // the old document's is closed
  await page.evaluate(() => { (globalThis as unknown as Host).remove(); });
  await expect.poll(() => handles("frames-two")).toBe(0);
  await page.evaluate(() => { (globalThis as unknown as Host).terminate(); });
  await expect.poll(() => handles("frames-worker")).toBe(0);
  expect(await handles("frames-one")).toBe(1);
  await page.close();
});

test("exposeCtxfs and attach give a window's page its fs, and again after a reload", async () => {
  const { dir } = stage.installed;
  const preload = await bundle(dir, "preload.ts", { alias: { electron: `${dir}/panels/electron.ts` }, define: { "process.contextIsolated": "true" } });
  const script = await bundle(dir, "imports-fs.ts");
  const saw = await stage.run(await bundle(dir, "main.ts"), { url: stage.server.url, panel: "windows~editor", preload, script });
  const contextId = "ctx_windows~editor";
  const expected = { before: { contextId, early: true }, byCallback: "from the panel\nand more\n", after: { contextId }, large: true, same: true };
  expect(saw).toMatchObject({ first: expected, second: expected });
});
