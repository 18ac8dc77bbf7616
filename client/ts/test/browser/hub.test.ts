import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Frame } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createFs } from "../../src/index.js";
import type * as Pages from "../../src/pages/index.js";
import { browser, files, hub, media, mount, newProfile, open, parent, plain, proxyOf, server, show, shown, siteOf, startShell, stopShell, stranger, word } from "./shell.js";


/** What the script of the test's own pages has. */
declare const pages: typeof Pages;

beforeAll(() => startShell());
afterAll(() => stopShell());

test("files that are put come before the server's until they are deleted", async () => {
  for (const storage of ["memory", "indexeddb"] as const) {
    const { site } = await siteOf(`put-${storage}`);
    const context = await newProfile();
    const { page, frame, status } = await show(context, site, storage);
    expect(status).toMatchObject({ offline: true, storage, pushed: 0 });
    expect(await word(frame)).toBe("from the server");
    await hub(page, "putFiles", { "lib/word.js": `export const word = "pushed";`, "new page.html": "<!doctype html><p id=out>new</p>" });
    expect(await word(await mount(page, site))).toBe("pushed");
    const added = await mount(page, site, "/new%20page.html");
    expect(await word(added)).toBe("new");
    expect(await added.evaluate(() => document.contentType)).toBe("text/html");
    await hub(page, "deleteFiles", ["lib/word.js"]);
    expect(await word(await mount(page, site))).toBe("from the server");
    await expect(hub(page, "putFiles", { "../a": "" })).rejects.toThrow("EINVAL");
    await expect(hub(page, "putFiles", { "__ctxfs/sw.js": "" })).rejects.toThrow("EACCES");
    await context.close();
  }
});

test("an edit on the server is shown at once, though the file is stored", async () => {
  const { site, folder } = await siteOf("edit");
  const context = await newProfile();
  const { page, frame } = await show(context, site, "indexeddb", ["lib/word.js"]);
  expect(await word(frame)).toBe("from the server");
  await writeFile(join(folder, "lib/word.js"), `export const word = "edited";`);
  expect(await word(await mount(page, site))).toBe("edited");
  await rm(join(folder, "style.css"));
  expect(await frame.evaluate(async () => (await fetch("/style.css")).status)).toBe(404);
  await context.close();
});

test("the hub takes nothing from strangers, and the worker is the only one", async () => {
  const { site } = await siteOf("strangers");
  const context = await newProfile();
  const { page, frame } = await show(context, site, "memory");
  expect(await frame.evaluate(() => navigator.serviceWorker.register("/app.js").then(() => "registered", (error: unknown) => (error as Error).name))).not.toBe("registered");
  // A stranger that has a window of the hub: no reply, and nothing is put.
  const other = await context.newPage();
  await other.goto(`${stranger}/`);
  const replied = await other.evaluate(async ({ hubUrl, id }) => {
    const tab = window.open(hubUrl) as Window;
    let replies = 0;
    addEventListener("message", () => { replies++; });
    for (let i = 0; i < 20; i++) {
      tab.postMessage({ type: "PUT_FILES", id: i, sessionId: id, files: { "lib/word.js": "poison" } }, "*");
      // clock: how often the stranger tries
      await new Promise((done) => { setTimeout(done, 50); });
    }
    return replies;
  }, { hubUrl: site.hubUrl, id: site.id });
  expect(replied).toBe(0);
  expect(await hub(page, "status")).toMatchObject({ pushed: 0 });
  // clock: the hub must give up, whenever that is
  await expect(other.evaluate((s) => pages.openHub(s, { timeoutMs: 2000 }), plain(site))).rejects.toThrow("ETIMEDOUT");
  await context.close();
});

test("where the browser lets a frame store nothing, the hub says so, and pages go on over the network", async () => {
  const { site } = await siteOf("private");
  const context = await browser.newContext(); // a private window
  const { page, frame, status } = await show(context, site, "indexeddb");
  expect(status).toMatchObject({ offline: false, reason: expect.stringMatching(/denied/) as string });
  expect(await word(frame)).toBe("from the server");
  await expect(hub(page, "putFiles", { "a.txt": "a" })).rejects.toThrow("EOPNOTSUPP");
  await context.close();
});

