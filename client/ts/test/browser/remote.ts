import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { create, fromBinary, toBinary, type DescMethod } from "@bufbuild/protobuf";
import { build } from "esbuild";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { abortError } from "../../src/errors/node.js";
import { systemError, type SystemErrorInit } from "../../src/errors/system.js";
import { SessionReadySchema } from "../../src/gen/ctxfs/v1/session_pb.js";
import { services, type CallOptions, type Caller, type OpName, type PartsOp, type RequestInit, type ResponseOf } from "../../src/session/operations.js";
import { startChromium } from "./chromium.js";
import type { Reply } from "./opfs.page.js";

/*
 * Callers whose operations a page of Chromium does in its own storage: so the tables and libraries that run in Node run on it.
 */

const methods = new Map<string, DescMethod>(services.flatMap(({ methods: all }) => all.map((method): [string, DescMethod] => [method.localName, method])));

/** What a page's functions are called with. */
type Args = (string | number)[];

/** A page whose storage keeps workspaces. */
export class StoragePage {
  private lastId = 0;

  constructor(readonly page: Page) {}

  /** Makes a caller of one of its workspaces. */
  caller(workspace: string): Caller {
    return new RemoteCaller(this, workspace);
  }

  /** Calls a function of the page. */
  run(name: string, ...args: Args): Promise<Reply | undefined> {
    return this.page.evaluate(([called, given]) => (globalThis as unknown as Record<string, (...args: Args) => Promise<Reply>>)[called]?.(...given), [name, args] as const);
  }

  /** Returns a number that no call has. */
  nextId(): number {
    return ++this.lastId;
  }
}

class RemoteCaller implements Caller {
  readonly maxContent = 64 << 20;

  constructor(private readonly page: StoragePage, private readonly workspace: string) {}

  async call<K extends OpName>(op: K, request: RequestInit<K>, { into, signal }: CallOptions = {}): Promise<ResponseOf<K>> {
    await Promise.resolve(); // a signal that fires at once is in time
    if (signal?.aborted) throw abortError(signal.reason);
    const result = decoded(op, await this.page.run("call", this.workspace, op, encoded(op, request)));
    const { content } = result as { content?: { value?: unknown } };
    if (content?.value instanceof Uint8Array) {
      const { value } = content;
      const fits = into && value.length <= into.length;
      if (fits) into.set(value);
      content.value = fits ? into.subarray(0, value.length) : value.slice(); // it is a view of the message
    }
    return result as ResponseOf<K>;
  }

  async *parts<K extends PartsOp>(op: K, request: RequestInit<K>, { signal }: CallOptions = {}): AsyncIterableIterator<ResponseOf<K>> {
    const id = this.page.nextId();
    const tell = (name: string): void => { this.page.run(name, id).catch(() => undefined); }; // the page may be gone
    const cancel = (): void => { tell("cancel"); };
    await this.page.run("begin", id, this.workspace, op, encoded(op, request));
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted) cancel();
    try {
      for (;;) {
        const reply = await this.page.run("next", id, op);
        if (signal?.aborted) throw abortError(signal.reason);
        if (reply?.done) return;
        yield decoded(op, reply) as ResponseOf<K>;
      }
    } finally {
      signal?.removeEventListener("abort", cancel);
      tell("forget");
    }
  }

  hold(): () => void {
    return () => undefined;
  }

  ready() {
    return Promise.resolve(create(SessionReadySchema, {}));
  }

  async close(): Promise<void> {
    await this.page.run("end", this.workspace);
  }
}

function encoded(op: string, request: object): string {
  const { input } = methods.get(op) as DescMethod;
  return Buffer.from(toBinary(input, create(input, request as never))).toString("base64");
}

function decoded(op: string, reply: Reply | undefined): unknown {
  if (reply?.error) {
    const { code, message, name, ...rest } = reply.error as SystemErrorInit & { message: string; name: string };
    throw rest.syscall === undefined ? Object.assign(new Error(message), { code, name }) : systemError({ code, ...rest });
  }
  return fromBinary((methods.get(op) as DescMethod).output, new Uint8Array(Buffer.from(reply?.value ?? "", "base64")));
}

/** A browser whose pages have storage. */
export interface Storage {
  /** Opens a page of a browser profile; of a new one unless told. */
  open(context?: BrowserContext): Promise<StoragePage>;
  newContext(): Promise<BrowserContext>;
  stop(): Promise<void>;
}

/** Starts Chromium, and a server of the page. */
export async function startStorage(): Promise<Storage> {
  const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
  const { outputFiles: [script] } = await build({
    entryPoints: [at("opfs.page.ts")], bundle: true, write: false, format: "iife", platform: "browser", target: "es2022", logLevel: "error",
    alias: { "#platform": at("../../src/platform/browser.ts") },
  });
  const server: Server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/html" }).end(`<!doctype html><meta charset="utf-8"><script>${(script?.text ?? "").replaceAll("</script", "<\\/script")}</script>`);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const browser: Browser = await startChromium();
  return {
    newContext: () => browser.newContext(),
    open: async (context) => {
      const page = await (context ?? await browser.newContext()).newPage();
      await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
      return new StoragePage(page);
    },
    stop: async () => {
      await browser.close();
      server.close();
    },
  };
}
