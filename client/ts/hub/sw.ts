// The service worker of a site with a hub. Files that the parent put come first, then the server's, then what is stored of them.
import { ask, directHeader, version, type FromHub, type ToHub, type ToWorker } from "./messages.js";
import { candidates, canonical, entryOf, isKept, kindsOf, notStored, respond, unreachable, type Wanted } from "./serve.js";
import type { HubStorage } from "../src/pages/protocol.js";
import { Database, key, maxEntry, metaOf, type Config, type Entry, type Meta } from "./store.js";

/** What a worker's global has of what is used here: TypeScript's libraries for pages and for workers exclude one another. */
interface Worker {
  /** What the server wrote in front of this script. */
  readonly ctxfs: Config;
  readonly location: Location;
  readonly clients: { matchAll(options: { type: "window"; includeUncontrolled: boolean }): Promise<{ url: string; postMessage(message: unknown, transfer: Transferable[]): void }[]>; claim(): Promise<void> };
  skipWaiting(): Promise<void>;
  addEventListener(type: "install" | "activate", listener: (event: Extendable) => void): void;
  addEventListener(type: "message", listener: (event: Extendable & MessageEvent<ToWorker>) => void): void;
  addEventListener(type: "fetch", listener: (event: Fetch) => void): void;
}
interface Extendable { waitUntil(work: Promise<unknown>): void }
interface Fetch extends Extendable { readonly request: Request; respondWith(response: Promise<Response>): void }
declare const self: Worker;

/** How long the server may take to answer when there is a stored file to fall back on, how long at all, and how long a hub may take to reply, in ms. */
const patience = 2000, serverLimit = 30_000, hubPatience = 1000;
/** The most bytes that are kept in the worker's memory. */
const maxMemory = 32 << 20;

/** Entries that were used last, so that not every request reads the database. Null says that there is none. */
const memory = new Map<string, Entry | null>();
let memoryBytes = 0;
/** Rises with each drop: what was read before is not remembered after it. */
let epoch = 0;

function forget(keys?: readonly string[]): void {
  epoch++;
  if (!keys) settings = undefined;
  for (const of of keys ?? [...memory.keys()]) {
    memoryBytes -= memory.get(of)?.body.byteLength ?? 0;
    memory.delete(of);
  }
}

function remember(of: string, entry: Entry | null): void {
  forget([of]);
  const size = entry?.body.byteLength ?? 0;
  if (size > maxMemory / 2) return;
  memory.set(of, entry);
  memoryBytes += size;
  for (const [oldest] of memory) {
    if (memoryBytes <= maxMemory && memory.size <= 10_000) return;
    forget([oldest]);
  }
}

let opened: Promise<Database> | undefined;
const database = (): Promise<Database> => (opened ??= Database.open());

/** How the hub keeps files; undefined until it was read. A worker that ran before a hub was opened reads it again. */
let settings: HubStorage | undefined;

/** Where files are kept: in the database, or in a hub's memory. */
interface Place {
  /** Gets the first entry that there is. */
  get(keys: readonly string[]): Promise<Entry | undefined>;
  /** Gets an entry if it never changes. */
  immutable(of: string): Promise<Entry | undefined>;
  find(of: string): Promise<Meta | undefined>;
  put(entry: Entry): Promise<void>;
  delete(keys: readonly string[]): Promise<void>;
}

/** Finds where files are kept. A site whose hub was never opened, or is closed and kept nothing, has no place. */
async function placeOf(): Promise<Place | undefined> {
  const db = await database();
  settings ??= await db.settings();
  return settings && (settings === "indexeddb" ? inDatabase(db) : inHubs);
}

function inDatabase(db: Database): Place {
  const get = async (keys: readonly string[]): Promise<Entry | undefined> => {
    for (const of of keys) {
      let entry = memory.get(of);
      if (entry === undefined) {
        const before = epoch;
        entry = await db.get(of) ?? null;
        if (before === epoch) remember(of, entry);
      }
      if (entry) return entry;
    }
    return undefined;
  };
  return {
    get,
    async immutable(of) {
      const kept = memory.get(of);
      return (kept ? metaOf(kept) : await db.find(of))?.immutable ? get([of]) : undefined;
    },
    find: (of) => db.find(of),
    put: async (entry) => { await db.put([entry]); forget([entry.key]); },
    delete: async (keys) => { await db.delete(keys); forget(keys); },
  };
}

/** Asks the open hubs, until one has something. A hub that failed to open replies with nothing. */
async function askHubs(message: ToHub): Promise<FromHub> {
  for (const hub of (await self.clients.matchAll({ type: "window", includeUncontrolled: true })).filter(({ url }) => new URL(url).pathname === hubPath)) {
    const reply = await ask<FromHub | undefined>(hub, message, hubPatience).catch(() => undefined);
    if (reply?.entry || reply?.meta || reply && message.ask === "put") return reply;
  }
  return {};
}