test("the message PUT_FILES is accepted from a parent that knows nothing else", async () => {
  const { site } = await siteOf("plain-message");
  const context = await newProfile();
  const page = await context.newPage();
  await page.goto(`${parent}/`);
  const replies = await page.evaluate(async ({ hubUrl, id }) => {
    const frame = document.createElement("iframe");
    const next = (): Promise<unknown> => new Promise((resolve) => { addEventListener("message", ({ data }) => { resolve(data); }, { once: true }); });
    frame.src = hubUrl;
    document.body.append(frame);
    const ready = await next();
    const files = { "a.txt": "text", "b.bin": new Uint8Array([1, 2]).buffer, "c.css": new Blob(["p {}"]) };
    frame.contentWindow?.postMessage({ type: "PUT_FILES", sessionId: id, files }, "*");
    frame.contentWindow?.postMessage({ type: "PUT_FILES", id: 5, sessionId: "another", files }, "*");
    const refused = await next();
    frame.contentWindow?.postMessage({ type: "STATUS", id: 6, sessionId: id }, "*");
    return [ready, refused, await next()];
  }, { hubUrl: site.hubUrl, id: site.id });
  expect(replies).toMatchObject([{ type: "READY", offline: true }, { type: "ERROR", id: 5, code: "EINVAL" }, { type: "OK", id: 6, value: { pushed: 3, bytes: 10 } }]);
  await context.close();
});

test("the first document after an update of the worker is shown, with what was put", async () => {
  const { site } = await siteOf("update");
  let version = "old";
  const proxy = await proxyOf(site, { body: (text, path) => (/__ctxfs\/(hub|sw)\.js$/.test(path) ? `${text}// ${version}\n` : text) });
  const context = await newProfile();
  const first = await show(context, proxy.site, "indexeddb");
  await hub(first.page, "putFiles", { "lib/word.js": `export const word = "pushed";` });
  version = "new";
  const { frame, status } = await show(context, proxy.site, "indexeddb"); // while the first page is open
  expect(status).toMatchObject({ offline: true, pushed: 1 });
  expect(await word(frame)).toBe("pushed");
  expect(await word(await mount(first.page, proxy.site))).toBe("pushed");
  proxy.stop();
  await context.close();
});

test("without the server pages are shown from the hub's store, and what is not stored says so", async () => {
  const everything = Object.keys(files);
  const kept = await siteOf("kept"), forgotten = await siteOf("forgotten");
  const context = await newProfile();
  const before = await show(context, kept.site, "indexeddb", [...everything, "index.html"]);
  await hub(before.page, "putFiles", { "pushed.txt": "pushed" });
  expect(await media(before.frame)).toEqual(shown);
  const inMemory = await show(context, forgotten.site, "memory", everything);
  await before.page.close();
  await server.kill();
  try {
    // A tab that stayed open, with files in memory.
    const offline = await mount(inMemory.page, forgotten.site);
    expect(await word(offline)).toBe("from the server");
    expect(await media(offline)).toEqual(shown);
    // A tab that was closed and opened.
    const { page, frame, status } = await show(context, kept.site, "indexeddb");
    expect(status).toMatchObject({ offline: true, pushed: 1 });
    expect(await word(frame)).toBe("from the server");
    expect(await media(frame)).toEqual(shown);
    expect(await word(await mount(page, kept.site, "/deep/link"))).toBe("from the server"); // spa
    expect(await frame.evaluate(async () => (await fetch("pushed.txt")).text())).toBe("pushed");
    expect(await frame.evaluate(async () => (await fetch("missing.txt")).status)).toBe(504);
    expect(await (await mount(page, kept.site, "/missing.html")).textContent("h1")).toBe("Not stored offline");
    await inMemory.page.close();
    const again = await context.newPage();
    await again.goto(`${parent}/`);
    // clock: the hub must give up, whenever that is
    await expect(again.evaluate((site) => pages.openHub(site, { timeoutMs: 3000 }), plain(forgotten.site))).rejects.toThrow("ETIMEDOUT");
  } finally {
    await context.close();
    await server.restart();
  }
});

test("a document in the path form loads a site's files by a base element", async () => {
  const { token, contextId } = await server.openPanel("srcdoc");
  await writeFile(join(server.folder(contextId), "word.js"), `export const word = "module";`);
  await writeFile(join(server.folder(contextId), "data.json"), "[1]");
  const fs = createFs({ url: server.url, token });
  open.push(fs);
  const site = await fs.openSite({ form: "path", parents: [parent] });
  const page = await browser.newPage();
  await page.goto(`${parent}/`);
  const html = `<!-- a --><!doctype html><html lang="en"><head><title>t</title></head><body><p id="out"></p><script type="module">
    import { word } from "./word.js";
    document.getElementById("out").textContent = [word, await (await fetch("data.json")).text(), document.compatMode, document.documentElement.lang, origin].join();
  </script></body></html>`;
  const element = await page.evaluateHandle(({ html, site }) => {
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts");
    frame.srcdoc = pages.srcdocOf(html, site);
    document.body.append(frame);
    return frame;
  }, { html, site: plain(site) });
  expect(await word(await element.contentFrame() as Frame)).toBe("module,[1],CSS1Compat,en,null");
  await page.close();
});
