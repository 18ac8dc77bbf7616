"use strict";
(() => {
  // hub/messages.ts
  var version = 2;
  var directHeader = "Ctxfs-Direct";
  function ask(receiver, message, ms) {
    const { port1, port2 } = new MessageChannel();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        port1.close();
        reject(new Error("no reply"));
      }, ms);
      port1.onmessage = ({ data }) => {
        clearTimeout(timer);
        port1.close();
        resolve(data);
      };
      receiver.postMessage(message, [port2]);
    });
  }

  // hub/store.ts
  var maxEntry = 64 << 20;
  var maxStored = 512 << 20;
  var useInterval = 6e4;
  var database = "ctxfs-files";
  var databaseVersion = 2;
  var key = (kind, path) => `${kind}:${path}`;
  var isPushed = (of) => of.startsWith("pushed:");
  var isEvictable = (of) => !isPushed(of) && !of.includes(":/__ctxfs/");
  function metaOf({ key: of, headers, body }) {
    const header = (wanted) => headers.find(([name]) => name.toLowerCase() === wanted)?.[1];
    const immutable = /\bimmutable\b/.test(header("cache-control") ?? "");
    return { key: of, size: body.byteLength, etag: header("etag"), immutable, ...isEvictable(of) ? { used: Date.now() } : {} };
  }
  var resultOf = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => {
      resolve(request.result);
    };
    request.onerror = () => {
      reject(request.error ?? new Error("IndexedDB failed"));
    };
  });
  var durabilityOf = (keys) => keys.some(isPushed) ? "strict" : "relaxed";
  var bytesKey = "bytes";
  var bytesOf = async ({ settings: settings2 }) => await resultOf(settings2.get(bytesKey)) ?? 0;
  async function remove({ files, meta }, of) {
    const found = await resultOf(meta.get(of));
    files.delete(of);
    meta.delete(of);
    return found?.used === void 0 ? 0 : found.size;
  }
  async function evict({ files, meta }, bytes, atMost) {
    const request = meta.index("used").openCursor();
    for (let cursor = await resultOf(request); cursor && bytes > atMost; cursor = await resultOf(request)) {
      const { key: of, size } = cursor.value;
      files.delete(of);
      cursor.delete();
      bytes -= size;
      cursor.continue();
    }
    return bytes;
  }
  var Database = class _Database {
    constructor(db) {
      this.db = db;
    }
    db;
    static async open() {
      const request = indexedDB.open(database, databaseVersion);
      request.onupgradeneeded = () => {
        for (const name of [...request.result.objectStoreNames]) request.result.deleteObjectStore(name);
        request.result.createObjectStore("files", { keyPath: "key" });
        request.result.createObjectStore("meta", { keyPath: "key" }).createIndex("used", "used");
        request.result.createObjectStore("settings");
      };
      const db = await resultOf(request);
      db.onversionchange = () => {
        db.close();
      };
      return new _Database(db);
    }
    get(of) {
      return resultOf(this.db.transaction("files").objectStore("files").get(of));
    }
    async find(of) {
      const found = await resultOf(this.db.transaction("meta").objectStore("meta").get(of));
      if (found?.used !== void 0 && Date.now() - found.used > useInterval) {
        await this.change("relaxed", async ({ meta }) => {
          if (await resultOf(meta.count(of)) > 0) meta.put({ ...found, used: Date.now() });
        });
      }
      return found;
    }
    async put(entries) {
      for (; ; ) {
        try {
          await this.change(durabilityOf(entries.map(({ key: of }) => of)), async (stores) => {
            await keep(stores, entries);
          });
          return;
        } catch (error) {
          if (error.name !== "QuotaExceededError" || !await this.makeRoom()) throw error;
        }
      }
    }
    async delete(keys) {
      if (keys.length === 0) return;
      await this.change(durabilityOf(keys), async (stores) => {
        let bytes = await bytesOf(stores);
        for (const of of keys) bytes -= await remove(stores, of);
        stores.settings.put(bytes, bytesKey);
      });
    }
    clear() {
      return this.change("strict", ({ files, meta, settings: settings2 }) => {
        files.clear();
        meta.clear();
        settings2.delete(bytesKey);
      });
    }
    list() {
      return resultOf(this.db.transaction("meta").objectStore("meta").getAll());
    }
    /** What the worker has to know when it starts: how the hub that was opened last keeps files. */
    settings() {
      return resultOf(this.db.transaction("settings").objectStore("settings").get("hub"));
    }
    set(storage) {
      return this.change("relaxed", ({ settings: settings2 }) => {
        settings2.put(storage, "hub");
      });
    }
    /** Deletes half of what may be evicted, in bytes. Says whether there was one. */
    async makeRoom() {
      let made = false;
      await this.change("relaxed", async (stores) => {
        const bytes = await bytesOf(stores);
        const left = await evict(stores, bytes, bytes / 2);
        made = left < bytes;
        stores.settings.put(left, bytesKey);
      });
      return made;
    }
    async change(durability, make) {
      const transaction = this.db.transaction(["files", "meta", "settings"], "readwrite", { durability });
      const done = new Promise((resolve, reject) => {
        transaction.oncomplete = () => {
          resolve();
        };
        transaction.onabort = () => {
          reject(transaction.error ?? new Error("the transaction was ended"));
        };
      });
      const stores = { files: transaction.objectStore("files"), meta: transaction.objectStore("meta"), settings: transaction.objectStore("settings") };
      const made = (async () => {
        await make(stores);
      })().catch((error) => {
        try {
          transaction.abort();
        } catch {
        }
        throw error;
      });
      await Promise.all([made, done]).catch((error) => {
        throw transaction.error ?? error;
      });
    }
  };
  async function keep(stores, entries) {
    let bytes = await bytesOf(stores);
    for (const entry of entries) {
      bytes -= await remove(stores, entry.key);
      const meta = metaOf(entry);
      stores.files.put(entry);
      stores.meta.put(meta);
      if (meta.used !== void 0) bytes += meta.size;
    }
    stores.settings.put(bytes > maxStored ? await evict(stores, bytes, maxStored) : bytes, bytesKey);
  }

  // hub/serve.ts
  function canonical(pathname) {
    try {
      return pathname.split("/").map((segment) => encodeURIComponent(decodeURIComponent(segment))).join("/");
    } catch {
      return pathname;
    }
  }
  function candidates(wanted, config2, kinds) {
    const { path, navigates } = wanted;
    const paths = [path];
    if (path.endsWith("/")) paths.push(path + encodeURIComponent(config2.index));
    else if (config2.spa && navigates && !path.slice(path.lastIndexOf("/")).includes(".")) paths.push(`/${encodeURIComponent(config2.index)}`, "/");
    return paths.flatMap((p) => kinds.map((kind) => key(kind, p)));
  }
  var kindsOf = ({ document }) => document ? ["document", "file"] : ["file"];
  var own = /* @__PURE__ */ new Set(["content-type", "etag", "cache-control"]);
  function respond(entry, range, site) {
    const headers = new Headers(entry.headers.filter(([name]) => own.has(name.toLowerCase())));
    for (const [name, value] of Object.entries(site)) headers.set(name, value);
    headers.set("Accept-Ranges", "bytes");
    const { body } = entry;
    const part = range === null ? void 0 : rangeOf(range, body.byteLength);
    if (part === void 0) {
      headers.set("Content-Length", String(body.byteLength));
      return new Response(body, { status: 200, headers });
    }
    if (part === null) {
      headers.set("Content-Range", `bytes */${String(body.byteLength)}`);
      return new Response(null, { status: 416, headers });
    }
    headers.set("Content-Range", `bytes ${String(part.start)}-${String(part.end - 1)}/${String(body.byteLength)}`);
    headers.set("Content-Length", String(part.end - part.start));
    return new Response(body.slice(part.start, part.end), { status: 206, headers });
  }
  function rangeOf(header, size) {
    const found = /^bytes=(\d*)-(\d*)$/.exec(header.trim());
    if (!found) return void 0;
    const [, first = "", last = ""] = found;
    if (first === "" && last === "") return void 0;
    if (first === "") return Number(last) === 0 || size === 0 ? null : { start: Math.max(0, size - Number(last)), end: size };
    const start = Number(first);
    if (last !== "" && Number(last) < start) return void 0;
    if (start >= size) return null;
    return { start, end: last === "" ? size : Math.min(size, Number(last) + 1) };
  }
  var transfer = /* @__PURE__ */ new Set(["content-length", "content-encoding", "transfer-encoding", "connection", "date", "vary", "keep-alive"]);
  var unreachable = ({ status, headers }) => status === 502 || status === 504 || status === 503 && !headers.has("Retry-After");
  function isKept(path, response, maxBytes) {
    const { headers } = response;
    return response.status === 200 && !response.redirected && response.type === "basic" && Number(headers.get("Content-Length") ?? "0") <= maxBytes && (!(headers.get("Cache-Control") ?? "").includes("no-store") || path.startsWith("/__ctxfs/"));
  }
  async function entryOf(kind, path, response, maxBytes, heard = () => void 0) {
    const parts = [];
    let size = 0;
    const reader = response.body?.getReader();
    for (let next = await reader?.read(); next?.value; next = await reader?.read()) {
      heard();
      size += next.value.byteLength;
      if (size > maxBytes) {
        void reader?.cancel().catch(() => void 0);
        return void 0;
      }
      parts.push(next.value);
    }
    const body = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      body.set(part, at);
      at += part.byteLength;
    }
    return { key: key(kind, path), headers: [...response.headers].filter(([name]) => !transfer.has(name)), body: body.buffer };
  }
  function notStored(wanted, site) {
    const headers = new Headers(site);
    headers.set("Cache-Control", "no-store");
    headers.set("Content-Type", wanted.document ? "text/html; charset=utf-8" : "text/plain; charset=utf-8");
    const text = "The server cannot be reached, and this file is not stored offline.";
    const path = decode(wanted.path).replace(/[&<>"]/g, (c) => `&#${String(c.charCodeAt(0))};`);
    return new Response(wanted.document ? `<!doctype html><meta charset=utf-8><title>Not stored offline</title><h1>Not stored offline</h1><p><code>${path}</code>: ${text}</p>
` : `${text}
`, { status: 504, headers });
  }
  function decode(path) {
    try {
      return decodeURI(path);
    } catch {
      return path;
    }
  }

  // hub/sw.ts
  var patience = 2e3;
  var serverLimit = 3e4;
  var hubPatience = 1e3;
  var maxMemory = 32 << 20;
  var memory = /* @__PURE__ */ new Map();
  var memoryBytes = 0;
  var epoch = 0;
  function forget(keys) {
    epoch++;
    if (!keys) settings = void 0;
    for (const of of keys ?? [...memory.keys()]) {
      memoryBytes -= memory.get(of)?.body.byteLength ?? 0;
      memory.delete(of);
    }
  }
  function remember(of, entry) {
    forget([of]);
    const size = entry?.body.byteLength ?? 0;
    if (size > maxMemory / 2) return;
    memory.set(of, entry);
    memoryBytes += size;
    for (const [oldest] of memory) {
      if (memoryBytes <= maxMemory && memory.size <= 1e4) return;
      forget([oldest]);
    }
  }
  var opened;
  var database2 = () => opened ??= Database.open();
  var settings;
  async function placeOf() {
    const db = await database2();
    settings ??= await db.settings();
    return settings && (settings === "indexeddb" ? inDatabase(db) : inHubs);
  }
  function inDatabase(db) {
    const get = async (keys) => {
      for (const of of keys) {
        let entry = memory.get(of);
        if (entry === void 0) {
          const before = epoch;
          entry = await db.get(of) ?? null;
          if (before === epoch) remember(of, entry);
        }
        if (entry) return entry;
      }
      return void 0;
    };
    return {
      get,
      async immutable(of) {
        const kept = memory.get(of);
        return (kept ? metaOf(kept) : await db.find(of))?.immutable ? get([of]) : void 0;
      },
      find: (of) => db.find(of),
      put: async (entry) => {
        await db.put([entry]);
        forget([entry.key]);
      },
      delete: async (keys) => {
        await db.delete(keys);
        forget(keys);
      }
    };
  }
  async function askHubs(message) {
    for (const hub of (await self.clients.matchAll({ type: "window", includeUncontrolled: true })).filter(({ url }) => new URL(url).pathname === hubPath)) {
      const reply = await ask(hub, message, hubPatience).catch(() => void 0);
      if (reply?.entry || reply?.meta || reply && message.ask === "put") return reply;
    }
    return {};
  }
  var inHubs = {
    get: async (keys) => (await askHubs({ ask: "get", keys: [...keys] })).entry,
    immutable: async (of) => (await askHubs({ ask: "immutable", key: of })).entry,
    find: async (of) => (await askHubs({ ask: "find", key: of })).meta,
    put: async (entry) => {
      await askHubs({ ask: "put", entries: [entry] });
    },
    delete: async (keys) => {
      await askHubs({ ask: "delete", keys: [...keys] });
    }
  };
  var hubPath = "/__ctxfs/hub.html";
  var policyHeader = "Content-Security-Policy";
  var config = self.ctxfs;
  var documents = /* @__PURE__ */ new Set(["document", "iframe", "frame", "embed", "object"]);
  function headersOf(path) {
    const { headers } = config;
    return path === hubPath ? { ...headers, [policyHeader]: `${headers[policyHeader] ?? ""}; sandbox allow-scripts allow-same-origin` } : headers;
  }
  async function within(promise, ms) {
    let timer;
    const late = new Promise((resolve) => {
      timer = setTimeout(() => {
        resolve(void 0);
      }, ms);
    });
    const first = await Promise.race([promise, late]);
    clearTimeout(timer);
    return first;
  }
  async function closed() {
    const response = await within(fetch(hubPath, { cache: "no-store", signal: AbortSignal.timeout(serverLimit) }).catch(() => void 0), patience);
    return response?.status === 404 ? response : void 0;
  }
  async function answer(event, wanted) {
    const { request } = event;
    const range = request.headers.get("Range"), headers = headersOf(wanted.path);
    const place = await placeOf().catch(() => void 0);
    if (!place) return fetch(request);
    const pushed = wanted.path.startsWith("/__ctxfs/") ? void 0 : await place.get(candidates(wanted, config, ["pushed"]));
    const first = pushed ?? await place.immutable(keyOf(wanted));
    if (first) return (wanted.document ? await closed() : void 0) ?? respond(first, range, headers);
    const network = fetch(request).catch(() => void 0), order = ++asked;
    event.waitUntil(within(network, serverLimit).then((response2) => response2 && keep2(place, wanted, response2, request, order)).catch(() => void 0));
    const response = await within(network, patience);
    if (response && !unreachable(response)) return response;
    const stored = await place.get(candidates(wanted, config, kindsOf(wanted)));
    if (stored) return respond(stored, range, headers);
    return response ?? await within(network, serverLimit - patience) ?? notStored(wanted, headers);
  }
  var asked = 0;
  var storedOf = /* @__PURE__ */ new Map();
  var keyOf = ({ document, path }) => key(document ? "document" : "file", path);
  async function keep2(place, wanted, response, request, order) {
    if (response.status === 404) {
      await place.delete([key("document", wanted.path), key("file", wanted.path)]);
      return;
    }
    if (request.headers.has("Range") || !isKept(wanted.path, response, maxEntry)) return;
    const copy = response.clone();
    const of = keyOf(wanted), etag = response.headers.get("ETag");
    if (etag?.startsWith('"') && (await place.find(of))?.etag === etag) {
      void copy.body?.cancel().catch(() => void 0);
      return;
    }
    const entry = await entryOf(wanted.document ? "document" : "file", wanted.path, copy, maxEntry);
    if (!entry || order < (storedOf.get(of) ?? 0)) return;
    if (storedOf.size >= 1e4) storedOf.clear();
    storedOf.set(of, order);
    await place.put(entry);
  }
  self.addEventListener("install", () => {
    void self.skipWaiting();
  });
  self.addEventListener("activate", (event) => {
    event.waitUntil(self.clients.claim());
  });
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
})();
