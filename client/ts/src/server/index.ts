import type { ChildProcess } from "node:child_process";
import { join, resolve } from "node:path";
import { makeDialer } from "#platform";
import type { Client } from "@grpc/grpc-js";
import { createFs, type CtxFs } from "../create.js";
import { ConnectionError } from "../errors/connection.js";
import { requireKnown } from "../errors/options.js";
import { ContextService } from "../gen/ctxfs/v1/context_pb.js";
import { PanelRight, PanelService, type OpenPanelResponse } from "../gen/ctxfs/v1/panel_pb.js";
import { grpcClient } from "../links/grpc.js";
import { addressOf, readRecord, type ServerRecord } from "../links/discover.js";
import { targetOf, type AddressOptions } from "../links/target.js";
import { Git } from "../git/git.js";
import { Reviewer } from "../review/review.js";
import { Client as Session } from "../session/client.js";
import { kindOf, layoutOf, listZones, zoneOf, type ZoneInfo, type ZoneKind, type ZoneLayoutOptions } from "../zones/zones.js";
import { serverStream, unary } from "./calls.js";
import { progressOf, type OpenPanelOptions, type Panel } from "./panel.js";
import { endServer, spawnServer, type SpawnOptions } from "./process.js";

export type { OpenPanelOptions, Panel, Progress } from "./panel.js";

/** The socket identifies the host. */
const noToken = "";

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
  readonly #child: ChildProcess | undefined;
  #session: Session | undefined;

  /** Makes one of a server that runs. Programs get theirs from startServer. */
  constructor(record: ServerRecord, child: ChildProcess | undefined) {
    this.socket = record.socket;
    this.address = addressOf(record);
    this.url = urlOf(record);
    this.started = child !== undefined;
    this.#child = child;
    this.#client = grpcClient(targetOf(this.address));
  }

  /** Opens a panel, making its context if need be. Opening again is a reload: the same files, a further token. */
  async openPanel(panelId: string, options: OpenPanelOptions = {}): Promise<Panel> {
    requireKnown(options, ["contextId", "seedFrom", "readOnly", "review", "exec", "gitPush", "zones", "labels", "ttlMs", "onProgress"]);
    const { contextId = "", seedFrom = [], readOnly = false, review = false, exec = false, gitPush = false, zones, labels = {}, ttlMs = 0, onProgress } = options;
    if (onProgress && !zones) {
      const context = contextId === "" ? { panelId, seedFrom: [...seedFrom] } : { contextId, seedFrom: [...seedFrom] };
      let made = "";
      await serverStream(this.#client, noToken, ContextService.method.ensureContext, context, ({ event }) => {
        if (event.case === "progress") onProgress(progressOf(event.value));
        if (event.case === "ready" && event.value.seeded) made = event.value.context?.contextId ?? "";
      });
      if (made !== "" && Object.keys(labels).length > 0) {
        await unary(this.#client, noToken, ContextService.method.setLabels, { contextId: made, put: { ...labels } });
      }
    }
    const rights = [...(review ? [PanelRight.REVIEW] : []), ...(exec ? [PanelRight.EXEC] : []), ...(gitPush ? [PanelRight.GIT_PUSH] : [])];
    const request = { panelId, contextId, seedFrom: [...seedFrom], readOnly, rights, ttlMs: BigInt(ttlMs), labels: { ...labels }, ...(zones ? { zones: layoutOf(zones) } : {}) };
    const opened = await unary(this.#client, noToken, PanelService.method.openPanel, request);
    const info = await unary(this.#client, noToken, ContextService.method.getInfo, { contextId: opened.contextId });
    return this.#panel(opened, info.folder, ttlMs);
  }

  /** An fs on a context, as the host. */
  fs(contextId: string): CtxFs {
    return createFs({ ...this.address, token: noToken, contextId });
  }

  /** The review of a context, as the host: it decides, applies and undoes. */
  review(contextId: string): Reviewer {
    return new Reviewer(this.#calls, contextId);
  }

  /** Commits of a context, as the host: it pushes them. */
  git(contextId: string): Git {
    return new Git(this.#calls, contextId);
  }

  /** The zones of a context, with their directories. */
  zones(contextId: string, options?: { measure?: boolean | undefined }): Promise<ZoneInfo[]> {
    return listZones(this.#calls, contextId, options);
  }

  /** Says what a layout of zones would mean, and changes nothing. Of a folder of the workspace it is the layout in its context-zones.yml. */
  async explainZones(layout: ZoneLayoutOptions | { folder: string }): Promise<{ mode: ZoneKind | undefined; zones: ZoneInfo[]; notes: string[] }> {
    const request = "folder" in layout ? { folder: layout.folder } : { layout: layoutOf(layout) };
    const { mode, zones, notes } = await this.#calls.call("explainZones", request);
    return { mode: kindOf(mode), zones: zones.map(zoneOf), notes };
  }

  /** Returns where a path of a context is on the server's disk. Rejects with ENOTSUP where the server alone sees the files. */
  async resolve(contextId: string, path: string): Promise<string> {
    return (await this.#calls.call("resolvePath", { contextId, path })).dir;
  }

  /** One session carries all of these calls. */
  get #calls(): Session {
    return (this.#session ??= new Session({ dialer: makeDialer(this.address), token: noToken }));
  }

  /** Ends the connection, and the server if startServer started it. */
  async stop(): Promise<void> {
    this.#client.close();
    await this.#session?.close();
    if (this.#child) await endServer(this.#child);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #panel({ panelId, contextId, partition, token }: OpenPanelResponse, folder: string, ttlMs: number): Panel {
    const renewToken = async (): Promise<string> => {
      const renewed = await unary(this.#client, noToken, PanelService.method.renewToken, { panelId, ttlMs: BigInt(ttlMs) });
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
      await unary(this.#client, noToken, PanelService.method.closePanel, { panelId });
    };
    const exec: Panel["exec"] = (argv, options) => fs.exec(argv, options);
    return {
      panelId, contextId, folder, partition, token, fs,
      export: ({ path = "/", ...options } = {}) => fs.exportArchive(path, options),
      import: (source, { path = "/", ...options } = {}) => fs.importArchive(source, path, options),
      review: fs.review, git: fs.git, zones: (options) => fs.zones(options), resolve: (path) => this.resolve(contextId, path), exec, processes: () => fs.processes(), openSite: (options) => fs.openSite(options), renewToken, close,
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
    await unary(client, noToken, PanelService.method.listPanels, {});
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
