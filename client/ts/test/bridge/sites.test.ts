import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { CustomScheme, Protocol } from "electron";
import { afterAll, beforeAll, expect, test } from "vitest";
import { appSite, handleSites, siteScheme, type SiteProtocol, type SitesOptions } from "../../src/electron-main.js";
import { createFs } from "../../src/index.js";
import type { OpenSite } from "../../src/pages/site.js";
import { startTestServer, type TestServer } from "../serve.js";

// Electron itself cannot be had everywhere: its protocol is replaced by what calls the handler as Electron does.
type Ask = (url: string, init?: RequestInit) => Promise<Response>;

/** The handler's answers, as a page of Electron gets them. */
function electron(options: SitesOptions): Ask {
  const handlers = new Map<string, (request: Request) => Promise<Response>>();
  handleSites({ handle: (scheme, handler) => { handlers.set(scheme, handler); } }, options);
  return async (url, init) => {
    const handler = handlers.get(new URL(url).protocol.slice(0, -1));
    if (!handler) throw new Error(`no handler for ${url}`);
    return handler(new Request(url, init));
  };
}

let server: TestServer;
let fs: ReturnType<typeof createFs>;
let opened: OpenSite, site: OpenSite;
let ask: Ask;
beforeAll(async () => {
  server = await startTestServer("--gateway", "127.0.0.1:0");
  const { token, contextId } = await server.openPanel("electron/sites");
  const folder = server.folder(contextId);
  await mkdir(join(folder, "d"));
  await writeFile(join(folder, "index.html"), "<!doctype html><title>t</title>");
  await writeFile(join(folder, "movie.bin"), "0123456789");
  await writeFile(join(folder, "d", "index.html"), "d");
  fs = createFs({ url: server.url, token });
  opened = await fs.openSite({ policy: "no-network", hub: true, parents: ["http://localhost:1"] });
  site = appSite(opened);
  ask = electron({ gateway: opened.origin.replace(/[a-z2-7]{26}\.localhost/, "127.0.0.1"), parents: ["app://panels", "file:"] });
});
afterAll(async () => {
  await fs.disconnect();
  await server.stop();
});

test("the types are those of Electron", () => {
  const scheme: CustomScheme = siteScheme;
  const handle = (protocol: Protocol): SiteProtocol => protocol;
  expect([scheme.scheme, handle.length]).toEqual(["ctxfs-app", 1]);
});

test("a site has addresses without a port", () => {
  expect(site.url).toMatch(/^ctxfs-app:\/\/[a-z2-7]{26}\/$/);
  expect([`${site.origin}/`, site.hubUrl, site.id]).toEqual([site.url, `${site.url}__ctxfs/hub.html`, opened.id]);
});

test("a path form site is refused", async () => {
  const path = await fs.openSite({ form: "path" });
  expect(() => appSite(path)).toThrow('open it with form "host"');
  await path.close();
});

test("documents and their policy are those of the site, under its address", async () => {
  const page = await ask(site.url, { headers: { accept: "text/html" } });
  expect([page.status, page.headers.get("content-type"), await page.text()]).toEqual([200, "text/html; charset=utf-8", "<!doctype html><title>t</title>"]);
  const policy = page.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("frame-ancestors 'self' http://localhost:1 app://panels file:; ");
  expect(policy).toContain(`default-src ${site.url} `);
  expect(policy).not.toContain(new URL(opened.origin).host);
  const directory = await ask(`${site.url}d?a=1`);
  expect([directory.status, directory.headers.get("location")]).toEqual([308, "/d/?a=1"]);
});

test("a video's ranges are answered", async () => {
  const movie = `${site.url}movie.bin`;
  let etag: string;
  do etag = (await ask(movie, { method: "HEAD" })).headers.get("etag") ?? ""; while (etag === ""); // until its last change was long ago
  const part = await ask(movie, { headers: { range: "bytes=2-4" } });
  expect([part.status, part.headers.get("content-range"), part.headers.get("content-length"), await part.text()]).toEqual([206, "bytes 2-4/10", "3", "234"]);
  const rest = await ask(movie, { headers: { range: "bytes=8-", "if-range": etag } });
  expect([rest.status, await rest.text()]).toEqual([206, "89"]);
  expect((await ask(movie, { headers: { range: "bytes=20-" } })).status).toBe(416);
  const known = await ask(movie, { headers: { "if-none-match": etag } });
  expect([known.status, known.body]).toEqual([304, null]);
});

test("what is no site is refused", async () => {
  const refused = async (url: string, init?: RequestInit): Promise<number> => (await ask(url, init)).status;
  expect(await refused(`ctxfs-app://${"a".repeat(26)}/`)).toBe(404);
  expect(await refused("ctxfs-app://files/x")).toBe(404);
  expect(await refused(`${site.origin}:1/`)).toBe(404);
  expect(await refused(site.url, { method: "POST", body: "x" })).toBe(405);
  const short = await fs.openSite();
  await short.close();
  expect(await refused(appSite(short).url)).toBe(404);
});

test("wrong options are refused", () => {
  expect(() => electron({ gateway: "https://127.0.0.1:1" })).toThrow("gateway must be the address of --gateway");
  expect(() => electron({ gateway: "http://127.0.0.1:1", parents: ["app://a; script-src *"] })).toThrow("is none");
});

test("the gateway gets the site's host name and nothing of the user, and a page that leaves ends the request", async () => {
  const gateway = createServer().listen(0, "127.0.0.1");
  await once(gateway, "listening");
  const { port } = gateway.address() as AddressInfo;
  const own = electron({ gateway: `http://127.0.0.1:${port}` });
  const left = new Promise<void>((resolve) => {
    gateway.on("request", (request, response) => {
      response.once("close", resolve);
      response.write(JSON.stringify([request.url, request.headers.host, Object.keys(request.headers).sort()]));
    });
  });
  const capability = new URL(site.url).host;
  const answer = await own(`${site.url}%2e/ä?q`, { headers: { "accept": "*/*", "cookie": "a=1", "authorization": "Bearer x", "accept-encoding": "gzip", "referer": "http://a" } });
  const reader = answer.body?.getReader();
  expect(JSON.parse(new TextDecoder().decode((await reader?.read())?.value))).toEqual(["/%C3%A4?q", `${capability}.localhost:${port}`, ["accept", "connection", "host"]]);
  await reader?.cancel();
  await left;
  gateway.closeAllConnections();
  gateway.close();
  await once(gateway, "close");
  const gone = await own(site.url);
  expect([gone.status, await gone.text()]).toEqual([502, `the gateway at 127.0.0.1:${port} is not reached\n`]);
});
