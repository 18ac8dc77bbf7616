// The hub of a site: a page at the site's own origin, which a parent shows in a frame. It registers the site's service worker, and keeps files
// for it. It takes requests only from the origins that the server wrote into the page.
import type { Content, HubReady, HubReply, HubRequest, HubStatus, HubStorage, SyncResult } from "../src/pages/protocol.js";
import { ask, version, type FromHub, type ToHub } from "./messages.js";
import { entryOf, isKept, typeOf } from "./serve.js";
import { Database, isPushed, key, maxEntry, Memory, putBounded, type Config, type Entry, type Store } from "./store.js";

/** How long a worker may take to be ready, or to reply, in ms. */
const workerPatience = 10_000;
/** How many files SYNC fetches at once. */
const parallel = 6;

const config = JSON.parse(document.getElementById("config")?.textContent ?? "") as Config;
const storage: HubStorage = new URLSearchParams(location.search).get("storage") === "indexeddb" ? "indexeddb" : "memory";

/** Browsers that give pages of this origin no service worker have none of this. */
const workers = navigator.serviceWorker as ServiceWorkerContainer | undefined;

/** A request that was refused, with Node's name of the error. */
class Refused extends Error {
  constructor(readonly code: string, message: string) { super(message); }
}

/** What serves the site's pages: a worker, and where it finds files. */
interface Service { store: Store; worker: ServiceWorker }

/** Registers the worker, and waits until one of this hub's version is active. A newer script takes over when the browser permits. */
async function begin(): Promise<Service> {
  if (!workers) throw new Error("the browser gives this page no service worker");
  const db = await Database.open();
  const store: Store = storage === "indexeddb" ? db : new Memory();
  if (storage === "memory") await db.clear();
  await db.set(storage, config);
  const registration = await navigator.serviceWorker.register("sw.js", { scope: "/", updateViaCache: "none" });
  await navigator.serviceWorker.ready;
  const worker = await sameVersion(registration);
  await ask(worker, { ask: "drop" }, workerPatience);
  // This page was loaded before there was a worker that could store it.
  if (storage === "indexeddb") await Promise.all(["hub.html", "hub.js"].map(async (name) => fetchOne({ store, worker }, `/__ctxfs/${name}`).catch(() => undefined)));
  return { store, worker };
}

/** Returns the active worker, once it has this page's version. */
async function sameVersion(registration: ServiceWorkerRegistration): Promise<ServiceWorker> {
  const deadline = Date.now() + workerPatience;
  for (let updated = false; ;) {
    const { active } = registration;
    if (active?.state === "activated" && await ask<number>(active, { ask: "version" }, workerPatience).catch(() => 0) === version) return active;
    if (Date.now() > deadline) throw new Error("the site's worker is of another version: close the site's other tabs, and load the page again");
    if (!updated) {
      updated = true;
      await registration.update().catch(() => undefined); // without the server the old worker stays
    }
    await change(registration, deadline);
  }
}

/** Waits for a step of a registration's workers. */
function change(registration: ServiceWorkerRegistration, deadline: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => { clearTimeout(timer); navigator.serviceWorker.removeEventListener("controllerchange", done); resolve(); };
    const timer = setTimeout(done, Math.min(500, Math.max(0, deadline - Date.now())));
    navigator.serviceWorker.addEventListener("controllerchange", done);
    (registration.installing ?? registration.waiting ?? registration.active)?.addEventListener("statechange", done, { once: true });
  });
}

let reason: string | undefined;
const service = begin().catch((error: unknown) => {
  reason = error instanceof Error ? error.message : String(error);
  return undefined;
});

/** The path of a file as keys have it: see canonical. */
function pathOf(name: string): string {
  const segments = name.replace(/^\/+/, "").split("/");
  if (segments.some((s) => s === "" || s === "." || s === "..")) throw new Refused("EINVAL", `${name} is not a path of the site: it has an empty name, . or ..`);
  if (segments[0] === "__ctxfs") throw new Refused("EACCES", "the site's folder __ctxfs is the gateway's");
  return `/${segments.map(encodeURIComponent).join("/")}`;
}

async function put(to: Service, files: Readonly<Record<string, Content>>): Promise<void> {
  const entries = await Promise.all(Object.entries(files).map(async ([name, content]): Promise<Entry> => {
    const path = pathOf(name);
    if (typeof content !== "string" && !(content instanceof ArrayBuffer) && !(content instanceof Blob)) throw new Refused("EINVAL", `${name} must be a text, an ArrayBuffer or a Blob`);
    const type = content instanceof Blob && content.type !== "" ? content.type : typeOf(path, config);
    return { key: key("pushed", path), headers: Object.entries({ ...config.headers, "Content-Type": type, "Cache-Control": "no-cache" }), body: await new Blob([content]).arrayBuffer(), used: Date.now() };
  }));
  await stored(to, () => putBounded(to.store, entries), entries.map((entry) => entry.key));
}

