/** Sites in pages: frames that show them, documents whose relative URLs are theirs, and the hub, which shows them without the server. */
import type { Content, HubReady, HubReply, HubRequest, HubStatus, HubStorage, SyncResult } from "./protocol.js";
import type { Site } from "./site.js";

export type { Content, HubReady, HubReply, HubRequest, HubStatus, HubStorage, SyncResult } from "./protocol.js";
export { appSite } from "./app.js";
export type { OpenSite, Site, SiteOptions } from "./site.js";

/** What every frame of a site may do. */
const rights = "allow-scripts allow-forms allow-popups allow-modals allow-downloads";
/** Browsers ask the user before a page of the web reaches this machine: the frame may be allowed (Chrome 142 and later). */
const reaches = "local-network-access; loopback-network";

/** Options of mountPage. */
export interface MountOptions {
  /** The frame's title, for screen readers. */
  title?: string;
}

/**
 * Shows a page of a site in a new frame at the end of a parent element. The frame is sandboxed: it cannot reach this page. In the host form it has
 * the site's own origin, and so storage.
 */
export function mountPage(parent: Element, site: Site, path = "/", options: MountOptions = {}): HTMLIFrameElement {
  const target = new URL(path.replace(/^\/+/, ""), site.url);
  if (!target.href.startsWith(site.url)) throw new TypeError(`${path} is not a path of the site`);
  if (site.origin === location.origin) throw new TypeError("the site has the origin of this page, so that a frame would not keep them apart");
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", isPathForm(site) ? rights : `${rights} allow-same-origin`);
  frame.allow = reaches;
  frame.title = options.title ?? "Preview";
  frame.src = target.href;
  parent.append(frame);
  return frame;
}

const isPathForm = ({ url, origin }: Site): boolean => url !== `${origin}/`;

/**
 * Returns a document for a frame's srcdoc, whose relative URLs are files of a site in the path form. The document stays as it is but for a base
 * element, which is put in front of it unless it has one. Give the frame sandbox="allow-scripts", so that it has an opaque origin.
 */
export function srcdocOf(html: string, site: Site): string {
  if (!isPathForm(site)) throw new TypeError('the site has the host form: open it with form "path", whose files an opaque document may load');
  if (new DOMParser().parseFromString(html, "text/html").querySelector("base[href]")) return html;
  // Only white space and comments may stand before a doctype, and a parser puts a base element in front of <html> into its head.
  const before = /^\uFEFF?(?:\s|<!--.*?-->)*(?:<!doctype[^>]*>)?/is.exec(html)?.[0] ?? "";
  return `${before}<base href="${site.url}">${html.slice(before.length)}`;
}

/** Options of openHub. */
export interface HubOptions {
  /** "memory" forgets the files with the hub; "indexeddb" keeps them. "memory" unless told. All open hubs of a site must have the same. */
  storage?: HubStorage | undefined;
  /** Where the hub's hidden frame is put; document.body unless told. */
  container?: Element | undefined;
  /** How long the hub may take to open, and later to give a sign of life while it works on a request, in ms; 30 s unless told. */
  timeoutMs?: number | undefined;
}

/** A request that the hub refused. */
export class HubError extends Error {
  override readonly name = "HubError";
  /** As Node has it: EINVAL, EACCES, EBADF, EBUSY, ENOSPC, EOPNOTSUPP, EIO, ETIMEDOUT. */
  constructor(readonly code: string, message: string) { super(`${code}: ${message}`); }
}

/** The hub of a site: files that its pages get from this browser. */
export interface Hub {
  /** Pages of the site are shown without the server, as far as their files are stored. */
  readonly offline: boolean;
  /** Why not. */
  readonly reason: string | undefined;
  /** Puts files before the site's, all or none: paths from the site's root. Resolves when pages get them. */
  putFiles(files: Readonly<Record<string, Content>>): Promise<void>;
  /** Takes files away that were put: pages get the site's again. */
  deleteFiles(paths: readonly string[]): Promise<void>;
  /** Deletes all files that were put or stored. */
  clear(): Promise<void>;
  /** Stores files of the site whole: those that match a pattern, if this client opened the site, or those of a list. */
  sync(files: string | readonly string[]): Promise<SyncResult>;
  status(): Promise<HubStatus>;
  /** Removes the hub's frame. What storage "indexeddb" has stays. */
  close(): void;
}

