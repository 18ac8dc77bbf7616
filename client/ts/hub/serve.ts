import type { Config, Entry, Kind } from "./store.js";
import { key } from "./store.js";

/** The one spelling of a URL's path: pages write some characters encoded or not. */
export function canonical(pathname: string): string {
  try {
    return pathname.split("/").map((segment) => encodeURIComponent(decodeURIComponent(segment))).join("/");
  } catch {
    return pathname; // not UTF-8
  }
}

/** A request as far as it decides which file is meant. */
export interface Wanted {
  /** Canonical. */
  path: string;
  /** The browser will show the file as a document. */
  document: boolean;
  /** The user goes there. */
  navigates: boolean;
}

/** The keys under which a file for a request may be kept, the best first. */
export function candidates(wanted: Wanted, config: Config, kinds: readonly Kind[]): string[] {
  const { path, navigates } = wanted;
  const paths = [path];
  if (path.endsWith("/")) paths.push(path + encodeURIComponent(config.index));
  else if (config.spa && navigates && !path.slice(path.lastIndexOf("/")).includes(".")) paths.push(`/${encodeURIComponent(config.index)}`, "/");
  return paths.flatMap((p) => kinds.map((kind) => key(kind, p)));
}

/** The kinds of the server's files that a request may get. */
export const kindsOf = ({ document }: Wanted): Kind[] => (document ? ["document", "file"] : ["file"]);

/** The type of a file by its extension, in the server's table. */
export function typeOf(path: string, config: Config): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const dot = name.lastIndexOf(".");
  const type = dot < 0 ? undefined : config.types[name.slice(dot).toLowerCase()];
  if (type === "text/html") return "text/html; charset=utf-8";
  return type ?? "application/octet-stream";
}

/** Headers that an entry may decide: pages of the site can change what is stored, and the server decides the others. */
const own = new Set(["content-type", "etag", "cache-control"]);

/**
 * Answers with a file that is kept whole, with the site's headers. A range of it is cut out here: browsers store no partial answers.
 */
export function respond(entry: Entry, range: string | null, site: Readonly<Record<string, string>>): Response {
  const headers = new Headers(entry.headers.filter(([name]) => own.has(name.toLowerCase())));
  for (const [name, value] of Object.entries(site)) headers.set(name, value);
  headers.set("Accept-Ranges", "bytes");
  const { body } = entry;
  const part = range === null ? undefined : rangeOf(range, body.byteLength);
  if (part === undefined) {
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

/** Reads a Range header (RFC 9110, 14.1): undefined for several ranges and other units, which get the whole; null for one that cannot be. */
export function rangeOf(header: string, size: number): { start: number; end: number } | null | undefined {
  const found = /^bytes=(\d*)-(\d*)$/.exec(header.trim());
  if (!found) return undefined;
  const [, first = "", last = ""] = found;
  if (first === "" && last === "") return undefined;
  if (first === "") return Number(last) === 0 || size === 0 ? null : { start: Math.max(0, size - Number(last)), end: size };
  const start = Number(first);
  if (last !== "" && Number(last) < start) return undefined;
  if (start >= size) return null;
  return { start, end: last === "" ? size : Math.min(size, Number(last) + 1) };
}

/** Headers of the server that a stored file keeps. The others are of the transfer. */
const transfer = new Set(["content-length", "content-encoding", "transfer-encoding", "connection", "date", "vary", "keep-alive"]);

/**
 * Says whether an answer means that the server cannot be reached: one of a proxy between. The server's own 503 says when to retry, and is for the
 * page: the server is there, and may have another file than the stored one.
 */
export const unreachable = ({ status, headers }: Response): boolean => status === 502 || status === 504 || status === 503 && !headers.has("Retry-After");

/** Says whether an answer of the server is kept. The hub's own files are, though other caches must not keep them. */
export function isKept(path: string, response: Response, maxBytes: number): boolean {
  const { headers } = response;
  return response.status === 200 && !response.redirected && response.type === "basic" && Number(headers.get("Content-Length") ?? "0") <= maxBytes
    && (!(headers.get("Cache-Control") ?? "").includes("no-store") || path.startsWith("/__ctxfs/"));
}

/**
 * Reads an answer into an entry. Reads no further than maxBytes, and returns undefined if there is more: an answer that was compressed does not say
 * how long it is. heard is called for each part that comes.
 */
export async function entryOf(kind: Kind, path: string, response: Response, maxBytes: number, heard: () => void = () => undefined): Promise<Entry | undefined> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let next = await reader?.read(); next?.value; next = await reader?.read()) {
    heard();
    size += next.value.byteLength;
    if (size > maxBytes) {
      void reader?.cancel().catch(() => undefined); // of a clone: ends when the other reader does
      return undefined;
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

/** What a visitor sees of something that is neither stored nor to be had. */
export function notStored(wanted: Wanted, site: Readonly<Record<string, string>>): Response {
  const headers = new Headers(site);
  headers.set("Cache-Control", "no-store");
  headers.set("Content-Type", wanted.document ? "text/html; charset=utf-8" : "text/plain; charset=utf-8");
  const text = "The server cannot be reached, and this file is not stored offline.";
  const path = decode(wanted.path).replace(/[&<>"]/g, (c) => `&#${String(c.charCodeAt(0))};`);
  return new Response(wanted.document ? `<!doctype html><meta charset=utf-8><title>Not stored offline</title><h1>Not stored offline</h1><p><code>${path}</code>: ${text}</p>\n` : `${text}\n`, { status: 504, headers });
}

function decode(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path; // not UTF-8
  }
}
