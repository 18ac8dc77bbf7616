import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders, type Server, type ServerResponse } from "node:http";
import { connect, createServer as createTcp, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { BrowserContext, Frame, Page } from "playwright-core";
import { createFs, type CtxFs, type SiteOptions } from "../../src/index.js";
import type * as Pages from "../../src/pages/index.js";
import { startTestServer, type TestServer } from "../serve.js";
import { startProfile } from "./chromium.js";

/** What the shell's page has. */
declare const pages: typeof Pages;

/** Takes one protection away. The other protections stay. */
export interface Removal {
  /** Changes what the browser asks of the gateway or of --http. */
  request?(headers: IncomingHttpHeaders): void;
  /** Changes the headers of an answer. */
  response?(headers: OutgoingHttpHeaders, path: string): void;
  /** Changes the text of an answer. stranger is the stranger's origin. */
  body?(text: string, path: string, stranger: string): string;
  /** A script that changes what the shell's page has. */
  shell?: string;
  /** What the names of sites end in, in place of "localhost"; "one" gives all sites one origin. */
  domain?: "sites.example" | "one";
}

/** A server with sites of an attacker and of a victim, the shell that shows them, a stranger's pages, and a browser. */
export interface Lair {
  readonly server: TestServer;
  readonly browser: BrowserContext;
  /** The origins of the page that shows sites, and of a page that nobody let in. Both have every path. */
  readonly shell: string;
  readonly stranger: string;
  /** The paths that were asked of the stranger, without their queries, and what its other ports heard. */
  readonly heard: Set<string>;
  /** Opens ports of the stranger that note a connection and a datagram by the paths that name returns. */
  listens(name: (kind: "preconnect" | "RTCPeerConnection") => string): Promise<{ udp: number; tcp: number }>;
  /** Begins the try of a row: all of it ends with stop. */
  begin(without?: Removal): Promise<Stage>;
  stop(): Promise<void>;
}

/** One try of a row, with all protections or without one. */
export interface Stage {
  readonly lair: Lair;
  /** Where --http is, behind what removes the protection. */
  readonly http: string;
  open(of: "attacker" | "victim", options?: SiteOptions): Promise<Opened>;
  visit(url: string): Promise<Page>;
  /** The shell's page, with a site in a frame by mountPage; with its hub in another frame if it has one. */
  show(site: Pages.Site, path?: string): Promise<{ page: Page; frame: Frame }>;
  stop(): Promise<void>;
}

/** A site, and how it ends. */
export interface Opened extends Pages.Site { end(): Promise<void> }

const victimFiles: Readonly<Record<string, string>> = {
  "index.html": `<!doctype html><title>victim</title><p id="out">SECRET</p><script>addEventListener("message", (event) => { document.title = "heard " + event.data; })</script>`,
  "secret.txt": "SECRET", "secret.js": `globalThis.stolen = "SECRET";`, "secret.css": "html { --stolen: SECRET }", "secret.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>`,
};
const attackerFiles: Readonly<Record<string, string>> = {
  "index.html": `<!doctype html><title>attacker</title><p id="out">attacker</p>`, "worker.js": "", "inline.html": "<!doctype html><script>globalThis.ran = true</script>", "data.html": `<!doctype html><script src="data:text/javascript,globalThis.ran = true"></script>`,
  "eval.html": `<!doctype html><script src="eval.js"></script>`, "eval.js": `(0, eval)("globalThis.ran = true")`,
  "page.svg": `<svg xmlns="http://www.w3.org/2000/svg"><text>x</text></svg>`, "page.xhtml": `<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body/></html>`,
  "page.xml": `<x xmlns:h="http://www.w3.org/1999/xhtml"><h:p/></x>`,
};

/** Starts everything that the rows share. */
export async function startLair(): Promise<Lair> {
  const server = await startTestServer("--gateway", "127.0.0.1:0");
  const dir = await mkdtemp(join(tmpdir(), "ctxfs-profile-"));
  const browser = await startProfile(dir, "--host-resolver-rules=MAP *.sites.example 127.0.0.1");
  const panels = { attacker: await panelWith(server, "attacker", attackerFiles), victim: await panelWith(server, "victim", victimFiles) };
  const heard = new Set<string>();
  const bundle = await pagesBundle();
  const scripts = new Map<string, string>();
  const web = createServer((request, response) => {
    const name = (request.headers.host ?? "").split(".")[0];
    if (name === "stranger") heard.add((request.url ?? "").replace(/\?.*$/, ""));
    response.setHeader("Access-Control-Allow-Origin", "*").setHeader("Content-Type", "text/html");
    response.end(name === "shell" ? `<!doctype html><body><script>${bundle}\n${scripts.get(request.url ?? "") ?? ""}</script>` : `<!doctype html><title>stranger</title>`);
  });
  web.on("upgrade", (request, socket) => { heard.add(request.url ?? ""); socket.destroy(); });
  const port = await listen(web);
  const ends: (() => void)[] = [() => { close(web); }];
  const lair: Lair = {
    server, browser, heard, shell: `http://shell.localhost:${port}`, stranger: `http://stranger.localhost:${port}`,
    begin: (without) => begin(lair, panels, scripts, without),
    async listens(name) {
      const udp = createSocket("udp4", () => { heard.add(name("RTCPeerConnection")); });
      const tcp = createTcp((socket) => { heard.add(name("preconnect")); socket.destroy(); });
      ends.push(() => { udp.close(); tcp.close(); });
      await Promise.all([once(udp.bind(0, "127.0.0.1"), "listening"), once(tcp.listen(0, "127.0.0.1"), "listening")]);
      return { udp: udp.address().port, tcp: (tcp.address() as AddressInfo).port };
    },
    async stop() {
      await Promise.all(Object.values(panels).map((fs) => fs.disconnect()));
      await browser.close();
      await rm(dir, { recursive: true, force: true, maxRetries: 5 });
      for (const end of ends) end();
      await server.stop();
    },
  };
  return lair;
}

async function panelWith(server: TestServer, name: string, files: Readonly<Record<string, string>>): Promise<CtxFs> {
  const { token, contextId } = await server.openPanel(name);
  for (const [file, text] of Object.entries(files)) await writeFile(join(server.folder(contextId), file), text);
  return createFs({ url: server.url, token });
}

async function pagesBundle(): Promise<string> {
  const { outputFiles: [bundle] } = await build({
    entryPoints: [fileURLToPath(new URL("../../src/pages/index.ts", import.meta.url))], bundle: true, write: false, format: "iife", globalName: "pages",
  });
  return bundle?.text ?? "";
}

async function listen(server: Server): Promise<string> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return String((server.address() as AddressInfo).port);
}

