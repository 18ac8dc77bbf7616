// What the hub of a site and its worker store, and how long they wait for the server.
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
// clock: a proxy answers late
import { setTimeout as pause } from "node:timers/promises";
import type { Frame, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { entryOf } from "../../hub/serve.js";
import type * as Pages from "../../src/pages/index.js";
import { files, hub, mount, newProfile, parent, plain, proxyOf, server, show, siteOf, startShell, stopShell, word } from "./shell.js";

beforeAll(() => startShell());
afterAll(() => stopShell());

/** What the script of the test's own pages has. */
declare const pages: typeof Pages;

const hubFrame = (page: Page): Frame => page.frames().find((frame) => frame.url().includes("/__ctxfs/hub.html")) as Frame;

/** Counts what a page or a worker reads of the object store of contents. */
const counting = (): void => {
  const reads = { reads: 0 };
  Object.assign(globalThis, reads);
  for (const name of ["get", "getAll", "openCursor"] as const) {
    const made = Reflect.get(IDBObjectStore.prototype, name) as (this: IDBObjectStore, ...args: unknown[]) => IDBRequest;
    Object.assign(IDBObjectStore.prototype, { [name](this: IDBObjectStore, ...args: unknown[]) {
      if (this.name === "files") (globalThis as unknown as typeof reads).reads++;
      return made.apply(this, args);
    } });
  }
};
const reads = (): number => (globalThis as unknown as { reads: number }).reads;

/** The keys of what is stored, and the size that is kept beside them, with that of what may be evicted. */
const stored = (page: Page): Promise<{ keys: string[]; bytes: number; sum: number }> => hubFrame(page).evaluate(async () => {
  const result = <T>(request: IDBRequest<T>): Promise<T> => new Promise((resolve, reject) => { request.onsuccess = () => { resolve(request.result); }; request.onerror = () => { reject(request.error ?? new Error("failed")); }; });
  const db = await result(indexedDB.open("ctxfs-files"));
  const transaction = db.transaction(["files", "meta", "settings"]);
  const [keys, meta, bytes] = await Promise.all([
    result(transaction.objectStore("files").getAllKeys()), result(transaction.objectStore("meta").getAll() as IDBRequest<{ size: number; used?: number }[]>), result(transaction.objectStore("settings").get("bytes") as IDBRequest<number>),
  ]);
  db.close();
  return { keys: keys as string[], bytes, sum: meta.reduce((sum, { size, used }) => sum + (used === undefined ? 0 : size), 0) };
});

test("storing a file reads the content of no other", async () => {
  const { site, folder } = await siteOf("counted");
  const context = await newProfile();
  const { page, frame } = await show(context, site, "indexeddb", Object.keys(files));
  expect(await word(frame)).toBe("from the server");
  const [worker] = context.serviceWorkers();
  if (!worker) throw new Error("there is no worker");
  await Promise.all([hubFrame(page).evaluate(counting), worker.evaluate(counting)]);
  const names = [...Array(20).keys()].map((n) => `new${String(n)}.txt`);
  for (const name of names) await writeFile(join(folder, name), name);
  expect(await hub(page, "sync", names.slice(0, 10))).toEqual({ stored: 10, failed: {} });
  await hub(page, "putFiles", { "pushed.txt": "pushed" });
  expect(await hubFrame(page).evaluate(reads)).toBe(0);
  // Files that the worker stores as a page loads them: it looks once whether each was put.
  await frame.evaluate(async (names) => { for (const name of names) await (await fetch(name)).text(); }, names.slice(10));
  await expect.poll(() => hub(page, "status")).toMatchObject({ pushed: 1, stored: Object.keys(files).length + 20 + 3 });
  expect(await worker.evaluate(reads)).toBe(10);
  await context.close();
});

test("files that were not used for longest go first, and never those that were put or the hub's own", async () => {
  const { site, folder } = await siteOf("evicted");
  const proxy = await proxyOf(site, { body: (text, path) => (/__ctxfs\/(hub|sw)\.js$/.test(path) ? text.replace("512 << 20", "65536") : text) });
  const names = ["one", "two", "three", "four", "five"].map((name) => `${name}.txt`);
  for (const name of names) await writeFile(join(folder, name), Buffer.alloc(20_000, name));
  for (const storage of ["indexeddb", "memory"] as const) {
    const context = await newProfile();
    const { page } = await show(context, proxy.site, storage);
    await hub(page, "clear");
    await hub(page, "putFiles", { "text.txt": "x".repeat(100_000) });
    for (const name of names) expect(await hub(page, "sync", [name])).toEqual({ stored: 1, failed: {} });
    expect(await hub(page, "status")).toMatchObject({ pushed: 1, stored: 3, bytes: 160_000 });
    if (storage === "indexeddb") {
      const { keys, bytes, sum } = await stored(page);
      expect(keys).toEqual(["file:/five.txt", "file:/four.txt", "file:/three.txt", "pushed:/text.txt"]);
      expect([bytes, sum]).toEqual([60_000, 60_000]);
      await hub(page, "clear");
      expect(await stored(page)).toMatchObject({ keys: [], sum: 0 });
    }
    await context.close();
  }
  proxy.stop();
});

test("when the browser has no room, files of the server go, and then the hub answers ENOSPC", async () => {
  const { site, folder } = await siteOf("quota");
  // The protocol of DevTools sets no quota of a frame in another site's tab. The hub has the tab here, and is its own parent.
  const proxy = await proxyOf(site, { body: (text, path) => (path.startsWith("/__ctxfs/hub.html") ? text.replace(`"parents":[`, `"parents":["${proxy.site.origin}",`) : text) });
  const context = await newProfile();
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await devtools.send("Storage.overrideQuotaForOrigin", { origin: proxy.site.origin, quotaSize: 20 << 20 });
  await page.goto(`${proxy.site.hubUrl}?storage=indexeddb`);
  const request = (sent: object, mib = 0): Promise<unknown> => page.evaluate(async ({ sent, mib }) => {
    const bytes = new Uint8Array(mib << 20);
    for (let at = 0; at < bytes.length; at += 65536) crypto.getRandomValues(bytes.subarray(at, at + 65536));
    const { port1, port2 } = new MessageChannel();
    postMessage({ type: "HELLO" }, "*", [port2]);
    return new Promise((resolve) => {
      port1.onmessage = ({ data }: MessageEvent<{ value?: unknown; code?: string }>) => { resolve(data.code ?? data.value ?? "OK"); };
      port1.postMessage({ ...(mib > 0 ? { files: { [`${String(mib)}.bin`]: bytes.buffer } } : {}), ...sent, id: 7 });
    });
  }, { sent: { sessionId: site.id, ...sent }, mib });
  expect(await request({ type: "STATUS" })).toMatchObject({ offline: true });
  await writeFile(join(folder, "large.bin"), randomBytes(6 << 20));
  expect(await request({ type: "SYNC", paths: ["large.bin"] })).toEqual({ stored: 1, failed: {} });
  // Deleted files keep their room until the browser compacts the database: the second file is put when it did.
  await expect.poll(() => request({ type: "PUT_FILES" }, 12)).toBe("OK");
  expect(await request({ type: "PUT_FILES" }, 25)).toBe("ENOSPC");
  expect(await request({ type: "STATUS" })).toMatchObject({ pushed: 1, stored: 2 });
  expect((await stored(page)).keys).toEqual(["file:/__ctxfs/hub.html", "file:/__ctxfs/hub.js", "pushed:/12.bin"]);
  proxy.stop();
  await context.close();
});

test("a second hub of a site shares the files of the first, or is refused", async () => {
  const { site } = await siteOf("second");
  const context = await newProfile();
  const first = await show(context, site, "indexeddb");
  await hub(first.page, "putFiles", { "lib/word.js": `export const word = "draft";` });
  const other = await context.newPage();
  await other.goto(`${parent}/`);
  const opens = (storage?: Pages.HubStorage): Promise<string> => other.evaluate(async ({ site, storage }) => {
    try {
      const hub = await pages.openHub(site, { storage });
      const { pushed } = await hub.status();
      Object.assign(globalThis, { hub });
      return `${String(pushed)} files`;
    } catch (error) { return (error as Error).message; }
  }, { site: plain(site), storage });
  const close = (page: Page): Promise<void> => page.evaluate(() => { (globalThis as unknown as { hub: Pages.Hub }).hub.close(); });
  expect(await opens()).toMatch(/^EBUSY: another hub of this site is open with storage "indexeddb"/);
  expect(await word(await mount(first.page, site))).toBe("draft");
  expect(await opens("indexeddb")).toBe("1 files");
  await close(other);
  // The other way round: the first one is in memory now, and drafts stay where they are.
  await close(first.page);
  expect(await opens("memory")).toBe("0 files");
  await hub(other, "putFiles", { "lib/word.js": `export const word = "in memory";` });
  const third = await context.newPage();
  await third.goto(`${parent}/`);
  await expect(third.evaluate((site) => pages.openHub(site, { storage: "indexeddb" }), plain(site))).rejects.toThrow(/EBUSY: another hub .* "memory"/);
  expect(await word(await mount(third, site))).toBe("in memory");
  await close(other);
  expect(await opens("indexeddb")).toBe("1 files");
  expect(await word(await mount(other, site))).toBe("draft");
  await context.close();
});

test("a server that hangs holds up neither what is stored nor the hub", async () => {
  const { site } = await siteOf("hangs");
  const context = await newProfile();
  const { page } = await show(context, site, "indexeddb", [...Object.keys(files), "index.html"]);
  server.hang();
  try {
    const begun = Date.now(); // clock: as below
    const syncing = hub(page, "sync", ["app.js", "style.css", "missing.js", "a", "b", "c", "d", "e"]);
    await hub(page, "putFiles", { "pushed.txt": "pushed" });
    expect(await hub(page, "status")).toMatchObject({ pushed: 1 });
    expect(await Promise.race([syncing.then(() => "synced"), Promise.resolve("not yet")])).toBe("not yet");
    const frame = await mount(page, site);
    expect(await word(frame)).toBe("from the server");
    const { stored, failed } = await syncing;
    expect([stored, Object.keys(failed).length, failed["app.js"]]).toEqual([0, 8, "the server sent nothing for 10 s"]);
    // clock: eight silences of 10 s, one after the other, are more than a minute
    expect(Date.now() - begun).toBeLessThan(60_000);
    const missing = await frame.evaluate(async () => (await fetch("/missing.js")).status);
    expect(missing).toBe(504);
    // A tab that is opened while the server hangs.
    const again = await show(context, site, "indexeddb");
    expect(again.status).toMatchObject({ offline: true, pushed: 1 });
    expect(await word(again.frame)).toBe("from the server");
  } finally {
    server.resume();
    await context.close();
  }
});

test("files that a SYNC fetches are not stored after CLEAR", async () => {
  const { site } = await siteOf("cleared");
  let begun = (): void => undefined;
  const asked = new Promise<void>((resolve) => { begun = resolve; });
  let answer = (): void => undefined;
  const may = new Promise<void>((resolve) => { answer = resolve; });
  let slow = false;
  const proxy = await proxyOf(site, { answer: async (path) => { if (slow && path === "/app.js") { begun(); await may; } return false; } });
  const context = await newProfile();
  const { page } = await show(context, proxy.site, "memory");
  slow = true;
  const syncing = hub(page, "sync", ["app.js"]);
  await asked;
  await hub(page, "clear");
  answer();
  expect(await syncing).toEqual({ stored: 0, failed: { "app.js": "all files were deleted" } });
  expect(await hub(page, "status")).toMatchObject({ stored: 0 });
  proxy.stop();
  await context.close();
});

test("SYNC stores the server's file, though another was put before it", async () => {
  const { site } = await siteOf("beneath");
  const context = await newProfile();
  const { page } = await show(context, site, "memory");
  await hub(page, "putFiles", { "lib/word.js": `export const word = "pushed";` });
  expect(await hub(page, "sync", Object.keys(files))).toMatchObject({ failed: {} });
  await hub(page, "deleteFiles", ["lib/word.js"]);
  server.hang();
  try {
    expect(await word(await mount(page, site))).toBe("from the server");
  } finally {
    server.resume();
    await context.close();
  }
});

test("an answer that comes late is stored for the next request, and the server's own 503 is not hidden", async () => {
  const { site, folder } = await siteOf("late");
  const mode = { slow: false, status: 0, retry: false };
  let answered = (): void => undefined;
  const proxy = await proxyOf(site, {
    async answer(path, response) {
      if (!path.startsWith("/lib/word.js")) return false;
      if (mode.status > 0) {
        response.writeHead(mode.status, mode.retry ? { "Retry-After": "1" } : {}).end("no");
        return true;
      }
      if (!mode.slow) return false;
      response.on("close", () => { answered(); });
      await pause(3000);
      return false;
    },
  });
  const context = await newProfile();
  const { frame } = await show(context, proxy.site, "indexeddb", ["lib/word.js"]);
  const fetched = (): Promise<string> => frame.evaluate(async () => { const r = await fetch("/lib/word.js", { cache: "no-store" }); return `${String(r.status)} ${/"(.*)"/.exec(await r.text())?.[1] ?? ""}`; });
  await writeFile(join(folder, "lib/word.js"), `export const word = "edited";`);
  mode.slow = true;
  const late = new Promise<void>((resolve) => { answered = resolve; });
  expect(await fetched()).toBe("200 from the server");
  await late;
  await expect.poll(fetched).toBe("200 edited");
  mode.slow = false;
  const seen: string[] = [];
  for (const [status, retry] of [[502, false], [504, false], [503, false], [503, true]] as const) {
    Object.assign(mode, { status, retry });
    seen.push(await fetched());
  }
  expect(seen).toEqual(["200 edited", "200 edited", "200 edited", "503 "]);
  proxy.stop();
  await context.close();
});

test("files of a snapshot's site are not asked for again", async () => {
  const { site, folder } = await siteOf("snapshot", { snapshot: "first" });
  const proxy = await proxyOf(site);
  const context = await newProfile();
  for (const storage of ["indexeddb", "memory"] as const) {
    const { page, frame } = await show(context, proxy.site, storage);
    await rm(join(folder, "app.js"), { force: true });
    expect(await word(frame)).toBe("from the server");
    await expect.poll(async () => (await hub(page, "status")).stored).toBeGreaterThanOrEqual(Object.keys(files).length - 1); // a browser asks for a range of the sound
    const devtools = await context.newCDPSession(page);
    await devtools.send("Network.clearBrowserCache");
    proxy.asked.length = 0;
    expect(await word(await mount(page, proxy.site))).toBe("from the server");
    expect(proxy.asked.filter((path) => path !== "/tone.wav" && !path.startsWith("/__ctxfs/"))).toEqual([]);
    await page.close();
  }
  proxy.stop();
  await context.close();
});

test("a request ends when the hub has ended", async () => {
  const { site } = await siteOf("ended");
  const context = await newProfile();
  const page = await context.newPage();
  await page.goto(`${parent}/`);
  const message = await page.evaluate(async (site) => {
    const opened = async (timeoutMs: number): ReturnType<typeof pages.openHub> => pages.openHub(site, { timeoutMs }).catch(() => opened(2 * timeoutMs)); // a busy machine
    const hub = await opened(5000);
    document.querySelector("iframe")?.remove();
    return hub.status().then(() => "", (error: unknown) => (error as Error).message);
  }, plain(site));
  expect(message).toMatch(/^ETIMEDOUT/);
  await context.close();
});

test("an answer that does not say how long it is is read up to the bound", async () => {
  let given = 0, cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => { given += 1000; controller.enqueue(new Uint8Array(1000)); },
    cancel: () => { cancelled = true; },
  });
  expect(await entryOf("file", "/log", new Response(body), 10_000)).toBeUndefined();
  expect([given, cancelled]).toEqual([expect.toSatisfy((n: number) => n < 15_000), true]);
  expect((await entryOf("file", "/log", new Response("abc"), 3))?.body.byteLength).toBe(3);
});
