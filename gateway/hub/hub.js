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
    set(storage2, config2) {
      return this.change("settings", (settings) => {
        settings.put({ storage: storage2, config: config2 }, "hub");
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
  var Memory = class {
    files = /* @__PURE__ */ new Map();
    get = (of) => Promise.resolve(this.files.get(of));
    put(entries) {
      for (const entry of entries) this.files.set(entry.key, entry);
      return Promise.resolve();
    }
    delete(keys) {
      for (const of of keys) this.files.delete(of);
      return Promise.resolve();
    }
    clear() {
      this.files.clear();
      return Promise.resolve();
    }
    list() {
      return Promise.resolve([...this.files.values()].map(({ key: of, body, used }) => ({ key: of, size: body.byteLength, used })));
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
  function typeOf(path, config2) {
    const name = path.slice(path.lastIndexOf("/") + 1);
    const dot = name.lastIndexOf(".");
    const type = dot < 0 ? void 0 : config2.types[name.slice(dot).toLowerCase()];
    if (type === "text/html") return "text/html; charset=utf-8";
    return type ?? "application/octet-stream";
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

  // hub/hub.ts
  var workerPatience = 1e4;
  var parallel = 6;
  var config = JSON.parse(document.getElementById("config")?.textContent ?? "");
  var storage = new URLSearchParams(location.search).get("storage") === "indexeddb" ? "indexeddb" : "memory";
  var workers = navigator.serviceWorker;
  var Refused = class extends Error {
    constructor(code, message) {
      super(message);
      this.code = code;
    }
    code;
  };
  async function begin() {
    if (!workers) throw new Error("the browser gives this page no service worker");
    const db = await Database.open();
    const store = storage === "indexeddb" ? db : new Memory();
    if (storage === "memory") await db.clear();
    await db.set(storage, config);
    const registration = await navigator.serviceWorker.register("sw.js", { scope: "/", updateViaCache: "none" });
    await navigator.serviceWorker.ready;
    const worker = await sameVersion(registration);
    await ask(worker, { ask: "drop" }, workerPatience);
    if (storage === "indexeddb") await Promise.all(["hub.html", "hub.js"].map(async (name) => fetchOne({ store, worker }, `/__ctxfs/${name}`).catch(() => void 0)));
    return { store, worker };
  }
  async function sameVersion(registration) {
    const deadline = Date.now() + workerPatience;
    for (let updated = false; ; ) {
      const { active } = registration;
      if (active?.state === "activated" && await ask(active, { ask: "version" }, workerPatience).catch(() => 0) === version) return active;
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
  var service = begin().catch((error) => {
    reason = error instanceof Error ? error.message : String(error);
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
      return { key: key("pushed", path), headers: Object.entries({ ...config.headers, "Content-Type": type, "Cache-Control": "no-cache" }), body: await new Blob([content]).arrayBuffer(), used: Date.now() };
    }));
    await stored(to, () => putBounded(to.store, entries), entries.map((entry) => entry.key));
  }
  async function stored(to, make, keys) {
    try {
      await make();
    } catch (error) {
      throw error.name === "QuotaExceededError" ? new Refused("ENOSPC", "the browser has no room for these files") : error;
    }
    await ask(to.worker, keys ? { ask: "drop", keys } : { ask: "drop" }, workerPatience);
  }
  async function sync(to, names) {
    const result = { stored: 0, failed: {} };
    const waiting = [...names];
    const work = async () => {
      for (let name = waiting.shift(); name !== void 0; name = waiting.shift()) {
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
  async function fetchOne(to, path) {
    const response = await fetch(path, { cache: "no-cache" });
    if (response.status === 504) throw new Error("the server cannot be reached");
    if (!response.ok) throw new Error(`the server answered ${String(response.status)}`);
    const entry = isKept(path, response, maxEntry) ? await entryOf("file", path, response, maxEntry) : void 0;
    if (!entry) throw new Error(`files of more than ${String(maxEntry >> 20)} MiB are not stored`);
    await stored(to, () => putBounded(to.store, [entry]), [entry.key]);
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
      case "CLEAR":
        await stored(to, () => to.store.clear());
        return void 0;
      case "SYNC":
        return sync(to, request.paths);
      default:
        throw new Refused("EINVAL", `unknown request ${String(request.type)}`);
    }
  }
  var last = Promise.resolve();
  function take(request, reply) {
    const id = request.id;
    const done = last.then(() => handle(request));
    last = done.catch(() => void 0);
    done.then(
      (value) => {
        if (typeof id === "number") reply({ type: "OK", id, ...value === void 0 ? {} : { value } });
      },
      (error) => {
        const code = error instanceof Refused ? error.code : "EIO";
        if (typeof id === "number") reply({ type: "ERROR", id, code, message: error.message });
        else console.error("ctxfs:", code, error.message);
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
        await putBounded(to.store, message.entries);
        return { entries: [], config };
      case "delete":
        await to.store.delete(message.keys);
        return { entries: [], config };
      case "get": {
        for (const of of message.keys) {
          const entry = await to.store.get(of);
          if (entry) return { entries: [entry], config };
        }
        return { entries: [], config };
      }
    }
  }
  workers?.addEventListener("message", (event) => {
    const [port] = event.ports;
    void forWorker(event.data).then((reply) => {
      if (reply) port?.postMessage(reply);
    });
  });
  workers?.startMessages();
  void service.then((ready) => {
    const message = { type: "READY", sessionId: config.site, offline: ready !== void 0, ...reason === void 0 ? {} : { reason } };
    for (const other of [parent, opener]) {
      if (other && other !== self) for (const origin of config.parents) other.postMessage(message, origin);
    }
  });
})();