function close(server: Server): void {
  server.closeAllConnections();
  server.close();
}

async function begin(lair: Lair, panels: Record<"attacker" | "victim", CtxFs>, scripts: Map<string, string>, without?: Removal): Promise<Stage> {
  const opened: { close(): Promise<void> }[] = [], shown: Page[] = [], proxies: Server[] = [];
  const before = new Set(lair.browser.pages());
  let gateway = "", gatewayProxy = "", http = lair.server.url;
  if (without) http = `http://127.0.0.1:${await proxyTo(new URL(http).port, without, lair.stranger, proxies)}`;
  const at = (url: string): string => {
    const moved = url.replace(`:${gateway}`, `:${gatewayProxy}`);
    if (without?.domain === "one") return moved.replace(/^http:\/\/(\w{26})\.localhost(:\d+)/, "http://one.localhost$2/$1");
    return without?.domain ? moved.replace(".localhost:", `.${without.domain}:`) : moved;
  };
  const visit = async (url: string): Promise<Page> => {
    const page = await lair.browser.newPage();
    shown.push(page);
    await page.goto(url);
    return page;
  };
  return {
    lair, http, visit,
    async open(of, options = {}) {
      const site = await panels[of].openSite({ parents: [lair.shell], ...options });
      opened.push(site);
      gateway ||= new URL(site.url).port;
      if (without && gatewayProxy === "") gatewayProxy = await proxyTo(gateway, without, lair.stranger, proxies);
      const end = async (): Promise<void> => { opened.splice(opened.indexOf(site), 1); await site.close(); };
      if (!without) return { id: site.id, url: site.url, origin: site.origin, hubUrl: site.hubUrl, end };
      return { id: site.id, url: at(site.url), origin: at(site.origin).split("/", 3).join("/"), hubUrl: at(site.hubUrl), end };
    },
    async show({ id, url, origin, hubUrl }, path = "/") {
      const script = `/${String(scripts.size)}`;
      scripts.set(script, without?.shell ?? "");
      const page = await visit(lair.shell + script);
      const element = await page.evaluateHandle(async ({ site, path }) => {
        if (site.hubUrl) Object.assign(globalThis, { hub: await pages.openHub(site, { storage: "indexeddb" }) });
        return pages.mountPage(document.body, site, path);
      }, { site: { id, url, origin, hubUrl }, path });
      const frame = await element.contentFrame();
      if (!frame) throw new Error("the element is no frame");
      await frame.waitForLoadState();
      return { page, frame };
    },
    async stop() {
      await Promise.all(lair.browser.pages().filter((page) => !before.has(page)).map((page) => page.close()));
      await Promise.all(opened.map((site) => site.close()));
      proxies.forEach(close);
    },
  };
}

