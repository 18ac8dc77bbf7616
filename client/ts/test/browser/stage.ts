import { once } from "node:events";
import { chmod, readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";
import { getuid } from "node:process";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { startServer, type Server } from "../../src/server/index.js";
import { startTestServer, type TestServer } from "../serve.js";
import { startChromium } from "./chromium.js";
import { install, type Installed } from "./installed.js";

/** All that a test in a page needs: a server of pages, whose origin a ctxfs server lets in, and a browser. */
export interface Stage {
  readonly server: TestServer;
  readonly host: Server;
  readonly installed: Installed;
  /** Where pages come from: "http://localhost:PORT". */
  readonly origin: string;
  /** Lets a bundler's server answer what it knows, before files are looked for. */
  use(middleware: Middleware): void;
  /** Opens a page that runs a module, which calls report when it is done; gives what it reported. */
  run(script: string, settings?: object): Promise<unknown>;
  /** Makes a browser profile, whose pages share storage. */
  newContext(): Promise<BrowserContext>;
  /** Opens a page that runs a module. */
  open(script: string, settings?: object, origin?: string): Promise<Page>;
  stop(): Promise<void>;
}

/** As Connect and Vite have them. */
export type Middleware = (request: IncomingMessage, response: ServerResponse, next: () => void) => void;

const types: Readonly<Record<string, string>> = { ".js": "text/javascript", ".html": "text/html", ".css": "text/css" };

/** Sets the stage. Pages are of the directory where the client is installed. */
export async function setStage(): Promise<Stage> {
  const installed = await install();
  const pages = createServer();
  const origin = await listen(pages);
  const server = await startTestServer("--origin", origin, "--lease-grace", "1h", ...(getuid?.() === 0 ? ["--exec-user", "4321:4321"] : []));
  await chmod(server.workspace, 0o755); // the user of commands passes through it
  const host = await startServer({ workspace: server.workspace });
  const browser = await startChromium();
  let middleware: Middleware = (_request, _response, next) => { next(); };
  answer(pages, host, installed.dir, server.url, (...args) => { middleware(...args); });
  const open = (script: string, settings?: object, from = origin): Promise<Page> => openPage(browser, `${from}/page?${new URLSearchParams({ script, settings: JSON.stringify(settings ?? {}) }).toString()}`);
  return {
    server, host, installed, origin, open,
    newContext: () => browser.newContext(),
    use: (given) => { middleware = given; },
    run: async (script, settings) => {
      const page = await open(script, settings);
      try {
        return await page.evaluate(() => (globalThis as unknown as { reported: Promise<unknown> }).reported);
      } finally {
        await page.close();
      }
    },
    stop: async () => {
      await browser.close();
      pages.closeAllConnections();
      pages.close();
      await host.stop();
      await server.stop();
      await installed.remove();
    },
  };
}

async function listen(pages: HttpServer): Promise<string> {
  pages.listen(0); // localhost in both of its forms
  await once(pages, "listening");
  return `http://localhost:${(pages.address() as AddressInfo).port}`;
}

/** Serves /page, a document that runs a script; /panel/ID, what a page's backend gives the page of its panel; and files. */
function answer(pages: HttpServer, host: Server, dir: string, url: string, middleware: Middleware): void {
  pages.on("request", (request, response) => {
    const asked = new URL(request.url ?? "/", "http://localhost");
    const send = (type: string, body: string | Buffer, status = 200): void => { response.writeHead(status, { "content-type": type }).end(body); };
    const reply = async (): Promise<void> => {
      if (asked.pathname === "/page") {
        send("text/html", documentOf(asked.searchParams));
      } else if (asked.pathname.startsWith("/panel/")) {
        const { contextId, partition, token } = await host.openPanel(asked.pathname.slice("/panel/".length));
        send("application/json", JSON.stringify({ contextId, partition, token, url }));
      } else {
        await new Promise<void>((resolve) => { middleware(request, response, resolve); });
        send(types[extname(asked.pathname)] ?? "application/octet-stream", await readFile(join(dir, normalize(asked.pathname))));
      }
    };
    reply().catch((error: unknown) => { send("text/plain", String(error), 404); });
  });
}

/** A document. What its script fails with is what it reports, and so fails the test. */
function documentOf(query: URLSearchParams): string {
  return `<!doctype html><meta charset="utf-8"><div id="root"></div><script>
    globalThis.reported = new Promise((resolve, reject) => {
      Object.assign(globalThis, { report: resolve, reject });
      addEventListener("error", (event) => reject(event.error ?? new Error(event.message)));
      addEventListener("unhandledrejection", (event) => reject(event.reason));
    });
    globalThis.settings = ${query.get("settings") ?? "{}"};
    if (settings.ctxfs) globalThis.ctxfs = settings.ctxfs;
  </script>${(query.get("script") ?? "").split(" ").map((src) => `<script type="module" src="${src}" onerror="reject(new Error('${src} is not loaded'))"></script>`).join("")}`;
}

async function openPage(browser: Browser, url: string): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(url);
  return page;
}
