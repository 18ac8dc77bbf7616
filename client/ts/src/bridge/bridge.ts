import { makeDialer } from "#platform";
import { ConnectionError } from "../errors/connection.js";
import { requireKnown } from "../errors/options.js";
import type { AddressOptions } from "../links/target.js";
import { Client } from "../session/client.js";
import type { Dialer } from "../session/link.js";
import { attach, type AttachOptions, type PanelContents } from "./attach.js";
import { HostPort } from "./hostport.js";
import { Port, type AnyPort } from "./port.js";

/** A panel, as a bridge's server opens it. */
export interface BridgePanel {
  readonly contextId: string;
  /** The Electron session partition of the context. */
  readonly partition: string;
  readonly token: string;
  /** Gives a further token: asked for at each session but the first, and before a token expires. */
  renewToken?(): Promise<string>;
}

/** What a bridge needs of a server. What startServer of \@ctxfs/client/server gives has it. */
export interface BridgeServer<Options extends object = object> {
  /** Opens a panel. Again is a reload. */
  openPanel(panelId: string, options?: Options): Promise<BridgePanel>;
  /** Where the server is. */
  readonly address: AddressOptions;
}

/** Options of createBridge. */
export interface BridgeOptions {
  /**
   * How sessions travel: "grpc" unless told, where all share one connection. By "ws", which browsers take always, each
   * has its own.
   */
  transport?: "grpc" | "ws" | undefined;
  /**
   * Told what no panel can be told: that it lost its port because it broke the bridge's rules, or that its handles
   * could not be closed at once, so that they close after the server's grace.
   */
  onError?: ((error: Error, contextId: string) => void) | undefined;
}

/** What opening a panel gives its host. The token stays with the bridge. */
export interface OpenedPanel {
  readonly contextId: string;
  /** For webPreferences.partition. */
  readonly partition: string;
}

/** Makes a bridge: many panels over one connection of their host. */
export function createBridge<Options extends object>(server: BridgeServer<Options>, options: BridgeOptions = {}): Bridge<Options> {
  requireKnown(options, ["transport", "onError"]);
  return new Bridge(server, options);
}

/**
 * Serves panels through MessagePorts. Each port is a client instance: its session and its handles end with it. What a
 * panel sends is forwarded unread; which panel it is was settled here, when its port was given to serve or attach.
 */
export class Bridge<Options extends object = object> {
  private readonly panels = new Map<string, Map<string, Access>>();
  private readonly ports = new Set<HostPort>();
  private readonly closing = new Set<Promise<void>>();
  private readonly dialer: Dialer;

  /** See createBridge. */
  constructor(private readonly server: BridgeServer<Options>, private readonly options: BridgeOptions) {
    this.dialer = makeDialer({ ...server.address, transport: options.transport ?? "grpc" });
  }

  /** Opens a panel, seeding its context if need be, so that it can be served. */
  async open(panelId: string, options?: Options): Promise<OpenedPanel> {
    const panel = await this.server.openPanel(panelId, options);
    const { contextId, partition } = panel;
    const sharing = this.panels.get(contextId) ?? new Map<string, Access>();
    this.panels.set(contextId, sharing.set(panelId, new Access(panel)));
    return { contextId, partition };
  }

  /**
   * Serves a panel through a port, until either end closes it. The returned function closes it. Documents, windows and
   * threads of Node close theirs when they end. No event reports that a page has terminated a worker: call the function
   * then. Throws when the panel was not opened, and when several panels share the context and panelId names none of them.
   */
  serve(port: AnyPort, contextId: string, panelId?: string): () => void {
    const access = this.access(contextId, panelId);
    const instance = crypto.randomUUID();
    const host = new HostPort(new Port(port), { instance, dialer: this.dialer, token: () => access.token(), renews: access.renews });
    this.ports.add(host);
    host.onend = (misuse) => {
      this.ports.delete(host);
      if (misuse) this.options.onError?.(misuse, contextId);
      const closing = closeHandles(this.dialer, access.latest, instance)
        .catch((why: unknown) => { this.options.onError?.(why as Error, contextId); })
        .finally(() => { this.closing.delete(closing); });
      this.closing.add(closing);
    };
    return () => { host.close(); };
  }

  /**
   * Serves the panel in an Electron window whose preload calls exposeCtxfs, until the window is destroyed; the returned
   * function ends it before. Call it before the window loads its page. A reload gets a port of its own.
   */
  attach(contents: PanelContents, contextId: string, options: AttachOptions = {}): () => void {
    requireKnown(options, ["panelId", "allow"]);
    const { partition } = this.access(contextId, options.panelId).panel;
    return attach(contents, { contextId, partition, serve: (port) => this.serve(port, contextId, options.panelId) }, options);
  }

  /** Closes all ports, their handles, and then the connection. */
  async close(): Promise<void> {
    for (const port of [...this.ports]) port.close();
    await Promise.allSettled(this.closing);
    this.dialer.close();
  }

  private access(contextId: string, panelId: string | undefined): Access {
    const sharing = this.panels.get(contextId) ?? new Map<string, Access>();
    const access = panelId === undefined && sharing.size === 1 ? [...sharing.values()][0] : sharing.get(panelId ?? "");
    if (access) return access;
    if (panelId === undefined && sharing.size > 1) throw new Error(`the panels ${[...sharing.keys()].join(", ")} share ${contextId}: name one by panelId`);
    throw new Error(`${panelId ?? contextId} was not opened by this bridge: await bridge.open(panelId) first`);
  }
}

/**
 * Closes the handles of a client instance whose port has closed. No client can use them again, so they need not wait for
 * the server's grace. A refused token was revoked, and its handles closed with it.
 */
async function closeHandles(dialer: Dialer, token: string, instance: string): Promise<void> {
  const client = new Client({ dialer: { tokenInOpen: dialer.tokenInOpen, dial: (t) => dialer.dial(t), close: () => undefined }, token });
  try {
    const { handles } = await client.call("listHandles", {});
    const left = handles.filter((handle) => handle.clientInstance === instance);
    await Promise.allSettled(left.map(({ fd }) => client.call("close", { fd })));
  } catch (error) {
    if (!(error instanceof ConnectionError && error.code === "EACCES")) throw error;
  } finally {
    await client.close();
  }
}

/** A panel, and its tokens. */
class Access {
  /** The token that was given last. */
  latest: string;
  private used = false;

  constructor(readonly panel: BridgePanel) {
    this.latest = panel.token;
  }

  get renews(): boolean {
    return this.panel.renewToken !== undefined;
  }

  async token(): Promise<string> {
    if (this.used && this.panel.renewToken) this.latest = await this.panel.renewToken();
    this.used = true;
    return this.latest;
  }
}