const inHubs: Place = {
  get: async (keys) => (await askHubs({ ask: "get", keys: [...keys] })).entry,
  immutable: async (of) => (await askHubs({ ask: "immutable", key: of })).entry,
  find: async (of) => (await askHubs({ ask: "find", key: of })).meta,
  put: async (entry) => { await askHubs({ ask: "put", entries: [entry] }); },
  delete: async (keys) => { await askHubs({ ask: "delete", keys: [...keys] }); },
};

const hubPath = "/__ctxfs/hub.html", policyHeader = "Content-Security-Policy";
const config = self.ctxfs;
const documents = new Set(["document", "iframe", "frame", "embed", "object"]);

/** The headers of an answer that this worker makes. The hub's page may do less than others. */
function headersOf(path: string): Readonly<Record<string, string>> {
  const { headers } = config;
  return path === hubPath ? { ...headers, [policyHeader]: `${headers[policyHeader] ?? ""}; sandbox allow-scripts allow-same-origin` } : headers;
}

/** Returns what a promise resolves to; undefined if it takes longer. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer;
  const late = new Promise<undefined>((resolve) => { timer = setTimeout(() => { resolve(undefined); }, ms); });
  const first = await Promise.race([promise, late]);
  clearTimeout(timer);
  return first;
}

/** Returns what the server says of a site that is closed; undefined of one that is open, or when the server cannot be reached. */
async function closed(): Promise<Response | undefined> {
  const response = await within(fetch(hubPath, { cache: "no-store", signal: AbortSignal.timeout(serverLimit) }).catch(() => undefined), patience);
  return response?.status === 404 ? response : undefined;
}

async function answer(event: Fetch, wanted: Wanted): Promise<Response> {
  const { request } = event;
  const range = request.headers.get("Range"), headers = headersOf(wanted.path);
  const place = await placeOf().catch(() => undefined); // a browser that refuses storage: pages use the network
  if (!place) return fetch(request);
  const pushed = wanted.path.startsWith("/__ctxfs/") ? undefined : await place.get(candidates(wanted, config, ["pushed"]));
  const first = pushed ?? await place.immutable(keyOf(wanted));
  if (first) return (wanted.document ? await closed() : undefined) ?? respond(first, range, headers);
  // Of a navigation nothing can be ended by a signal. An answer that comes too late for this request is stored for the next one.
  const network = fetch(request).catch(() => undefined), order = ++asked;
  event.waitUntil(within(network, serverLimit).then((response) => response && keep(place, wanted, response, request, order)).catch(() => undefined)); // no room: status says so
  const response = await within(network, patience);
  if (response && !unreachable(response)) return response;
  const stored = await place.get(candidates(wanted, config, kindsOf(wanted)));
  if (stored) return respond(stored, range, headers);
  return response ?? await within(network, serverLimit - patience) ?? notStored(wanted, headers);
}

/** Counts the requests that went to the server, and has the one whose answer is stored: a late answer does not replace that of a later request. */
let asked = 0;
const storedOf = new Map<string, number>();

/** The key under which the server's answer to a request is stored. */
const keyOf = ({ document, path }: Wanted): string => key(document ? "document" : "file", path);

/** Stores what the server answered, and drops what it no longer has. */
async function keep(place: Place, wanted: Wanted, response: Response, request: Request, order: number): Promise<void> {
  if (response.status === 404) {
    await place.delete([key("document", wanted.path), key("file", wanted.path)]);
    return;
  }
  if (request.headers.has("Range") || !isKept(wanted.path, response, maxEntry)) return;
  const copy = response.clone(); // before the page reads it
  const of = keyOf(wanted), etag = response.headers.get("ETag");
  if (etag?.startsWith('"') && (await place.find(of))?.etag === etag) {
    void copy.body?.cancel().catch(() => undefined);
    return;
  }
  const entry = await entryOf(wanted.document ? "document" : "file", wanted.path, copy, maxEntry);
  if (!entry || order < (storedOf.get(of) ?? 0)) return;
  if (storedOf.size >= 10_000) storedOf.clear();
  storedOf.set(of, order);
  await place.put(entry);
}

self.addEventListener("install", () => { void self.skipWaiting(); });
self.addEventListener("activate", (event) => { event.waitUntil(self.clients.claim()); });
self.addEventListener("message", (event) => {
  const [port] = event.ports;
  if (event.data.ask === "drop") forget(event.data.keys);
  port?.postMessage(event.data.ask === "version" ? version : "done");
});
self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== self.location.origin || url.pathname === "/__ctxfs/events" || request.headers.has(directHeader)) return;
  const navigates = request.mode === "navigate";
  event.respondWith(answer(event, { path: canonical(url.pathname), document: navigates || documents.has(request.destination), navigates }));
});
