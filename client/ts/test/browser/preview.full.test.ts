import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { cp, mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
// clock: edits that a person makes have a pause between
import { setTimeout as pause } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestServer, type TestServer } from "../serve.js";
import { startChromium } from "./chromium.js";
import { pixel, put, wav, type Files } from "./sitefiles.js";

/* Whole sites, as people build them, in a real browser. */


let server: TestServer;
let browser: Browser;
beforeAll(async () => {
  server = await startTestServer("--gateway", "127.0.0.1:0");
  browser = await startChromium();
});
afterAll(async () => {
  await browser.close();
  await server.stop();
});

/** Makes a panel whose context has these files. */
async function panelWith(panel: string, files: Files): Promise<string> {
  const folder = server.folder((await server.openPanel(panel)).contextId);
  await put(folder, files);
  return folder;
}

const open = async (...args: string[]): Promise<string> => (await server.ctxfs("open", ...args)).trim();

/** Opens a page, and fails the test for each request that fails and each error of a script. */
async function visit(url: string): Promise<Page> {
  const page = await browser.newPage();
  page.on("pageerror", (error) => { throw error; });
  page.on("response", (response) => { if (response.status() >= 400 && !response.url().endsWith("/favicon.ico")) throw new Error(`${String(response.status())} ${response.url()}`); });
  await page.goto(url);
  return page;
}

const text = (page: Page): Promise<string | null> => page.textContent("body");

const storing = "<!doctype html><body><script>document.body.textContent = localStorage.getItem('mark') ?? 'nothing';</script>";

test("a fork's site has an origin and a storage of its own, and a snapshot's site is as it was", async () => {
  const folder = await panelWith("forked", { "index.html": storing, "version.txt": "first" });
  await server.ctxfs("snapshot", "create", "forked", "first");
  const contextId = (await server.openPanel("forked")).contextId;
  await server.ctxfs("context", "fork", contextId, "ctx_forked_copy");
  const live = await open("forked"), fork = await open("ctx_forked_copy"), kept = await open("forked", "--snapshot", "first");
  await put(folder, { "version.txt": "second" });
  const pages = await Promise.all([live, fork, kept].map(visit));
  expect(new Set(pages.map((page) => new URL(page.url()).origin)).size).toBe(3);
  await pages[0]?.evaluate(() => { localStorage.setItem("mark", "the parent's"); });
  const seen = [];
  for (const page of pages) {
    await page.reload();
    const version = await page.evaluate(async () => (await fetch("/version.txt")).text());
    seen.push([await text(page), version]);
    await page.close();
  }
  expect(seen).toEqual([["the parent's", "second"], ["nothing", "first"], ["nothing", "first"]]);
});

test("a page that is open is loaded again when its context is restored", async () => {
  const folder = await panelWith("restored", { "index.html": "<!doctype html><body>first" });
  await server.ctxfs("snapshot", "create", "restored", "first");
  await put(folder, { "index.html": "<!doctype html><body>second" });
  const page = await browser.newPage();
  const events = page.waitForResponse((response) => response.url().includes("/__ctxfs/events"));
  await page.goto(await open("restored"));
  await events;
  expect(await text(page)).toBe("second");
  await server.ctxfs("snapshot", "restore", "--discard-changes", "restored", "first");
  await page.waitForFunction(() => document.body.textContent === "first");
  await page.close();
});

test("each edit is shown, once", async () => {
  // clock: a quiet machine (CTXFS_QUIET=1) is to show half of the edits within 300 ms; others judge no time
  const versionOf = (n: number): string => `<!doctype html><body><script>shown(${String(n)}, Date.now())</script>`;
  const folder = await panelWith("edited", { "index.html": versionOf(0), "style.css": "", ...Object.fromEntries([...Array(200).keys()].map((n) => [`src/${String(n)}.js`, `export default ${String(n)}`])) });
  const page = await browser.newPage();
  const seen: number[] = [], took: number[] = [], edits = 11;
  let shown: (at: number) => void = () => undefined;
  await page.exposeFunction("shown", (n: number, at: number) => { seen.push(n); shown(at); });
  let listening = page.waitForResponse((response) => response.url().includes("/__ctxfs/events"));
  await page.goto(await open("edited"));
  for (let n = 1; n <= edits; n++) {
    await listening;
    await pause(300); // a person's edits are not in one breath
    listening = page.waitForResponse((response) => response.url().includes("/__ctxfs/events"));
    const showing = new Promise<number>((resolve) => { shown = resolve; });
    const begun = Date.now(); // clock: as above
    await writeFile(join(folder, "index.html"), versionOf(n));
    took.push(await showing - begun);
  }
  await listening;
  await page.close();
  expect(seen).toEqual([...Array(edits + 1).keys()]);
  if (process.env.CTXFS_QUIET === "1") expect(took.sort((a, b) => a - b)[edits >> 1]).toBeLessThan(300);
});

