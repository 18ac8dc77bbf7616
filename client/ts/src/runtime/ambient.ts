import { findServer, makeDialer } from "#platform";
import { fsOver, type CreateOptions, type CtxFs } from "../create.js";
import { requireKnown } from "../errors/options.js";
import { Client } from "../session/client.js";
import type { Dialer } from "../session/link.js";
import type { TokenSource } from "../session/token.js";
import { globalName, portMessage, wantMessage, type ExposedPanel } from "../bridge/channels.js";
import { portDialer, type PortSource } from "../bridge/panelport.js";

/** Where the fs that programs import finds its files: a server, or the port of a bridge. */
export type PanelOptions = Omit<CreateOptions, "contextId" | "pingEvery"> | { readonly port: PortSource };

/** The program's one fs. It stands on globalThis, since a bundle may hold this module twice. */
interface Ambient {
  options?: PanelOptions | undefined;
  fs?: CtxFs | undefined;
}

const key = Symbol.for("ctxfs.ambient");
const shared = globalThis as unknown as Record<symbol, Ambient | undefined>;
const ambient: Ambient = (shared[key] ??= {});

/** What a page's global variable ctxfs may say: a preload's words, or the page's own, set before the first call. */
export type PageSettings = Partial<ExposedPanel> & { readonly url?: string; readonly token?: TokenSource };

/**
 * Says where the imported fs finds its files. Without it: the global variable ctxfs of a page ({url, token}, or what an
 * Electron preload made of it by exposeCtxfs); in Node the server that createFs() without options finds.
 * Call it before the first use of fs.
 */
export function configure(options: PanelOptions): void {
  requireKnown(options, ["address", "socket", "url", "panel", "transport", "token", "port"]);
  ambient.options = options;
}

/** The fs that programs import. It connects at its first call. */
export function ambientFs(): CtxFs {
  ambient.fs ??= fsOver(new Client({ dialer: lazyDialer(), token: async () => tokenOf(found()) }));
  return ambient.fs;
}

/** The page's global variable ctxfs. */
export function pageSettings(): PageSettings | undefined {
  return (globalThis as { [globalName]?: PageSettings })[globalName];
}

/** A variable of the environment; undefined in browsers. */
export function environment(name: string): string | undefined {
  return (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name];
}

function lazyDialer(): Dialer {
  let dialer: Dialer | undefined;
  return {
    get tokenInOpen() { return dialer?.tokenInOpen ?? false; },
    dial: (token) => (dialer ??= dialerOf(found())).dial(token),
    close: () => { dialer?.close(); },
  };
}

function dialerOf(options: PanelOptions): Dialer {
  return "port" in options ? portDialer(options.port) : makeDialer(options);
}

function tokenOf(options: PanelOptions): string | Promise<string> {
  if ("port" in options || options.token === undefined) return "";
  return typeof options.token === "function" ? options.token() : options.token;
}

function found(): PanelOptions {
  if (ambient.options) return ambient.options;
  const page = pageSettings();
  if (page?.url !== undefined) return { url: page.url, token: page.token };
  if (page?.contextId !== undefined) return { port: portOfPreload };
  if (findServer) return findServer();
  throw new Error(
    "fs is ctxfs here, and does not know its server: call configure() of @ctxfs/client/runtime, set globalThis.ctxfs = { url, token } in the page, "
    + "or call exposeCtxfs() in the window's preload",
  );
}

/** Asks the window's preload for a port, which cannot pass through contextBridge but by a message of the window. */
function portOfPreload(): Promise<MessagePort> {
  return new Promise((resolve) => {
    const heard = (event: MessageEvent<unknown>): void => {
      const [port] = event.ports;
      if (event.source !== window || event.data !== portMessage || !port) return;
      window.removeEventListener("message", heard);
      resolve(port);
    };
    window.addEventListener("message", heard);
    window.postMessage(wantMessage, "*");
  });
}
