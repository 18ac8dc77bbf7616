import { Buffer } from "node:buffer";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Browser, BrowserContext, Frame, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createFs, type CtxFs, type OpenSite } from "../../src/index.js";
import type * as Pages from "../../src/pages/index.js";
import { startTestServer, type TestServer } from "../serve.js";
import { startChromium, startProfile } from "./chromium.js";

vi.setConfig({ testTimeout: 60_000 });

/** What the script of the test's own pages has. */
declare const pages: typeof Pages;

let server: TestServer;
let browser: Browser;
let shell: Server;
/** The origin of the pages that show sites, and that of strangers. */
let parent: string, stranger: string;
const open: CtxFs[] = [];
/** Profiles that are being removed. */
const profiles: Promise<void>[] = [];

beforeAll(async () => {
  server = await startTestServer("--gateway", "127.0.0.1:0");
  browser = await startChromium();
  const { outputFiles: [bundle] } = await build({
    entryPoints: [fileURLToPath(new URL("../../src/pages/index.ts", import.meta.url))], bundle: true, write: false, format: "iife", globalName: "pages",
  });
  shell = createServer((_, response) => { response.setHeader("Content-Type", "text/html").end(`<!doctype html><body><script>${bundle?.text ?? ""}</script>`); });
  await once(shell.listen(0, "127.0.0.1"), "listening");
  const { port } = shell.address() as AddressInfo;
  [parent, stranger] = [`http://shell.localhost:${String(port)}`, `http://stranger.localhost:${String(port)}`];
}, 60_000);
afterAll(async () => {
  await Promise.all(open.map((fs) => fs.disconnect()));
  await browser.close();
  await Promise.all(profiles);
  shell.closeAllConnections();
  shell.close();
  await server.stop();
});

/** Makes a browser profile, whose frames may store files. */
async function newProfile(): Promise<BrowserContext> {
  const dir = await mkdtemp(join(tmpdir(), "ctxfs-profile-"));
  const context = await startProfile(dir);
  context.on("close", () => { profiles.push(rm(dir, { recursive: true, force: true, maxRetries: 5 })); });
  return context;
}

/** Half a minute of silence, which a browser plays as it plays a video. */
function sound(): Buffer {
  const samples = 30 * 8000;
  const head = Buffer.alloc(44);
  head.write("RIFF", 0); head.writeUInt32LE(36 + samples, 4); head.write("WAVEfmt ", 8); head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20); head.writeUInt16LE(1, 22); head.writeUInt32LE(8000, 24); head.writeUInt32LE(8000, 28);
  head.writeUInt16LE(1, 32); head.writeUInt16LE(8, 34); head.write("data", 36); head.writeUInt32LE(samples, 40);
  return Buffer.concat([head, Buffer.alloc(samples, 128)]);
}

const files: Readonly<Record<string, string | Buffer>> = {
  "index.html": `<!doctype html><link rel="stylesheet" href="/style.css"><img src="a b.svg"><video src="tone.wav"></video><p id="out"></p><script type="module" src="/app.js"></script>`,
  "app.js": `import { word } from "./lib/word.js"; document.getElementById("out").textContent = word;`,
  "lib/word.js": `export const word = "from the server";`,
  "style.css": "p { color: rgb(1, 2, 3) }",
  "a b.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>`,
  "tone.wav": sound(),
};

/** Opens a site with a hub, of a panel with these files. */
async function siteOf(panel: string): Promise<{ site: OpenSite; folder: string }> {
  const { token, contextId } = await server.openPanel(panel);
  const folder = server.folder(contextId);
  await mkdir(join(folder, "lib"));
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  const fs = createFs({ url: server.url, token });
  open.push(fs);
  return { site: await fs.openSite({ hub: true, spa: true, parents: [parent] }), folder };
}

/** A page that shows a site, with its hub. */
async function show(context: BrowserContext, site: Pages.Site, storage: Pages.HubStorage, sync?: string[]): Promise<{ page: Page; frame: Frame; status: Pages.HubStatus }> {
  const page = await context.newPage();
  await page.goto(`${parent}/`);
  const status = await page.evaluate(async ({ site, storage, sync }) => {
    const hub = await pages.openHub(site, { storage });
    Object.assign(globalThis, { hub });
    if (sync) {
      const { failed } = await hub.sync(sync);
      if (Object.keys(failed).length > 0) throw new Error(JSON.stringify(failed));
    }
    return hub.status();
  }, { site: plain(site), storage, sync });
  return { page, frame: await mount(page, site), status };
}

