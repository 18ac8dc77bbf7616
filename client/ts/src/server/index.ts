import type { ChildProcess } from "node:child_process";
import { join, resolve } from "node:path";
import type { Client } from "@grpc/grpc-js";
import { createFs, type CtxFs } from "../create.js";
import { ConnectionError } from "../errors/connection.js";
import { requireKnown } from "../errors/options.js";
import { ContextService } from "../gen/ctxfs/v1/context_pb.js";
import { PanelRight, PanelService, type OpenPanelResponse } from "../gen/ctxfs/v1/panel_pb.js";
import { grpcClient } from "../links/grpc.js";
import { addressOf, readRecord, type ServerRecord } from "../links/discover.js";
import { targetOf, type AddressOptions } from "../links/target.js";
import type { Reviewer } from "../review/review.js";
import { serverStream, unary } from "./calls.js";
import { progressOf, type OpenPanelOptions, type Panel } from "./panel.js";
import { endServer, spawnServer, type SpawnOptions } from "./process.js";

export type { OpenPanelOptions, Panel, Progress } from "./panel.js";

/** Options of startServer. */
export interface StartOptions extends SpawnOptions {
  /** Where contexts are kept; WORKSPACE/.contexts unless told. */
  contextsDir?: string | undefined;
}

/** A ctxfs server, as its host uses it. */
export class Server {
  /** The unix socket's path; "" when there is none. */
  readonly socket: string;
  /** The URL for pages, of --http or of a TCP address; undefined when the server has neither. */
  readonly url: string | undefined;
  /** Where to reach it from this machine: options of createFs. */
  readonly address: AddressOptions;
  /** startServer started it, and stop ends it. */
  readonly started: boolean;
  readonly #client: Client;
  readonly #token: string;
  readonly #child: ChildProcess | undefined;
  #reviews: CtxFs | undefined;

  /** Makes one of a server that runs. Programs get theirs from startServer. */
  constructor(record: ServerRecord, child: ChildProcess | undefined) {
    this.socket = record.socket;
    this.address = addressOf(record);
    this.url = urlOf(record);
    this.started = child !== undefined;
    this.#child = child;
    this.#token = record.token;
    this.#client = grpcClient(targetOf(this.address));
  }

  /** Opens a panel, making its context if need be. Opening again is a reload: the same files, a further token. */
  async openPanel(panelId: string, options: OpenPanelOptions = {}): Promise<Panel> {
    requireKnown(options, ["contextId", "readOnly", "review", "exec", "ttlMs", "onProgress"]);
    const { contextId = "", readOnly = false, review = false, exec = false, ttlMs = 0, onProgress } = options;
    if (onProgress) {
      const context = contextId === "" ? { panelId } : { contextId };
      await serverStream(this.#client, this.#token, ContextService.method.ensureContext, context, ({ event }) => {
        if (event.case === "progress") onProgress(progressOf(event.value));
      });
    }
    const rights = [...(review ? [PanelRight.REVIEW] : []), ...(exec ? [PanelRight.EXEC] : [])];
    const request = { panelId, contextId, readOnly, rights, ttlMs: BigInt(ttlMs) };
    const opened = await unary(this.#client, this.#token, PanelService.method.openPanel, request);
    const info = await unary(this.#client, this.#token, ContextService.method.getInfo, { contextId: opened.contextId });
    return this.#panel(opened, info.folder, ttlMs);
  }

  /** An fs on a context, as the host. */
  fs(contextId: string): CtxFs {
    return createFs({ ...this.address, token: this.#token, contextId });
  }

  /** The review of a context, as the host: it decides, applies and undoes. All reviews share one session. */
  review(contextId: string): Reviewer {
    this.#reviews ??= createFs({ ...this.address, token: this.#token });
    return this.#reviews.reviewer(contextId);
  }

  /** Ends the connection, and the server if startServer started it. */
  async stop(): Promise<void> {
    this.#client.close();
    await this.#reviews?.disconnect();
    if (this.#child) await endServer(this.#child);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #panel({ panelId, contextId, partition, token }: OpenPanelResponse, folder: string, ttlMs: number): Panel {
    const renewToken = async (): Promise<string> => {
      const renewed = await unary(this.#client, this.#token, PanelService.method.renewToken, { panelId, ttlMs: BigInt(ttlMs) });
      return renewed.token;
    };
    let first: string | undefined = token;
    const fs = createFs({
      ...this.address,
      token: () => {
        const given = first;
        first = undefined;
        return given ?? renewToken();
      },
    });
    const close = async (): Promise<void> => {
      await fs.disconnect();
      await unary(this.#client, this.#token, PanelService.method.closePanel, { panelId });
    };
    const exec: Panel["exec"] = (argv, options) => fs.exec(argv, options);
    return {
      panelId, contextId, folder, partition, token, fs, review: fs.review, exec, processes: () => fs.processes(), renewToken, close,
      [Symbol.asyncDispose]: () => fs.disconnect(),
    };
  }
}

/** Attaches to the server of a workspace, or starts one. */
export async function startServer(options: StartOptions): Promise<Server> {
  requireKnown(options, ["workspace", "contextsDir", "bin", "args"]);
  const workspace = resolve(options.workspace);
  const contextsDir = options.contextsDir === undefined ? join(workspace, ".contexts") : resolve(options.contextsDir);
  const running = await attach(contextsDir);
  if (running) return running;
  const args = options.contextsDir === undefined ? options.args : ["--contexts-dir", contextsDir, ...(options.args ?? [])];
  const child = await spawnServer({ ...options, workspace, args });
  const record = readRecord(contextsDir);
  if (!record) throw new Error(`the server of ${workspace} wrote no server.json into ${contextsDir}: name its contexts directory by the option contextsDir`);
  return new Server(record, child);
}

/** Attaches to the server that server.json names, if it answers: one that was killed leaves its file. */
async function attach(contextsDir: string): Promise<Server | undefined> {
  const record = readRecord(contextsDir);
  if (!record) return undefined;
  const client = grpcClient(targetOf(addressOf(record)));
  try {
    await unary(client, record.token, PanelService.method.listPanels, {});
    return new Server(record, undefined);
  } catch (error) {
    if (error instanceof ConnectionError) return undefined;
    throw error;
  } finally {
    client.close();
  }
}

function urlOf({ http, tls, addresses }: ServerRecord): string | undefined {
  const host = http ?? addresses.find((address) => !address.startsWith("unix:"));
  return host === undefined ? undefined : `${tls ? "https" : "http"}://${host}`;
}
