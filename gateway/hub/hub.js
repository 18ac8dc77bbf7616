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
  var bytesOf = async ({ settings }) => await resultOf(settings.get(bytesKey)) ?? 0;
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
      return this.change("strict", ({ files, meta, settings }) => {
        files.clear();
        meta.clear();
        settings.delete(bytesKey);
      });
    }
    list() {
      return resultOf(this.db.transaction("meta").objectStore("meta").getAll());
    }
    /** What the worker has to know when it starts: how the hub that was opened last keeps files. */
    settings() {
      return resultOf(this.db.transaction("settings").objectStore("settings").get("hub"));
    }
    set(storage2) {
      return this.change("relaxed", ({ settings }) => {
        settings.put(storage2, "hub");
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
  var Memory = class {
    files = /* @__PURE__ */ new Map();
    /** The size of the files that may be evicted. */
    bytes = 0;
    get = (of) => Promise.resolve(this.files.get(of));
    find(of) {
      const entry = this.files.get(of);
      if (!entry) return Promise.resolve(void 0);
      this.files.delete(of);
      this.files.set(of, entry);
      return Promise.resolve(metaOf(entry));
    }
    put(entries) {
      for (const entry of entries) {
        this.remove(entry.key);
        this.files.set(entry.key, entry);
        if (isEvictable(entry.key)) this.bytes += entry.body.byteLength;
      }
      for (const of of this.files.keys()) {
        if (this.bytes <= maxStored) break;
        if (isEvictable(of)) this.remove(of);
      }
      return Promise.resolve();
    }
    delete(keys) {
      for (const of of keys) this.remove(of);
      return Promise.resolve();
    }
    clear() {
      this.files.clear();
      this.bytes = 0;
      return Promise.resolve();
    }
    list() {
      return Promise.resolve([...this.files.values()].map(metaOf));
    }
    remove(of) {
      const entry = this.files.get(of);
      if (entry && isEvictable(of)) this.bytes -= entry.body.byteLength;
      this.files.delete(of);
    }
  };

  // hub/serve.ts
  function typeOf(path, config2) {
    const name = path.slice(path.lastIndexOf("/") + 1);
    const dot = name.lastIndexOf(".");
    const type = dot < 0 ? void 0 : config2.types[name.slice(dot).toLowerCase()];
    if (type === "text/html") return "text/html; charset=utf-8";
    return type ?? "application/octet-stream";
  }
  var transfer = /* @__PURE__ */ new Set(["content-length", "content-encoding", "transfer-encoding", "connection", "date", "vary", "keep-alive"]);
  var unreachable = ({ status: status2, headers }) => status2 === 502 || status2 === 504 || status2 === 503 && !headers.has("Retry-After");
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

  // hub/hub.ts
  var workerPatience = 1e4;
  var serverPatience = 1e4;
  var ownPatience = 2e3;
  var hubPatience = 1e3;
  var parallel = 6;
  var config = JSON.parse(document.getElementById("config")?.textContent ?? "");
  var storage = new URLSearchParams(location.search).get("storage") === "indexeddb" ? "indexeddb" : "memory";
  var workers = navigator.serviceWorker;
  var Refused = class extends Error {
    constructor(code2, message) {
      super(message);
      this.code = code2;
    }
    code;
  };
  var after = (ms) => new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
  async function claim() {
    const lockOf = (of) => `ctxfs-hub-${of}`;
    const other = storage === "memory" ? "indexeddb" : "memory";
    await navigator.locks.request("ctxfs-hub", async () => {
      try {
        await navigator.locks.request(lockOf(other), { signal: AbortSignal.timeout(hubPatience) }, () => void 0);
      } catch (error) {
        if (error.name !== "TimeoutError") throw error;
        throw new Refused("EBUSY", `another hub of this site is open with storage "${other}": close it first, or open this one with the same storage`);
      }
      await new Promise((resolve, reject) => {
        navigator.locks.request(lockOf(storage), { mode: "shared" }, () => {
          resolve();
          return new Promise(() => void 0);
        }).catch(reject);
      });
    });
  }
  async function begin() {
    if (!workers) throw new Error("the browser gives this page no service worker");
    const db = await Database.open();
    await claim();
    const store = storage === "indexeddb" ? db : new Memory();
    await db.set(storage);
    const worker = await workerOf();
    await ask(worker, { ask: "drop" }, workerPatience);
    if (storage === "indexeddb") await Promise.race([sync({ store, worker }, ["/__ctxfs/hub.html", "/__ctxfs/hub.js"], (path) => path), after(ownPatience)]);
    return { store, worker };
  }
  var versionOf = (worker) => ask(worker, { ask: "version" }, workerPatience).catch(() => 0);
  async function workerOf() {
    const active = (await navigator.serviceWorker.getRegistration("/"))?.active;
    if (active?.state === "activated" && await versionOf(active) === version) return active;
    const registration = await navigator.serviceWorker.register("sw.js", { scope: "/", updateViaCache: "none" });
    await navigator.serviceWorker.ready;
    return sameVersion(registration);
  }
  async function sameVersion(registration) {
    const deadline = Date.now() + workerPatience;
    for (let updated = false; ; ) {
      const { active } = registration;
      if (active?.state === "activated" && await versionOf(active) === version) return active;
      if (Date.now() > deadline) throw new Error("the site's worker is of another version: close the site's other tabs, and load the page again");
      if (!updated) {
        updated = true;
        await registration.update().catch(() => void 0);
      }
      await change(registration, deadline);
    }
  }
  function change(registration, deadline) {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        navigator.serviceWorker.removeEventListener("controllerchange", done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(500, Math.max(0, deadline - Date.now())));
      navigator.serviceWorker.addEventListener("controllerchange", done);
      (registration.installing ?? registration.waiting ?? registration.active)?.addEventListener("statechange", done, { once: true });
    });
  }
  var reason;
  var code;
  var service = begin().catch((error) => {
    reason = error instanceof Error ? error.message : String(error);
    if (error instanceof Refused) ({ code } = error);
    return void 0;
  });
  function pathOf(name) {
    const segments = name.replace(/^\/+/, "").split("/");
    if (segments.some((s) => s === "" || s === "." || s === "..")) throw new Refused("EINVAL", `${name} is not a path of the site: it has an empty name, . or ..`);
    if (segments[0] === "__ctxfs") throw new Refused("EACCES", "the site's folder __ctxfs is the gateway's");
    return `/${segments.map(encodeURIComponent).join("/")}`;
  }
  async function put(to, files) {
    const entries = await Promise.all(Object.entries(files).map(async ([name, content]) => {
      const path = pathOf(name);
      if (typeof content !== "string" && !(content instanceof ArrayBuffer) && !(content instanceof Blob)) throw new Refused("EINVAL", `${name} must be a text, an ArrayBuffer or a Blob`);
      const type = content instanceof Blob && content.type !== "" ? content.type : typeOf(path, config);
      return { key: key("pushed", path), headers: Object.entries({ ...config.headers, "Content-Type": type, "Cache-Control": "no-cache" }), body: await new Blob([content]).arrayBuffer() };
    }));
    await stored(to, () => to.store.put(entries), entries.map((entry) => entry.key));
  }
  async function stored(to, make, keys) {
    try {
      await make();
    } catch (error) {
      throw error.name === "QuotaExceededError" ? new Refused("ENOSPC", "the browser has no room for these files") : error;
    }
    await ask(to.worker, keys ? { ask: "drop", keys } : { ask: "drop" }, workerPatience);
  }
  var clearing = new AbortController();
  async function sync(to, names, path = pathOf) {
    const result = { stored: 0, failed: {} };
    const silence = new AbortController();
    const signal = AbortSignal.any([silence.signal, clearing.signal]);
    let timer, fetching = 0;
    const heard = () => {
      clearTimeout(timer);
      if (fetching > 0) timer = setTimeout(() => {
        silence.abort(new Error(`the server sent nothing for ${String(serverPatience / 1e3)} s`));
      }, serverPatience);
    };
    const change2 = (by) => {
      fetching += by;
      heard();
    };
    const waiting = [...names];
    const work = async () => {
      for (let name = waiting.shift(); name !== void 0; name = waiting.shift()) {
        try {
          signal.throwIfAborted();
          change2(1);
          const entry = await fetchOne(path(name), signal, heard).finally(() => {
            change2(-1);
          });
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
  async function fetchOne(path, signal, heard) {
    const response = await fetch(path, { cache: "no-cache", headers: { [directHeader]: "1" }, signal });
    heard();
    if (unreachable(response)) throw new Error("the server cannot be reached");
    if (!response.ok) throw new Error(`the server answered ${String(response.status)}`);
    const entry = isKept(path, response, maxEntry) ? await entryOf("file", path, response, maxEntry, heard) : void 0;
    if (!entry) throw new Error(`files of more than ${String(maxEntry >> 20)} MiB are not stored`);
    return entry;
  }
  async function storeFetched(to, entry, signal) {
    const { etag } = metaOf(entry);
    if (etag?.startsWith('"') && (await to.store.find(entry.key))?.etag === etag) return;
    signal.throwIfAborted();
    await stored(to, () => to.store.put([entry]), [entry.key]);
  }
  async function status(of) {
    const list = await of?.store.list() ?? [];
    const pushed = list.filter((entry) => isPushed(entry.key)).length;
    return {
      offline: of !== void 0,
      ...reason === void 0 ? {} : { reason },
      storage,
      pushed,
      stored: list.length - pushed,
      bytes: list.reduce((sum, { size }) => sum + size, 0)
    };
  }
  async function handle(request) {
    if (request.sessionId !== config.site) throw new Refused("EINVAL", "the sessionId is not this site's ID");
    const to = await service;
    if (request.type === "STATUS") return status(to);
    if (!to) throw new Refused("EOPNOTSUPP", `files cannot be kept in this browser: ${reason ?? ""}`);
    switch (request.type) {
      case "PUT_FILES":
        await put(to, request.files);
        return void 0;
      case "DELETE_FILES": {
        const keys = request.paths.map((path) => key("pushed", pathOf(path)));
        await stored(to, () => to.store.delete(keys), keys);
        return void 0;
      }
      case "CLEAR": {
        clearing.abort(new Error("all files were deleted"));
        clearing = new AbortController();
        await stored(to, () => to.store.clear());
        return void 0;
      }
      case "SYNC":
        return sync(to, request.paths);
      default:
        throw new Refused("EINVAL", `unknown request ${String(request.type)}`);
    }
  }
  var last = Promise.resolve();
  function take(request, reply) {
    const id = request.id;
    const done = request.type === "PING" ? Promise.resolve(void 0) : last.then(() => handle(request));
    if (request.type !== "PING" && request.type !== "SYNC") last = done.catch(() => void 0);
    done.then(
      (value) => {
        if (typeof id === "number") reply({ type: "OK", id, ...value === void 0 ? {} : { value } });
      },
      (error) => {
        const code2 = error instanceof Refused ? error.code : "EIO";
        if (typeof id === "number") reply({ type: "ERROR", id, code: code2, message: error.message });
        else console.error("ctxfs:", code2, error.message);
      }
    );
  }
  addEventListener("message", (event) => {
    const { data, source, origin } = event;
    if (!config.parents.includes(origin) || !source || typeof data !== "object" || data === null) return;
    const [port] = event.ports;
    if (data.type === "HELLO") {
      if (port) port.onmessage = (on) => {
        take(on.data, (reply) => {
          port.postMessage(reply);
        });
      };
      return;
    }
    take(data, (reply) => {
      source.postMessage(reply, { targetOrigin: origin });
    });
  });
  async function forWorker(message) {
    const to = await service;
    if (!to || storage !== "memory") return void 0;
    switch (message.ask) {
      case "put":
        await to.store.put(message.entries);
        return {};
      case "delete":
        await to.store.delete(message.keys);
        return {};
      case "find":
        return { meta: await to.store.find(message.key) };
      case "immutable":
        return { entry: (await to.store.find(message.key))?.immutable ? await to.store.get(message.key) : void 0 };
      case "get": {
        for (const of of message.keys) {
          const entry = await to.store.get(of);
          if (entry) return { entry };
        }
        return {};
      }
    }
  }
  workers?.addEventListener("message", (event) => {
    const [port] = event.ports;
    void forWorker(event.data).then((reply) => {
      port?.postMessage(reply);
    });
  });
  workers?.startMessages();
  void service.then((ready) => {
    const message = { type: "READY", sessionId: config.site, offline: ready !== void 0, ...reason === void 0 ? {} : { reason }, ...code === void 0 ? {} : { code } };
    for (const other of [parent, opener]) {
      if (other && other !== self) for (const origin of config.parents) other.postMessage(message, origin);
    }
  });
})();
