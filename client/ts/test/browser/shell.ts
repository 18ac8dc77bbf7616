// A page that shows sites with their hubs, in Chromium: what the tests of hubs share.
import { Buffer } from "node:buffer";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Browser, BrowserContext, Frame, Page } from "playwright-core";
import { createFs, type CtxFs, type OpenSite, type SiteOptions } from "../../src/index.js";
import type * as Pages from "../../src/pages/index.js";
import { startTestServer, type TestServer } from "../serve.js";
import { startChromium, startProfile } from "./chromium.js";

/** What the script of the test's own pages has. */
declare const pages: typeof Pages;

export let server: TestServer;
export let browser: Browser;
let shell: Server;
/** The origin of the pages that show sites, and that of strangers. */
export let parent: string, stranger: string;
/** What stopShell disconnects. */
export const open: CtxFs[] = [];
/** Profiles that are being removed. */
const profiles: Promise<void>[] = [];

/** Starts a server with sites, a browser, and the pages that show sites. */
export async function startShell(): Promise<void> {
  server = await startTestServer("--gateway", "127.0.0.1:0");
  browser = await startChromium();
  const { outputFiles: [bundle] } = await build({
    entryPoints: [fileURLToPath(new URL("../../src/pages/index.ts", import.meta.url))], bundle: true, write: false, format: "iife", globalName: "pages",
  });
  shell = createServer((_, response) => { response.setHeader("Content-Type", "text/html").end(`<!doctype html><body><script>${bundle?.text ?? ""}</script>`); });
  await once(shell.listen(0, "127.0.0.1"), "listening");
  const { port } = shell.address() as AddressInfo;
  [parent, stranger] = [`http://shell.localhost:${String(port)}`, `http://stranger.localhost:${String(port)}`];
}

export async function stopShell(): Promise<void> {
  await Promise.all(open.map((fs) => fs.disconnect()));
  await browser.close();
  await Promise.all(profiles);
  shell.closeAllConnections();
  shell.close();
  await server.stop();
}

