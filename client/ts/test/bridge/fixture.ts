import { EventEmitter } from "node:events";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { createBridge, createPortFs, type AnyPort, type Bridge, type BridgeOptions, type PanelEvent } from "../../src/bridge/index.js";
import type { CtxFs } from "../../src/create.js";
import type { Handle } from "../../src/gen/ctxfs/v1/fs_types_pb.js";
import { wsDialer } from "../../src/links/ws.js";
import { startServer, type OpenPanelOptions, type Server } from "../../src/server/index.js";
import { Client } from "../../src/session/client.js";
import { startTestServer, type TestServer } from "../serve.js";
import { startProxy, type Proxy } from "./proxy.js";

/** A server, and a bridge that reaches it through a proxy. */
export interface World {
  readonly server: TestServer;
  readonly host: Server;
  readonly proxy: Proxy;
  readonly bridge: Bridge<OpenPanelOptions>;
  /** What the bridge told of misuse and failures. */
  readonly errors: string[];
  /** Opens a panel and returns its context. */
  open(panelId: string, options?: OpenPanelOptions): Promise<string>;
  /** Opens a panel and connects it by a port of its own. */
  panel(panelId: string): Promise<{ fs: CtxFs; contextId: string; port: MessagePort }>;
  /** The handles that a panel has open on the server. */
  handles(panelId: string): Promise<Handle[]>;
  stop(): Promise<void>;
}

/** Starts a world. */
export async function startWorld(options: BridgeOptions = {}): Promise<World> {
  const server = await startTestServer("--lease-grace", "1h"); // no handle closes by itself
  const host = await startServer({ workspace: server.workspace });
  const proxy = await startProxy(server.socket);
  const errors: string[] = [];
  const bridge = createBridge(
    { openPanel: (id, given?: OpenPanelOptions) => host.openPanel(id, given), address: { socket: proxy.socket } },
    { onError: (error, contextId) => { errors.push(`${contextId}: ${error.message}`); }, ...options },
  );
  const open = async (panelId: string, given?: OpenPanelOptions): Promise<string> => (await bridge.open(panelId, given)).contextId;
  return {
    server, host, proxy, bridge, errors, open,
    panel: async (panelId) => {
      const contextId = await open(panelId);
      const { port1, port2 } = new MessageChannel();
      bridge.serve(port1, contextId);
      return { fs: createPortFs(port2), contextId, port: port2 };
    },
    handles: async (panelId) => {
      const client = new Client({ dialer: wsDialer({ socket: server.socket, secure: false }, { panel: panelId }) });
      const { handles } = await client.call("listHandles", {});
      await client.close();
      return handles;
    },
    stop: async () => {
      await bridge.close();
      await proxy.stop();
      await host.stop();
      await server.stop();
    },
  };
}

/** An Electron window, as far as attach sees it. Its preload sends ports. */
export class FakeContents extends EventEmitter {
  readonly ipc = new EventEmitter();
  url = "app://panel/index.html";

  /** What a synchronous message of the preload gives. */
  ask(channel: string): unknown {
    const event = this.event([]);
    this.ipc.emit(channel, event);
    return event.returnValue;
  }

  /** Sends a port, as a document's preload does; gives the page's end. */
  connect(parent: unknown = null): MessagePort {
    const { port1, port2 } = new MessageChannel();
    this.ipc.emit("ctxfs:port", { ...this.event([port1]), senderFrame: { url: this.url, parent } });
    return port2;
  }

  private event(ports: AnyPort[]): PanelEvent {
    return { ports, senderFrame: { url: this.url, parent: null }, returnValue: undefined };
  }
}