const plain = ({ id, url, origin, hubUrl }: Pages.Site): Pages.Site => ({ id, url, origin, hubUrl });

async function mount(page: Page, site: Pages.Site, path = "/"): Promise<Frame> {
  const element = await page.evaluateHandle(({ site, path }) => pages.mountPage(document.body, site, path), { site: plain(site), path });
  const frame = await element.contentFrame();
  if (!frame) throw new Error("the element is no frame");
  await frame.waitForLoadState();
  return frame;
}

/** Calls a function of the page's hub. */
const hub = <K extends "putFiles" | "deleteFiles" | "sync" | "clear" | "status">(page: Page, name: K, ...args: Parameters<Pages.Hub[K]>): Promise<Awaited<ReturnType<Pages.Hub[K]>>> =>
  page.evaluate(({ name, args }) => ((globalThis as unknown as { hub: Record<string, (...a: unknown[]) => unknown> }).hub[name] as (...a: unknown[]) => unknown)(...args), { name, args: args }) as Promise<Awaited<ReturnType<Pages.Hub[K]>>>;

const word = async (frame: Frame): Promise<string | null> => {
  await frame.waitForFunction(() => !["", undefined].includes(document.getElementById("out")?.textContent), undefined, { polling: 50 }); // frames of tabs in the background are not drawn
  return frame.textContent("#out");
};

/** What a page shows of its image and its video, and whether the video seeks. */
const media = (frame: Frame): Promise<unknown> => frame.evaluate(async () => {
  const video = document.querySelector("video") as HTMLVideoElement;
  await new Promise<void>((resolve, reject) => {
    video.onerror = () => { reject(new Error(video.error?.message ?? "")); };
    video.onseeked = () => { resolve(); };
    video.currentTime = 20;
  });
  const range = await fetch("tone.wav", { headers: { Range: "bytes=4-7" } });
  return { image: (document.querySelector("img") as HTMLImageElement).naturalWidth, at: video.currentTime, range: [range.status, range.headers.get("Content-Range")] };
});
const shown = { image: 7, at: 20, range: [206, "bytes 4-7/240044"] };

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
      await new Promise((done) => { setTimeout(done, 50); });
    }
    return replies;
  }, { hubUrl: site.hubUrl, id: site.id });
  expect(replied).toBe(0);
  expect(await hub(page, "status")).toMatchObject({ pushed: 0 });
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

/** Forwards to the gateway under a port of its own, and makes its scripts other ones. */
async function otherVersion(site: OpenSite): Promise<{ site: Pages.Site; newer(): void; stop(): void }> {
  const { port } = new URL(site.url);
  let suffix = "old";
  const proxy = createServer((from, to) => {
    const host = (from.headers.host ?? "").replace(/:\d+$/, `:${port}`);
    const forward = httpRequest({ port, method: from.method, path: from.url, headers: { ...from.headers, host, "accept-encoding": "identity" } }, (answer) => {
      void answer.toArray().then((parts: Buffer[]) => {
        const body = Buffer.concat(parts);
        const isScript = /__ctxfs\/(hub|sw)\.js$/.test(from.url ?? "");
        const text = isScript ? Buffer.concat([body, Buffer.from(`// ${suffix}\n`)]) : body;
        to.writeHead(answer.statusCode ?? 500, { ...answer.headers, "content-length": text.length }).end(text);
      });
    });
    from.pipe(forward);
  });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  const own = String((proxy.address() as AddressInfo).port);
  const at = (url: string): string => url.replace(`:${port}`, `:${own}`);
  return {
    site: { id: site.id, url: at(site.url), origin: at(site.origin), hubUrl: at(site.hubUrl) },
    newer: () => { suffix = "new"; },
    stop: () => { proxy.closeAllConnections(); proxy.close(); },
  };
}

test("the first document after an update of the worker is shown, with what was put", async () => {
  const { site } = await siteOf("update");
  const proxy = await otherVersion(site);
  const context = await newProfile();
  const first = await show(context, proxy.site, "indexeddb");
  await hub(first.page, "putFiles", { "lib/word.js": `export const word = "pushed";` });
  proxy.newer();
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