/** Makes a browser profile, whose frames may store files. */
export async function newProfile(...flags: string[]): Promise<BrowserContext> {
  const dir = await mkdtemp(join(tmpdir(), "ctxfs-profile-"));
  const context = await startProfile(dir, ...flags);
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

export const files: Readonly<Record<string, string | Buffer>> = {
  "index.html": `<!doctype html><link rel="stylesheet" href="/style.css"><img src="a b.svg"><video src="tone.wav"></video><p id="out"></p><script type="module" src="/app.js"></script>`,
  "app.js": `import { word } from "./lib/word.js"; document.getElementById("out").textContent = word;`,
  "lib/word.js": `export const word = "from the server";`,
  "style.css": "p { color: rgb(1, 2, 3) }",
  "a b.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>`,
  "tone.wav": sound(),
};

/** Opens a site with a hub, of a panel with these files. */
export async function siteOf(panel: string, options: SiteOptions = {}): Promise<{ site: OpenSite; folder: string }> {
  const { token, contextId } = await server.openPanel(panel);
  const folder = server.folder(contextId);
  await mkdir(join(folder, "lib"));
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  const fs = createFs({ url: server.url, token });
  open.push(fs);
  if (options.snapshot) await server.ctxfs("snapshot", "create", panel, options.snapshot);
  return { site: await fs.openSite({ hub: true, spa: true, parents: [parent], ...options }), folder };
}

/** A page that shows a site, with its hub. */
export async function show(context: BrowserContext, site: Pages.Site, storage: Pages.HubStorage, sync?: string[]): Promise<{ page: Page; frame: Frame; status: Pages.HubStatus }> {
  const page = await context.newPage();
  await page.goto(`${parent}/`);
  const status = await page.evaluate(async ({ site, storage, sync }) => {
    const hub = await pages.openHub(site, { storage, timeoutMs: 60_000 });
    Object.assign(globalThis, { hub });
    if (sync) {
      const { failed } = await hub.sync(sync);
      if (Object.keys(failed).length > 0) throw new Error(JSON.stringify(failed));
    }
    return hub.status();
  }, { site: plain(site), storage, sync });
  return { page, frame: await mount(page, site), status };
}

export const plain = ({ id, url, origin, hubUrl }: Pages.Site): Pages.Site => ({ id, url, origin, hubUrl });

export async function mount(page: Page, site: Pages.Site, path = "/"): Promise<Frame> {
  const element = await page.evaluateHandle(({ site, path }) => pages.mountPage(document.body, site, path), { site: plain(site), path });
  const frame = await element.contentFrame();
  if (!frame) throw new Error("the element is no frame");
  await frame.waitForLoadState();
  return frame;
}

/** Calls a function of the page's hub. */
export const hub = <K extends "putFiles" | "deleteFiles" | "sync" | "clear" | "status">(page: Page, name: K, ...args: Parameters<Pages.Hub[K]>): Promise<Awaited<ReturnType<Pages.Hub[K]>>> =>
  page.evaluate(({ name, args }) => ((globalThis as unknown as { hub: Record<string, (...a: unknown[]) => unknown> }).hub[name] as (...a: unknown[]) => unknown)(...args), { name, args: args }) as Promise<Awaited<ReturnType<Pages.Hub[K]>>>;

export const word = async (frame: Frame): Promise<string | null> => {
  await frame.waitForFunction(() => !["", undefined].includes(document.getElementById("out")?.textContent), undefined, { polling: 50 }); // frames of tabs in the background are not drawn
  return frame.textContent("#out");
};

/** What a page shows of its image and its video, and whether the video seeks. */
export const media = (frame: Frame): Promise<unknown> => frame.evaluate(async () => {
  const video = document.querySelector("video") as HTMLVideoElement;
  await new Promise<void>((resolve, reject) => {
    video.onerror = () => { reject(new Error(video.error?.message ?? "")); };
    video.onseeked = () => { resolve(); };
    video.currentTime = 20;
  });
  const range = await fetch("tone.wav", { headers: { Range: "bytes=4-7" } });
  return { image: (document.querySelector("img") as HTMLImageElement).naturalWidth, at: video.currentTime, range: [range.status, range.headers.get("Content-Range")] };
});
export const shown = { image: 7, at: 20, range: [206, "bytes 4-7/240044"] };

/** What a proxy does with the requests of a browser. */
export interface Hooks {
  /** Answers in place of the gateway, if it returns true. Else the gateway is asked once it resolves. */
  answer?(path: string, response: ServerResponse): Promise<boolean> | boolean;
  /** Changes the text of an answer. */
  body?(text: string, path: string): string;
}

/** A site behind a proxy. */
export interface Proxied {
  site: Pages.Site;
  /** The paths that were asked for. */
  asked: string[];
  stop(): void;
}

/** Forwards to the gateway under a port of its own. */
export async function proxyOf(site: OpenSite, hooks: Hooks = {}): Promise<Proxied> {
  const { port } = new URL(site.url);
  const asked: string[] = [];
  const forward = async (path: string, from: IncomingMessage, to: ServerResponse): Promise<void> => {
    asked.push(path);
    if (await hooks.answer?.(path, to)) return;
    const host = (from.headers.host ?? "").replace(/:\d+$/, `:${port}`);
    const request = httpRequest({ port, method: from.method, path, headers: { ...from.headers, host, "accept-encoding": "identity" } });
    const [answer] = await once(from.pipe(request), "response") as [IncomingMessage];
    const body = Buffer.concat(await answer.toArray() as Buffer[]);
    const sent = hooks.body && /text|javascript/.test(answer.headers["content-type"] ?? "") ? Buffer.from(hooks.body(body.toString(), path)) : body;
    to.writeHead(answer.statusCode ?? 500, { ...answer.headers, ...(answer.headers["content-length"] === undefined ? {} : { "content-length": sent.length }) }).end(sent);
  };
  const proxy = createServer((from, to) => { forward(from.url ?? "/", from, to).catch(() => { to.destroy(); }); });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  const own = String((proxy.address() as AddressInfo).port);
  const at = (url: string): string => url.replace(`:${port}`, `:${own}`);
  return {
    site: { id: site.id, url: at(site.url), origin: at(site.origin), hubUrl: at(site.hubUrl) }, asked,
    stop: () => { proxy.closeAllConnections(); proxy.close(); },
  };
}
