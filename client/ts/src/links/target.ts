import type { ContentRequest } from "../session/link.js";

/** Where a server is. */
export interface Target {
  /** A unix socket's path. */
  socket?: string;
  /** host:port of a TCP address. */
  host?: string;
  /** With TLS. */
  secure: boolean;
}

/** Options that name a server. One of them is enough. */
export interface AddressOptions {
  /** As ctxfs prints it: "unix:///run/ctxfs.sock" or "127.0.0.1:7420"; also a socket's path. */
  address?: string | undefined;
  /** A unix socket's path. */
  socket?: string | undefined;
  /** "http://127.0.0.1:7421" or "https://…": the address of --http, or any gRPC address. */
  url?: string | undefined;
}

/** A server that was found, and for whom its host calls. */
export interface Found extends AddressOptions {
  token: string;
  contextId?: string | undefined;
  panel?: string | undefined;
}

/** Says whether options name a server. */
export function namesServer({ address, socket, url }: AddressOptions): boolean {
  return address !== undefined || socket !== undefined || url !== undefined;
}

/** Reads the options that name a server. */
export function targetOf(options: AddressOptions): Target {
  if (options.socket !== undefined) return { socket: options.socket, secure: false };
  if (options.url !== undefined) return fromUrl(options.url);
  const { address } = options;
  if (!address) throw new TypeError("no server is named: give address, socket or url, or use startServer of @ctxfs/client/server");
  if (address.startsWith("/")) return { socket: address, secure: false };
  if (address.startsWith("unix:")) return { socket: address.replace(/^unix:(\/\/)?/, ""), secure: false };
  if (/^(https?|wss?):/.test(address)) return fromUrl(address);
  return { host: address, secure: false };
}

function fromUrl(text: string): Target {
  const url = new URL(text);
  const secure = url.protocol === "https:" || url.protocol === "wss:";
  if (!secure && url.protocol !== "http:" && url.protocol !== "ws:") throw new TypeError(`${text} is no http or https address`);
  return { host: url.port ? url.host : `${url.host}:${secure ? 443 : 80}`, secure };
}

/** The WebSocket address of sessions at host. */
export function sessionUrl(target: Target, panel?: string): string {
  const query = panel === undefined ? "" : `?ctxfs-panel=${encodeURIComponent(panel)}`;
  return `${target.secure ? "wss" : "ws"}://${target.host ?? "localhost"}/v1/session${query}`;
}

/** Larger content than Node reads at once is left to the session, which says so. */
export const largestContent: number = 2 ** 31 - 1;

/** The path of GET /v1/content, with its query. */
export function contentPath({ rawPath, contextId, ...of }: ContentRequest, panel?: string): string {
  const query = new URLSearchParams();
  for (const key of ["path", "fd", "start", "end"] as const) if (of[key] !== undefined) query.set(key, String(of[key]));
  if (rawPath && rawPath.length > 0) query.set("raw_path", btoa(String.fromCharCode(...rawPath)));
  if (contextId) query.set("context_id", contextId);
  if (panel !== undefined) query.set("ctxfs-panel", panel);
  return `/v1/content?${query.toString()}`;
}
