import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestServer, type TestServer } from "../serve.js";
import { firefox, Firefox, type Tab } from "./firefox.js";
import { pixel, put, wav, type Files } from "./sitefiles.js";

/* Sites in Firefox: both forms, live reload, and media. preview.full.test.ts has the same and more in Chromium. */


if (firefox === undefined) console.log("skipped: no Firefox is on PATH (Debian: apt-get install firefox-esr), and FIREFOX names none");

describe.skipIf(firefox === undefined)("a site in Firefox", () => {
  let server: TestServer;
  let browser: Firefox;
  let page: Tab;
  beforeAll(async () => {
    server = await startTestServer("--gateway", "127.0.0.1:0");
    browser = await Firefox.start();
    page = await browser.newPage();
  }, 120_000);
  afterAll(async () => {
    await browser.stop();
    await server.stop();
  });

  async function panelWith(panel: string, files: Files): Promise<string> {
    const folder = server.folder((await server.openPanel(panel)).contextId);
    await put(folder, files);
    return folder;
  }

  const open = async (...args: string[]): Promise<string> => (await server.ctxfs("open", ...args)).trim();

  /** Waits until an expression is true in the page. */
  const until = async (expression: string): Promise<void> => {
    await page.evaluate(`new Promise((done) => { const look = () => { if (${expression}) done(); else requestAnimationFrame(look); }; look(); })`);
  };

  test("has an origin of its own, with modules, storage and files from its root, and shows edits", async () => {
    const folder = await panelWith("whole", {
      "index.html": '<!doctype html><html><head><script type="module" src="/assets/main.js"></script></head><body><img src="/assets/pixel.png"><p>first</p></body></html>',
      "assets/main.js": 'import { name } from "./name.js";\nlocalStorage.setItem("visits", String(1 + Number(localStorage.getItem("visits"))));\ndocument.documentElement.dataset.ran = name;\n',
      "assets/name.js": 'export const name = "module";\n', "assets/pixel.png": pixel,
    });
    const url = await open("whole");
    await page.goto(url);
    await until("document.documentElement.dataset.ran === 'module'");
    expect(await page.evaluate("({ origin: self.origin + '/', width: document.images[0].naturalWidth, visits: localStorage.getItem('visits') })"))
      .toEqual({ origin: url, width: 1, visits: "1" });
    await writeFile(join(folder, "index.html"), "<!doctype html><body>second");
    for (let shown: unknown; shown !== "second";) { // an evaluation fails while the page is loaded again
      shown = await page.evaluate("document.body.textContent").catch(() => undefined);
    }
  });

  test("is a srcdoc with a base tag, whose modules and fetches come from an opaque origin", async () => {
    await panelWith("srcdoc", {
      "main.js": 'import { name } from "./name.js";\nparent.postMessage({ name, data: await (await fetch("data.json")).json(), origin: self.origin }, "*");\n',
      "name.js": 'export const name = "module";\n', "data.json": "[1]\n",
    });
    const base = await open("srcdoc", "--sandbox");
    const shell = createServer((_, response) => { response.setHeader("Content-Type", "text/html").end("<!doctype html><body>"); });
    await once(shell.listen(0, "127.0.0.1"), "listening");
    await page.goto(`http://127.0.0.1:${String((shell.address() as AddressInfo).port)}/`);
    expect(await page.evaluate(`new Promise((done) => {
      addEventListener("message", ({ data }) => { done(data); });
      const frame = document.createElement("iframe");
      frame.setAttribute("sandbox", "allow-scripts");
      frame.srcdoc = ${JSON.stringify(`<!doctype html><base href="${base}"><script type="module" src="main.js"></script>`)};
      document.body.append(frame);
    })`)).toEqual({ name: "module", data: [1], origin: "null" });
    shell.closeAllConnections();
    await new Promise((done) => shell.close(done));
  });

  test("has media elements that seek by ranges", async () => {
    const seconds = 4000;
    await panelWith("media", { "index.html": '<!doctype html><body><audio src="sound.wav" preload="metadata"></audio>', "sound.wav": wav(seconds) });
    await page.goto(await open("media"));
    expect(await page.evaluate(`(async () => {
      const audio = document.querySelector("audio");
      if (audio.readyState === 0) await new Promise((done) => { audio.addEventListener("loadedmetadata", done, { once: true }); });
      audio.currentTime = ${String(seconds - 100)};
      await new Promise((done) => { audio.addEventListener("seeked", done, { once: true }); });
      return { at: audio.currentTime, duration: audio.duration };
    })()`)).toEqual({ at: seconds - 100, duration: seconds });
  });
});
