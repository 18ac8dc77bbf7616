// The hub of a site: a page at the site's own origin, which a parent shows in a frame. It registers the site's service worker, and keeps files
// for it. It takes requests only from the origins that the server wrote into the page.
import type { Content, HubReady, HubReply, HubRequest, HubStatus, HubStorage, SyncResult } from "../src/pages/protocol.js";
import { ask, directHeader, version, type FromHub, type ToHub } from "./messages.js";
import { entryOf, isKept, typeOf, unreachable } from "./serve.js";
import { Database, isPushed, key, maxEntry, Memory, metaOf, type Config, type Entry, type Store } from "./store.js";

/** How long a worker may take to be ready, or to reply, in ms. */
const workerPatience = 10_000;
/** How long the server may be silent, how long it may take to send this page again, and how long a hub of the other storage may take to end, in ms. */
const serverPatience = 10_000, ownPatience = 2000, hubPatience = 1000;
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

/** Resolves after a time, in ms. */
const after = (ms: number): Promise<void> => new Promise((resolve) => { setTimeout(resolve, ms); });

/**
 * Holds a lock for as long as this page lives. The worker finds files in one place, so that all hubs of a site that are open have the same storage:
 * one with the other storage would hide what was put into the first.
 */
async function claim(): Promise<void> {
  const lockOf = (of: HubStorage): string => `ctxfs-hub-${of}`;
  const other = storage === "memory" ? "indexeddb" : "memory";
  await navigator.locks.request("ctxfs-hub", async () => {
    try {
      await navigator.locks.request(lockOf(other), { signal: AbortSignal.timeout(hubPatience) }, () => undefined);
    } catch (error) {
      if ((error as Error).name !== "TimeoutError") throw error;
      throw new Refused("EBUSY", `another hub of this site is open with storage "${other}": close it first, or open this one with the same storage`);
    }
    await new Promise<void>((resolve, reject) => {
      navigator.locks.request(lockOf(storage), { mode: "shared" }, () => { resolve(); return new Promise(() => undefined); }).catch(reject);
    });
  });
}

/** Begins to keep files. */
async function begin(): Promise<Service> {
  if (!workers) throw new Error("the browser gives this page no service worker");
  const db = await Database.open();
  await claim();
  const store: Store = storage === "indexeddb" ? db : new Memory();
  await db.set(storage);
  const worker = await workerOf();
  await ask(worker, { ask: "drop" }, workerPatience);
  // This page was loaded before there was a worker that could store it. A hub that was stored before opens without the server.
  if (storage === "indexeddb") await Promise.race([sync({ store, worker }, ["/__ctxfs/hub.html", "/__ctxfs/hub.js"], (path) => path), after(ownPatience)]);
  return { store, worker };
}

const versionOf = (worker: ServiceWorker): Promise<number> => ask<number>(worker, { ask: "version" }, workerPatience).catch(() => 0);

/** Registers the worker, and waits until one of this hub's version is active. A newer script takes over when the browser permits. */
async function workerOf(): Promise<ServiceWorker> {
  // The browser looks for a newer script by itself when a page is loaded. Registering waits for it, and so for a server that hangs.
  const active = (await navigator.serviceWorker.getRegistration("/"))?.active;
  if (active?.state === "activated" && await versionOf(active) === version) return active;
  const registration = await navigator.serviceWorker.register("sw.js", { scope: "/", updateViaCache: "none" });
  await navigator.serviceWorker.ready;
  return sameVersion(registration);
}