/**
 * Opens the hub of a site that was opened with hub: true, and with this page's origin among its parents. Open it before pages of the site. Rejects
 * with EBUSY while another hub of the site is open with the other storage, also one of another tab.
 */
export async function openHub(site: Site & { files?(pattern: string): Promise<string[]> }, options: HubOptions = {}): Promise<Hub> {
  if (site.hubUrl === "") throw new TypeError("the site has no hub: open it with hub: true");
  const { storage = "memory", container = document.body, timeoutMs = 30_000 } = options;
  const frame = document.createElement("iframe");
  frame.hidden = true;
  // Pages of the site have the hub's origin, and can run scripts in its frame: it may do no more than theirs.
  frame.setAttribute("sandbox", "allow-scripts allow-same-origin");
  frame.allow = reaches;
  frame.src = `${site.hubUrl}?storage=${storage}`;
  const ready = readyOf(frame, site, timeoutMs);
  container.append(frame);
  try {
    const { offline, reason, code } = await ready;
    if (code !== undefined) throw new HubError(code, reason ?? "");
    const { port1, port2 } = new MessageChannel();
    frame.contentWindow?.postMessage({ type: "HELLO" }, site.origin, [port2]);
    return hubOver(port1, frame, site, offline, reason, timeoutMs);
  } catch (error) {
    frame.remove();
    throw error;
  }
}

/** Waits for the hub's first message. */
function readyOf(frame: HTMLIFrameElement, site: Site, ms: number): Promise<HubReady> {
  return new Promise((resolve, reject) => {
    const end = (): void => { clearTimeout(timer); removeEventListener("message", take); };
    const timer = setTimeout(() => {
      end();
      reject(new HubError("ETIMEDOUT", `the hub did not answer: the site is closed, or ${location.origin} is not one of its parents, or nothing of it is stored`));
    }, ms);
    const take = ({ data, source, origin }: MessageEvent<HubReady | null>): void => {
      if (source !== frame.contentWindow || origin !== site.origin || data?.type !== "READY") return;
      end();
      resolve(data);
    };
    addEventListener("message", take);
  });
}

type Asked = HubRequest extends infer R ? R extends HubRequest ? Omit<R, "id" | "sessionId"> : never : never;

function hubOver(port: MessagePort, frame: HTMLIFrameElement, site: Site & { files?(pattern: string): Promise<string[]> }, offline: boolean, reason: string | undefined, ms: number): Hub {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let last = 0, closed = false, timer: ReturnType<typeof setTimeout>;
  const send = (request: Asked): number => {
    port.postMessage({ ...request, id: ++last, sessionId: site.id });
    return last;
  };
  const failAll = (code: string, message: string): void => {
    for (const call of waiting.values()) call.reject(new HubError(code, message));
    waiting.clear();
  };
  /** A request may take long. A hub that does not even answer a PING has ended. */
  const watch = (pinged: boolean): void => {
    clearTimeout(timer);
    if (waiting.size === 0) return;
    timer = setTimeout(() => {
      if (pinged) { failAll("ETIMEDOUT", "the hub does not answer: its frame was removed, or the browser ended it"); return; }
      send({ type: "PING" });
      watch(true);
    }, ms);
  };
  port.onmessage = ({ data }: MessageEvent<HubReply>) => {
    const call = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.type === "OK") call?.resolve(data.value);
    else call?.reject(new HubError(data.code, data.message));
    watch(false);
  };
  const ask = <T = void>(request: Asked): Promise<T> => new Promise<T>((resolve, reject) => {
    if (closed) { reject(new HubError("EBADF", "the hub is closed")); return; }
    waiting.set(send(request), { resolve: resolve, reject });
    if (waiting.size === 1) watch(false);
  });
  return {
    offline, reason,
    putFiles: (files) => ask({ type: "PUT_FILES", files }),
    deleteFiles: (paths) => ask({ type: "DELETE_FILES", paths }),
    clear: () => ask({ type: "CLEAR" }),
    async sync(files) {
      if (typeof files === "string" && !site.files) throw new TypeError("this client did not open the site: name its files in a list");
      const paths = typeof files === "string" ? await site.files?.(files) ?? [] : files;
      return ask<SyncResult>({ type: "SYNC", paths });
    },
    status: () => ask<HubStatus>({ type: "STATUS" }),
    close() {
      closed = true;
      port.close();
      frame.remove();
      clearTimeout(timer);
      failAll("EBADF", "the hub was closed");
    },
  };
}