/** Changes the store, and has the worker forget what it had, before the request is answered. */
async function stored(to: Service, make: () => Promise<void>, keys?: string[]): Promise<void> {
  try {
    await make();
  } catch (error) {
    throw (error as Error).name === "QuotaExceededError" ? new Refused("ENOSPC", "the browser has no room for these files") : error;
  }
  await ask(to.worker, keys ? { ask: "drop", keys } : { ask: "drop" }, workerPatience);
}

/** Fetches files of the server whole, and stores them. */
async function sync(to: Service, names: readonly string[]): Promise<SyncResult> {
  const result: SyncResult = { stored: 0, failed: {} };
  const waiting = [...names];
  const work = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      try {
        await fetchOne(to, pathOf(name));
        result.stored++;
      } catch (error) {
        result.failed[name] = error instanceof Error ? error.message : String(error);
      }
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  return result;
}

async function fetchOne(to: Service, path: string): Promise<void> {
  const response = await fetch(path, { cache: "no-cache" });
  if (response.status === 504) throw new Error("the server cannot be reached");
  if (!response.ok) throw new Error(`the server answered ${String(response.status)}`);
  const entry = isKept(path, response, maxEntry) ? await entryOf("file", path, response, maxEntry) : undefined;
  if (!entry) throw new Error(`files of more than ${String(maxEntry >> 20)} MiB are not stored`);
  await stored(to, () => putBounded(to.store, [entry]), [entry.key]);
}

async function status(of: Service | undefined): Promise<HubStatus> {
  const list = await of?.store.list() ?? [];
  const pushed = list.filter((entry) => isPushed(entry.key)).length;
  return {
    offline: of !== undefined, ...(reason === undefined ? {} : { reason }), storage,
    pushed, stored: list.length - pushed, bytes: list.reduce((sum, { size }) => sum + size, 0),
  };
}

async function handle(request: HubRequest): Promise<HubStatus | SyncResult | undefined> {
  if (request.sessionId !== config.site) throw new Refused("EINVAL", "the sessionId is not this site's ID");
  const to = await service;
  if (request.type === "STATUS") return status(to);
  if (!to) throw new Refused("EOPNOTSUPP", `files cannot be kept in this browser: ${reason ?? ""}`);
  switch (request.type) {
    case "PUT_FILES": await put(to, request.files); return undefined;
    case "DELETE_FILES": {
      const keys = request.paths.map((path) => key("pushed", pathOf(path)));
      await stored(to, () => to.store.delete(keys), keys);
      return undefined;
    }
    case "CLEAR": await stored(to, () => to.store.clear()); return undefined;
    case "SYNC": return sync(to, request.paths);
    default: throw new Refused("EINVAL", `unknown request ${String((request as { type: unknown }).type)}`);
  }
}

/** Requests are done in the order in which they came. */
let last: Promise<unknown> = Promise.resolve();

function take(request: HubRequest, reply: (message: HubReply) => void): void {
  const id = (request as { id?: unknown }).id;
  const done = last.then(() => handle(request));
  last = done.catch(() => undefined);
  done.then(
    (value) => { if (typeof id === "number") reply({ type: "OK", id, ...(value === undefined ? {} : { value }) }); },
    (error: unknown) => {
      const code = error instanceof Refused ? error.code : "EIO";
      if (typeof id === "number") reply({ type: "ERROR", id, code, message: (error as Error).message });
      else console.error("ctxfs:", code, (error as Error).message);
    },
  );
}

addEventListener("message", (event: MessageEvent<HubRequest | { type: "HELLO" } | null>) => {
  const { data, source, origin } = event;
  if (!config.parents.includes(origin) || !source || typeof data !== "object" || data === null) return;
  const [port] = event.ports;
  if (data.type === "HELLO") {
    if (port) port.onmessage = (on: MessageEvent<HubRequest>) => { take(on.data, (reply) => { port.postMessage(reply); }); };
    return;
  }
  take(data, (reply) => { source.postMessage(reply, { targetOrigin: origin }); });
});

/** The worker asks a hub that keeps files in memory. */
async function forWorker(message: ToHub): Promise<FromHub | undefined> {
  const to = await service;
  if (!to || storage !== "memory") return undefined;
  switch (message.ask) {
    case "put": await putBounded(to.store, message.entries); return { entries: [], config };
    case "delete": await to.store.delete(message.keys); return { entries: [], config };
    case "get": {
      for (const of of message.keys) {
        const entry = await to.store.get(of);
        if (entry) return { entries: [entry], config };
      }
      return { entries: [], config };
    }
  }
}
workers?.addEventListener("message", (event: MessageEvent<ToHub>) => {
  const [port] = event.ports;
  void forWorker(event.data).then((reply) => { if (reply) port?.postMessage(reply); });
});
workers?.startMessages();

void service.then((ready) => {
  const message: HubReady = { type: "READY", sessionId: config.site, offline: ready !== undefined, ...(reason === undefined ? {} : { reason }) };
  for (const other of [parent, opener as Window | null]) {
    if (other && other !== self) for (const origin of config.parents) other.postMessage(message, origin);
  }
});