/** Returns the active worker, once it has this page's version. */
async function sameVersion(registration: ServiceWorkerRegistration): Promise<ServiceWorker> {
  const deadline = Date.now() + workerPatience;
  for (let updated = false; ;) {
    const { active } = registration;
    if (active?.state === "activated" && await versionOf(active) === version) return active;
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

let reason: string | undefined, code: string | undefined;
const service = begin().catch((error: unknown) => {
  reason = error instanceof Error ? error.message : String(error);
  if (error instanceof Refused) ({ code } = error);
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
    return { key: key("pushed", path), headers: Object.entries({ ...config.headers, "Content-Type": type, "Cache-Control": "no-cache" }), body: await new Blob([content]).arrayBuffer() };
  }));
  await stored(to, () => to.store.put(entries), entries.map((entry) => entry.key));
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

/** Ends the SYNCs that run when all files are deleted, so that they store nothing after it. */
let clearing = new AbortController();

/** Fetches files of the server whole, and stores them. Gives the rest up when the server sends nothing for serverPatience. */
async function sync(to: Service, names: readonly string[], path = pathOf): Promise<SyncResult> {
  const result: SyncResult = { stored: 0, failed: {} };
  const silence = new AbortController();
  const signal = AbortSignal.any([silence.signal, clearing.signal]);
  let timer: ReturnType<typeof setTimeout> | undefined, fetching = 0;
  const heard = (): void => {
    clearTimeout(timer);
    if (fetching > 0) timer = setTimeout(() => { silence.abort(new Error(`the server sent nothing for ${String(serverPatience / 1000)} s`)); }, serverPatience);
  };
  const change = (by: 1 | -1): void => { fetching += by; heard(); };
  const waiting = [...names];
  const work = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      try {
        signal.throwIfAborted();
        change(1);
        const entry = await fetchOne(path(name), signal, heard).finally(() => { change(-1); });
        await storeFetched(to, entry, signal);
        result.stored++;
      } catch (error) {
        result.failed[name] = error instanceof Error ? error.message : String(error);
      }
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  return result;
}

/** Fetches a file of the server, and not of the worker. */
async function fetchOne(path: string, signal: AbortSignal, heard: () => void): Promise<Entry> {
  const response = await fetch(path, { cache: "no-cache", headers: { [directHeader]: "1" }, signal });
  heard();
  if (unreachable(response)) throw new Error("the server cannot be reached");
  if (!response.ok) throw new Error(`the server answered ${String(response.status)}`);
  const entry = isKept(path, response, maxEntry) ? await entryOf("file", path, response, maxEntry, heard) : undefined;
  if (!entry) throw new Error(`files of more than ${String(maxEntry >> 20)} MiB are not stored`);
  return entry;
}

async function storeFetched(to: Service, entry: Entry, signal: AbortSignal): Promise<void> {
  const { etag } = metaOf(entry);
  if (etag?.startsWith('"') && (await to.store.find(entry.key))?.etag === etag) return;
  signal.throwIfAborted();
  await stored(to, () => to.store.put([entry]), [entry.key]);
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
    case "CLEAR": {
      clearing.abort(new Error("all files were deleted"));
      clearing = new AbortController();
      await stored(to, () => to.store.clear());
      return undefined;
    }
    case "SYNC": return sync(to, request.paths);
    default: throw new Refused("EINVAL", `unknown request ${String((request as { type: unknown }).type)}`);
  }
}

/** Requests are done in the order in which they came. None waits for a SYNC, which waits for the server. */
let last: Promise<unknown> = Promise.resolve();

function take(request: HubRequest, reply: (message: HubReply) => void): void {
  const id = (request as { id?: unknown }).id;
  const done = request.type === "PING" ? Promise.resolve(undefined) : last.then(() => handle(request));
  if (request.type !== "PING" && request.type !== "SYNC") last = done.catch(() => undefined);
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

/** Replies to the worker, which asks each hub. One that keeps files in the database, or that could not begin, has nothing to say. */
async function forWorker(message: ToHub): Promise<FromHub | undefined> {
  const to = await service;
  if (!to || storage !== "memory") return undefined;
  switch (message.ask) {
    case "put": await to.store.put(message.entries); return {};
    case "delete": await to.store.delete(message.keys); return {};
    case "find": return { meta: await to.store.find(message.key) };
    case "immutable": return { entry: (await to.store.find(message.key))?.immutable ? await to.store.get(message.key) : undefined };
    case "get": {
      for (const of of message.keys) {
        const entry = await to.store.get(of);
        if (entry) return { entry };
      }
      return {};
    }
  }
}
workers?.addEventListener("message", (event: MessageEvent<ToHub>) => {
  const [port] = event.ports;
  void forWorker(event.data).then((reply) => { port?.postMessage(reply); });
});
workers?.startMessages();

void service.then((ready) => {
  const message: HubReady = { type: "READY", sessionId: config.site, offline: ready !== undefined, ...(reason === undefined ? {} : { reason }), ...(code === undefined ? {} : { code }) };
  for (const other of [parent, opener as Window | null]) {
    if (other && other !== self) for (const origin of config.parents) other.postMessage(message, origin);
  }
});