/** Starts a proxy that takes a protection away, and returns its port. */
async function proxyTo(port: string, without: Removal, stranger: string, proxies: Server[]): Promise<string> {
  let own = "";
  const forward = (from: IncomingMessage): { path: string; headers: IncomingHttpHeaders } => {
    const headers = { ...from.headers, "accept-encoding": "identity" };
    let host = (headers.host ?? "").replace(".sites.example", ".localhost").replace(`:${own}`, `:${port}`), path = from.url ?? "/";
    const [, capability, rest] = host.startsWith("one.") ? /^\/(\w{26})(\/.*)$/.exec(path) ?? [] : [];
    if (capability && rest) [host, path] = [host.replace("one.", `${capability}.`), rest];
    headers.host = host;
    without.request?.(headers);
    return { path, headers };
  };
  const proxy = createServer((from: IncomingMessage, to: ServerResponse) => {
    const { path, headers } = forward(from);
    const asked = httpRequest({ port, method: from.method, path, headers }, (answer) => {
      void answer.toArray().then((parts: Buffer[]) => {
        const moved = (text: string): string => text.replaceAll(`:${port}`, `:${own}`);
        const text = moved(Buffer.concat(parts).toString());
        const changed = { ...answer.headers } as OutgoingHttpHeaders;
        for (const name of ["content-security-policy", "connection-allowlist"]) if (typeof changed[name] === "string") changed[name] = moved(changed[name]);
        without.response?.(changed, path);
        const body = without.body?.(text, path, stranger) ?? text;
        to.writeHead(answer.statusCode ?? 500, { ...changed, "content-length": Buffer.byteLength(body) }).end(body);
      }, () => to.destroy());
    });
    asked.on("error", () => to.destroy());
    from.pipe(asked);
  });
  proxy.on("upgrade", (from: IncomingMessage, socket: Socket, head: Buffer) => {
    const { path, headers } = forward(from);
    const through = connect(Number(port), "127.0.0.1", () => {
      through.write(`GET ${path} HTTP/1.1\r\n${Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}`).join("\r\n")}\r\n\r\n`);
      through.write(head);
      through.pipe(socket).pipe(through);
    });
    through.on("error", () => socket.destroy());
    socket.on("error", () => through.destroy());
  });
  own = await listen(proxy);
  proxies.push(proxy);
  return own;
}
