"use strict";
(() => {
  // hub/messages.ts
  var version = 1;
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
  var database = "ctxfs-files";
  var key = (kind, path) => `${kind}:${path}`;
  var isPushed = (of) => of.startsWith("pushed:");
  var resultOf = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => {
      resolve(request.result);
    };
    request.onerror = () => {
      reject(request.error ?? new Error("IndexedDB failed"));
    };
  });
  var Database = class _Database {
    constructor(db) {
      this.db = db;
    }
    db;
    static async open() {
      const request = indexedDB.open(database, 1);
      request.onupgradeneeded = () => {
        request.result.createObjectStore("files", { keyPath: "key" });
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
    put(entries) {
      return this.change("files", (files) => {
        for (const entry of entries) files.put(entry);
      });
    }
    async delete(keys) {
      if (keys.length > 0) await this.change("files", (files) => {
        for (const of of keys) files.delete(of);
      });
    }
    clear() {
      return this.change("files", (files) => {
        files.clear();
      });
    }
    async list() {
      const found = [];
      const request = this.db.transaction("files").objectStore("files").openCursor();
      await new Promise((resolve, reject) => {
        request.onerror = () => {
          reject(request.error ?? new Error("IndexedDB failed"));
        };
        request.onsuccess = () => {
          const cursor = request.result;
          if (!cursor) {
            resolve();
            return;
          }
          const { key: of, body, used } = cursor.value;
          found.push({ key: of, size: body.byteLength, used });
          cursor.continue();
        };
      });
      return found;
    }
    /** What the worker has to know when it starts: how files are kept, and what the server told the hub. */
    settings() {
      return resultOf(this.db.transaction("settings").objectStore("settings").get("hub"));
    }
    set(storage, config2) {
      return this.change("settings", (settings2) => {
        settings2.put({ storage, config: config2 }, "hub");
      });
    }
    async change(store, make) {
      const transaction = this.db.transaction(store, "readwrite", { durability: "strict" });
      await new Promise((resolve, reject) => {
        transaction.oncomplete = () => {
          resolve();
        };
        transaction.onabort = () => {
          reject(transaction.error ?? new Error("the transaction was ended"));
        };
        make(transaction.objectStore(store));
      });
    }
  };
  async function putBounded(store, entries) {
    const incoming = entries.reduce((sum, { key: of, body }) => sum + (isPushed(of) ? 0 : body.byteLength), 0);
    await evict(store, maxStored - incoming);
    for (; ; ) {
      try {
        await store.put(entries);
        return;
      } catch (error) {
        if (error.name !== "QuotaExceededError" || !await evict(store, await half(store))) throw error;
      }
    }
  }
  async function half(store) {
    return ofServer(await store.list()).reduce((sum, { size }) => sum + size, 0) / 2;
  }
  var ofServer = (list) => list.filter(({ key: of }) => !isPushed(of));
  async function evict(store, atMost) {
    const list = ofServer(await store.list()).sort((a, b) => a.used - b.used);
    let bytes = list.reduce((sum, { size }) => sum + size, 0);
    const gone = [];
    for (const { key: of, size } of list) {
      if (bytes <= atMost) break;
      gone.push(of);
      bytes -= size;
    }
    await store.delete(gone);
    return gone.length > 0;
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
  function isKept(path, response, maxBytes) {
    const { headers } = response;
    return response.status === 200 && !response.redirected && response.type === "basic" && Number(headers.get("Content-Length") ?? "0") <= maxBytes && (!(headers.get("Cache-Control") ?? "").includes("no-store") || path.startsWith("/__ctxfs/"));
  }
  async function entryOf(kind, path, response, maxBytes) {
    const body = await response.arrayBuffer();
    if (body.byteLength > maxBytes) return void 0;
    return { key: key(kind, path), headers: [...response.headers].filter(([name]) => !transfer.has(name)), body, used: Date.now() };
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
    if (!settings) return void 0;
    if (settings.storage === "indexeddb") {
      return {
        async get(keys) {
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
        },
        put: async (entry) => {
          await putBounded(db, [entry]);
          forget([entry.key]);
        },
        delete: async (keys) => {
          await db.delete(keys);
          forget(keys);
        }
      };
    }
    const inHub = async (message) => {
      for (const hub of (await self.clients.matchAll({ type: "window", includeUncontrolled: true })).filter(({ url }) => new URL(url).pathname === hubPath)) {
        const reply = await ask(hub, message, hubPatience).catch(() => void 0);
        if (reply && (message.ask !== "get" || reply.entries.length > 0)) return reply.entries;
      }
      return [];
    };
    return {
      get: async (keys) => (await inHub({ ask: "get", keys: [...keys] }))[0],
      put: async (entry) => {
        await inHub({ ask: "put", entries: [entry] });
      },
      delete: async (keys) => {
        await inHub({ ask: "delete", keys: [...keys] });
      }
    };
  }
  var hubPath = "/__ctxfs/hub.html";
  var policyHeader = "Content-Security-Policy";
  var config = self.ctxfs;
  var documents = /* @__PURE__ */ new Set(["document", "iframe", "frame", "embed", "object"]);
  function headersOf(path) {
    const { headers } = config;
    return path === hubPath ? { ...headers, [policyHeader]: `${headers[policyHeader] ?? ""}; sandbox allow-scripts allow-same-origin` } : headers;
  }
  async function closed() {
    const response = await fromServer(new Request(hubPath, { cache: "no-store" }), patience);
    return response?.status === 404 ? response : void 0;
  }
  async function answer(event, wanted) {
    const { request } = event;
    const range = request.headers.get("Range"), headers = headersOf(wanted.path);
    const place = await placeOf().catch(() => void 0);
    if (!place) return fetch(request);
    const own2 = wanted.path.startsWith("/__ctxfs/");
    const pushed = own2 ? void 0 : await place.get(candidates(wanted, config, ["pushed"]));
    if (pushed) return (wanted.document ? await closed() : void 0) ?? respond(pushed, range, headers);
    const stored = await place.get(candidates(wanted, config, kindsOf(wanted)));
    const response = await fromServer(request, stored ? patience : void 0);
    if (!response || response.status >= 502 && response.status <= 504) return stored ? respond(stored, range, headers) : response ?? notStored(wanted, headers);
    event.waitUntil(keep(place, wanted, response, request).catch(() => void 0));
    return response;
  }
  async function fromServer(request, ms) {
    const network = fetch(request).catch(() => void 0);
    if (ms === void 0) return network;
    let timer;
    const late = new Promise((resolve) => {
      timer = setTimeout(() => {
        resolve(void 0);
      }, ms);
    });
    const first = await Promise.race([network, late]);
    clearTimeout(timer);
    return first;
  }
  async function keep(place, wanted, response, request) {
    const kind = wanted.document ? "document" : "file";
    if (response.status === 404) {
      await place.delete([key("document", wanted.path), key("file", wanted.path)]);
      return;
    }
    if (request.headers.has("Range") || !isKept(wanted.path, response, maxEntry)) return;
    const entry = await entryOf(kind, wanted.path, response.clone(), maxEntry);
    if (entry) await place.put(entry);
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
    if (request.method !== "GET" || url.origin !== self.location.origin || url.pathname === "/__ctxfs/events") return;
    const navigates = request.mode === "navigate";
    event.respondWith(answer(event, { path: canonical(url.pathname), document: navigates || documents.has(request.destination), navigates }));
  });
})();
