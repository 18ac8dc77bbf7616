// The service worker of a site with a hub. Files that the parent put come first, then the server's, then what is stored of them.
import { ask, version, type FromHub, type ToHub, type ToWorker } from "./messages.js";
import { candidates, canonical, entryOf, isKept, kindsOf, notStored, respond, type Wanted } from "./serve.js";
import { Database, key, maxEntry, putBounded, type Config, type Entry, type Kind } from "./store.js";

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

/** How long the server may take when there is a stored file to fall back on, and how long a hub may take to reply, in ms. */
const patience = 2000, hubPatience = 1000;
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
let settings: Awaited<ReturnType<Database["settings"]>>;

/** Where files are kept: in the database, or in a hub's memory. */
type Place = { get(keys: readonly string[]): Promise<Entry | undefined>; put(entry: Entry): Promise<void>; delete(keys: readonly string[]): Promise<void> };

/** Finds where files are kept. A site whose hub was never opened, or is closed and kept nothing, has no place. */
async function placeOf(): Promise<Place | undefined> {
  const db = await database();
  settings ??= await db.settings();
  if (!settings) return undefined;
  if (settings.storage === "indexeddb") {
    return {
      async get(keys) {
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
      },
      put: async (entry) => { await putBounded(db, [entry]); forget([entry.key]); },
      delete: async (keys) => { await db.delete(keys); forget(keys); },
    };
  }
  const inHub = async (message: ToHub): Promise<Entry[]> => {
    for (const hub of (await self.clients.matchAll({ type: "window", includeUncontrolled: true })).filter(({ url }) => new URL(url).pathname === hubPath)) {
      const reply = await ask<FromHub>(hub, message, hubPatience).catch(() => undefined);
      if (reply && (message.ask !== "get" || reply.entries.length > 0)) return reply.entries;
    }
    return [];
  };
  return {
    get: async (keys) => (await inHub({ ask: "get", keys: [...keys] }))[0],
    put: async (entry) => { await inHub({ ask: "put", entries: [entry] }); },
    delete: async (keys) => { await inHub({ ask: "delete", keys: [...keys] }); },
  };
}

const hubPath = "/__ctxfs/hub.html", policyHeader = "Content-Security-Policy";
const config = self.ctxfs;
const documents = new Set(["document", "iframe", "frame", "embed", "object"]);

/** The headers of an answer that this worker makes. The hub's page may do less than others. */
function headersOf(path: string): Readonly<Record<string, string>> {
  const { headers } = config;
  return path === hubPath ? { ...headers, [policyHeader]: `${headers[policyHeader] ?? ""}; sandbox allow-scripts allow-same-origin` } : headers;
}

/** Returns what the server says of a site that is closed; undefined of one that is open, or when the server cannot be reached. */
async function closed(): Promise<Response | undefined> {
  const response = await fromServer(new Request(hubPath, { cache: "no-store" }), patience);
  return response?.status === 404 ? response : undefined;
}

async function answer(event: Fetch, wanted: Wanted): Promise<Response> {
  const { request } = event;
  const range = request.headers.get("Range"), headers = headersOf(wanted.path);
  const place = await placeOf().catch(() => undefined); // a browser that refuses storage: pages use the network
  if (!place) return fetch(request);
  const own = wanted.path.startsWith("/__ctxfs/");
  const pushed = own ? undefined : await place.get(candidates(wanted, config, ["pushed"]));
  if (pushed) return (wanted.document ? await closed() : undefined) ?? respond(pushed, range, headers);
  const stored = await place.get(candidates(wanted, config, kindsOf(wanted)));
  const response = await fromServer(request, stored ? patience : undefined);
  if (!response || response.status >= 502 && response.status <= 504) return stored ? respond(stored, range, headers) : response ?? notStored(wanted, headers);
  event.waitUntil(keep(place, wanted, response, request).catch(() => undefined)); // no room: the file is not stored, and status says so
  return response;
}

/** Asks the server; undefined when it cannot be reached, or not in time. */
async function fromServer(request: Request, ms?: number): Promise<Response | undefined> {
  const network = fetch(request).catch(() => undefined);
  if (ms === undefined) return network;
  let timer;
  const late = new Promise<undefined>((resolve) => { timer = setTimeout(() => { resolve(undefined); }, ms); });
  const first = await Promise.race([network, late]);
  clearTimeout(timer);
  return first;
}

/** Stores what the server answered, and drops what it no longer has. */
async function keep(place: Place, wanted: Wanted, response: Response, request: Request): Promise<void> {
  const kind: Kind = wanted.document ? "document" : "file";
  if (response.status === 404) {
    await place.delete([key("document", wanted.path), key("file", wanted.path)]);
    return;
  }
  if (request.headers.has("Range") || !isKept(wanted.path, response, maxEntry)) return;
  const entry = await entryOf(kind, wanted.path, response.clone(), maxEntry);
  if (entry) await place.put(entry);
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
  if (request.method !== "GET" || url.origin !== self.location.origin || url.pathname === "/__ctxfs/events") return;
  const navigates = request.mode === "navigate";
  event.respondWith(answer(event, { path: canonical(url.pathname), document: navigates || documents.has(request.destination), navigates }));
});
