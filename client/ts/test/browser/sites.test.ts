import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestServer, type TestServer } from "../serve.js";
import { startChromium } from "./chromium.js";


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

const document = `<!doctype html><html><head><link rel="stylesheet" href="style.css"></head>
<body><p id="out"></p><script type="module" src="app.js"></script></body></html>`;
const script = `import { word } from "./lib/word.js";
const data = await (await fetch("data.json")).json();
const attempt = async (f) => { try { return await f(); } catch (error) { return error.name; } };
document.getElementById("out").textContent = JSON.stringify({
  word, data, origin: self.origin === "null" ? "opaque" : "own",
  storage: await attempt(() => { localStorage.setItem("a", "1"); return localStorage.getItem("a"); }),
  worker: await attempt(async () => { await navigator.serviceWorker.register("app.js", { type: "module" }); return "registered"; }),
  absolute: await attempt(async () => (await fetch("/data.json")).status),
});
`;

/** Opens a site of a panel with these files, and its page. */
async function show(panel: string, ...flags: string[]): Promise<{ page: Page; folder: string; url: string }> {
  const folder = server.folder((await server.openPanel(panel)).contextId);
  await mkdir(join(folder, "lib"));
  for (const [name, text] of Object.entries({
    "index.html": document, "app.js": script, "lib/word.js": `export const word = "hello";\n`, "data.json": "[1]\n", "style.css": "p { color: rgb(1, 2, 3) }\n",
  })) await writeFile(join(folder, name), text);
  const url = (await server.ctxfs("open", panel, ...flags)).trim();
  const page = await browser.newPage();
  await page.goto(url);
  return { page, folder, url };
}

const saw = async (page: Page): Promise<unknown> => {
  await page.waitForFunction(() => globalThis.document.getElementById("out")?.textContent !== "");
  return JSON.parse(await page.textContent("#out") ?? "");
};
const color = (page: Page): Promise<string> => page.evaluate(() => getComputedStyle(globalThis.document.querySelector("p") as Element).color);

for (const policy of ["open", "no-network", "strict"]) {
  test(`a page in the host form has an origin of its own, with the policy ${policy}`, async () => {
    const { page } = await show(`host-${policy}`, "--policy", policy);
    expect(await saw(page)).toEqual({ word: "hello", data: [1], origin: "own", storage: "1", worker: "TypeError", absolute: 200 });
    expect(await color(page)).toBe("rgb(1, 2, 3)");
    await page.close();
  });

  test(`a page in the path form has an opaque origin, with the policy ${policy}`, async () => {
    const { page } = await show(`path-${policy}`, "--sandbox", "--policy", policy);
    expect(await saw(page)).toMatchObject({ word: "hello", data: [1], origin: "opaque", storage: "SecurityError", absolute: "TypeError" });
    expect(await color(page)).toBe("rgb(1, 2, 3)");
    await page.close();
  });
}

test("a changed style sheet is replaced in place, and a changed page is loaded again", async () => {
  for (const flags of [["--policy", "strict"], ["--sandbox", "--policy", "strict"]]) {
    const { page, folder } = await show(`reload${String(flags.length)}`, ...flags);
    await saw(page);
    const events = page.waitForResponse((response) => response.url().includes("/__ctxfs/events"));
    await page.reload();
    await events;
    await page.evaluate(() => { (globalThis as { kept?: boolean }).kept = true; });
    await writeFile(join(folder, "style.css"), "p { color: rgb(4, 5, 6) }\n");
    await expect.poll(() => color(page)).toBe("rgb(4, 5, 6)");
    expect(await page.evaluate(() => (globalThis as { kept?: boolean }).kept)).toBe(true);
    await writeFile(join(folder, "data.json"), "[2]\n");
    await expect.poll(async () => (await saw(page)) as object).toMatchObject({ data: [2] });
    await page.close();
  }
});

test("only the parents of a site show it in a frame", async () => {
  let url = "";
  const shell = createServer((_, response) => { response.setHeader("Content-Type", "text/html").end(`<iframe src="${url}"></iframe>`); });
  await once(shell.listen(0, "127.0.0.1"), "listening");
  const { port } = shell.address() as AddressInfo;
  const parent = `http://parent.localhost:${String(port)}`;
  ({ url } = await show("framed", "--parent", parent));
  for (const [origin, shown] of [[parent, 1], [`http://stranger.localhost:${String(port)}`, 0]] as const) {
    const page = await browser.newPage();
    await page.goto(`${origin}/`); // which waits for the frame
    expect(await page.frameLocator("iframe").locator("#out").count()).toBe(shown);
    await page.close();
  }
  shell.closeAllConnections();
  await new Promise((done) => shell.close(done));
});

test("an isolated site may share memory, and a parent that is isolated shows it", async () => {
  const frames = new Map<string, string>();
  const shell = createServer((request, response) => {
    response.setHeader("Cross-Origin-Opener-Policy", "same-origin").setHeader("Cross-Origin-Embedder-Policy", "require-corp");
    response.setHeader("Content-Type", "text/html").end(`<iframe src="${frames.get(request.url ?? "") ?? ""}" allow="cross-origin-isolated"></iframe>`);
  });
  await once(shell.listen(0, "127.0.0.1"), "listening");
  const parent = `http://parent.localhost:${String((shell.address() as AddressInfo).port)}`;
  for (const [name, flags, alone, framed] of [
    ["isolated", ["--isolate"], true, [true]], ["sandboxed", ["--isolate", "--sandbox"], false, [false]], ["plain", [], false, []],
  ] as const) {
    const { page, url } = await show(`isolated-${name}`, "--parent", parent, ...flags);
    await saw(page);
    expect(await page.evaluate(() => globalThis.crossOriginIsolated), name).toBe(alone);
    frames.set(`/${name}`, url);
    await page.goto(`${parent}/${name}`); // which waits for the frame
    const shown = await page.frameLocator("iframe").locator("#out").evaluateAll((all) => all.map(() => globalThis.crossOriginIsolated));
    expect(shown, name).toEqual(framed);
    await page.close();
  }
  shell.closeAllConnections();
  await new Promise((done) => shell.close(done));
});