test("pages in hidden tabs keep no connection, and are loaded again if something was changed", async () => {
  const folder = await panelWith("hidden", { "index.html": "<!doctype html><body>first" });
  const url = await open("hidden");
  const context = await browser.newContext(); // its tabs share six connections to a host
  const listens = (page: Page): Promise<unknown> => page.waitForResponse((response) => response.url().includes("/__ctxfs/events"));
  const show = (page: Page, shown: boolean): Promise<void> => page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, !shown);
  const pages: Page[] = [];
  for (let n = 0; n < 7; n++) {
    const page = await context.newPage();
    const listening = listens(page);
    await page.goto(url, { timeout: 120_000 });
    await listening;
    await show(page, false);
    pages.push(page);
  }
  const [kept, late] = pages;
  if (kept === undefined || late === undefined) throw new Error("no pages");
  let loads = 0;
  kept.on("load", () => { loads++; });
  const listening = listens(kept);
  await show(kept, true);
  await listening;
  await put(folder, { "index.html": "<!doctype html><body>second" });
  await kept.waitForFunction(() => document.body.textContent === "second");
  await kept.waitForLoadState("load");
  expect(loads).toBe(1);
  expect(await text(late)).toBe("first");
  await show(late, true);
  await late.waitForFunction(() => document.body.textContent === "second");
  await context.close();
});

/** A font that a development dependency has. */
async function copyFont(to: string): Promise<void> {
  const assets = join(dirname(createRequire(import.meta.url).resolve("playwright-core/package.json")), "lib/vite/recorder/assets");
  const font = (await readdir(assets)).find((name) => name.endsWith(".ttf"));
  if (font === undefined) throw new Error(`${assets} has no font`);
  await mkdir(dirname(to), { recursive: true });
  await cp(join(assets, font), to);
}

const styled = "@font-face { font-family: signs; src: url(FONT) }\nbody { font-family: signs; color: rgb(1, 2, 3); background: url(IMAGE) }\n";

/** What a page has loaded. */
const loaded = (page: Page): Promise<unknown> => page.evaluate(async () => {
  await Promise.all([...document.images].map((image) => image.decode()));
  const fonts = await document.fonts.load("16px signs");
  return { color: getComputedStyle(document.body).color, fonts: fonts.length, images: [...document.images].map((image) => image.naturalWidth), text: document.querySelector("#app")?.textContent };
});

test("a Vite build works, with its chunks, its router and the links of a deep page", async () => {
  const folder = await panelWith("vite", {
    "app/index.html": '<!doctype html><html><head><title>app</title></head><body><main id="app"></main><img src="/pixel.png"><script type="module" src="/src/main.ts"></script></body></html>',
    "app/public/pixel.png": pixel,
    "app/src/pixel.png": pixel,
    "app/src/style.css": styled.replace("FONT", "./signs.ttf").replace("IMAGE", "./pixel.png"),
    "app/src/page.ts": "export const title = (path: string): string => `page ${path}`;\n",
    "app/src/main.ts": `import "./style.css";
const app = document.getElementById("app") as HTMLElement;
const show = async (): Promise<void> => { app.textContent = (await import("./page.js")).title(location.pathname); };
addEventListener("popstate", () => { void show(); });
Object.assign(globalThis, { go: (path: string) => { history.pushState(null, "", path); return show(); } });
void show();
`,
  });
  await copyFont(join(folder, "app/src/signs.ttf"));
  await build({ root: join(folder, "app"), configFile: false, logLevel: "error", build: { assetsInlineLimit: 0 } });
  for (const policy of ["open", "strict"]) {
    const url = await open("vite", "--root", "app/dist", "--spa", "--policy", policy);
    const page = await visit(url);
    await page.waitForFunction(() => document.querySelector("#app")?.textContent === "page /");
    expect(await loaded(page)).toEqual({ color: "rgb(1, 2, 3)", fonts: 1, images: [1], text: "page /" });
    await page.evaluate(() => (globalThis as unknown as { go(path: string): Promise<void> }).go("/orders/7"));
    expect(await page.textContent("#app")).toBe("page /orders/7");
    await page.reload(); // the server gets the deep link now
    await page.waitForFunction(() => document.querySelector("#app")?.textContent === "page /orders/7");
    expect(await loaded(page)).toMatchObject({ color: "rgb(1, 2, 3)", fonts: 1, images: [1] });
    await page.close();
  }
});

test("a site of several pages works with assets from its root", async () => {
  const page = (at: string, link: string): string => `<!doctype html><html><head><link rel="stylesheet" href="/assets/style.css"><script type="module" src="/assets/main.js"></script></head>
<body><main id="app">${at}</main><img src="/assets/pixel.png"><img srcset="/assets/pixel.svg 1x" alt=""><a href="${link}">next</a></body></html>`;
  const folder = await panelWith("pages", {
    "index.html": page("home", "/docs/"), "docs/index.html": page("docs", "guide/first.html#end"), "docs/guide/first.html": page("guide", "/"),
    "assets/style.css": `@import "/assets/more.css";\n${styled.replace("FONT", "/assets/signs.ttf").replace("IMAGE", "pixel.png")}`, "assets/more.css": "a { color: rgb(7, 8, 9) }\n",
    "assets/pixel.png": pixel, "assets/pixel.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="3" height="3"/>',
    "assets/main.js": 'import { name } from "/assets/name.js";\ndocument.documentElement.dataset.ran = name;\n', "assets/name.js": 'export const name = "ran";\n',
  });
  await copyFont(join(folder, "assets/signs.ttf"));
  const shown = await visit(await open("pages"));
  for (const [path, at] of [["/", "home"], ["/docs/", "docs"], ["/docs/guide/first.html", "guide"], ["/", "home"]] as const) {
    await shown.waitForFunction((expected) => location.pathname === expected && document.documentElement.dataset.ran === "ran", path);
    expect(await loaded(shown), path).toEqual({ color: "rgb(1, 2, 3)", fonts: 1, images: [1, 3], text: at });
    expect(await shown.evaluate(() => getComputedStyle(document.querySelector("a") as Element).color)).toBe("rgb(7, 8, 9)");
    await shown.click("a");
  }
  await shown.close();
});

test("a srcdoc with a base tag loads a site's files from an opaque origin", async () => {
  const folder = await panelWith("srcdoc", {
    "assets/main.js": `import { name } from "./name.js";
const data = await (await fetch("assets/data.json")).json();
document.querySelector("#app").textContent = JSON.stringify({ name, data, origin: self.origin });
`, "assets/name.js": 'export const name = "module";\n', "assets/data.json": "[1]\n",
    "assets/style.css": styled.replace("FONT", "signs.ttf").replace("IMAGE", "pixel.png"), "assets/pixel.png": pixel, "assets/classic.js": "globalThis.classic = true;\n",
  });
  await copyFont(join(folder, "assets/signs.ttf"));
  const base = await open("srcdoc", "--sandbox");
  const shell = createServer((_, response) => { response.setHeader("Content-Type", "text/html").end("<!doctype html><body>"); });
  await once(shell.listen(0, "127.0.0.1"), "listening");
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${String((shell.address() as AddressInfo).port)}/`);
  await page.evaluate((url) => {
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts");
    frame.allow = "local-network-access; loopback-network";
    frame.srcdoc = `<!doctype html><base href="${url}"><link rel="stylesheet" href="assets/style.css"><main id="app"></main><img src="assets/pixel.png">
<script src="assets/classic.js"></script><script type="module" src="assets/main.js"></script>`;
    document.body.append(frame);
  }, base);
  const frame = page.frames()[1] ?? await page.waitForEvent("frameattached");
  await frame.waitForFunction(() => document.querySelector("#app")?.textContent !== "" && document.querySelector("img")?.complete);
  const seen = await frame.evaluate(async () => ({
    app: JSON.parse(document.querySelector("#app")?.textContent ?? "") as object, classic: (globalThis as { classic?: boolean }).classic,
    color: getComputedStyle(document.body).color, fonts: (await document.fonts.load("16px signs")).length, image: document.querySelector("img")?.naturalWidth,
  }));
  expect(seen).toEqual({ app: { name: "module", data: [1], origin: "null" }, classic: true, color: "rgb(1, 2, 3)", fonts: 1, image: 1 });
  await page.close();
  shell.closeAllConnections();
  await new Promise((done) => shell.close(done));
});

test("a media element seeks by ranges", async () => {
  const seconds = 4000; // 32 MB: more than a browser loads ahead
  await panelWith("media", { "index.html": '<!doctype html><body><audio src="sound.wav" preload="metadata"></audio>', "sound.wav": wav(seconds) });
  for (const flags of [[], ["--sandbox"]]) {
    const page = await browser.newPage();
    const asked: string[] = [], got: number[] = [];
    page.on("request", (request) => { if (request.url().endsWith(".wav")) asked.push(request.headers().range ?? ""); });
    page.on("response", (response) => { if (response.url().endsWith(".wav")) got.push(response.status()); });
    await page.goto(await open("media", ...flags));
    const state = await page.evaluate(async (to) => {
      const audio = document.querySelector("audio") as HTMLAudioElement;
      if (audio.readyState === 0) await new Promise((done) => { audio.addEventListener("loadedmetadata", done, { once: true }); });
      audio.currentTime = to;
      await new Promise((done) => { audio.addEventListener("seeked", done, { once: true }); });
      return { at: audio.currentTime, duration: audio.duration, error: audio.error?.message };
    }, seconds - 100);
    expect(state).toEqual({ at: seconds - 100, duration: seconds, error: undefined });
    expect(new Set(got)).toEqual(new Set([206]));
    expect(Math.max(...asked.map((range) => Number(/^bytes=(\d+)-/.exec(range)?.[1] ?? 0)))).toBeGreaterThan(20_000_000);
    await page.close();
  }
});
