import { nodeMajor } from "#platform";
import { invalidArgType, invalidArgValue, nodeError } from "../errors/node.js";

/** A path as a program gives it. */
export type PathLike = string | Uint8Array | URL;

/** A path as a request carries it, and as errors show it. */
export interface VirtualPath {
  /** For the request: path, or "" with raw. */
  readonly path: string;
  /** The bytes of a path that is not UTF-8; else empty. */
  readonly raw: Uint8Array;
  /** As the program gave it. */
  readonly shown: string;
}

const none = new Uint8Array(0);
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

/** Reads a path: a string, a Buffer, or a file URL. name is the argument's, for errors. */
export function pathOf(value: unknown, name = "path"): VirtualPath {
  const given = isUrl(value) ? pathOfUrl(value) : value;
  if (typeof given === "string") {
    if (given.includes("\0")) throw nullBytes(name, given);
    return { path: given, raw: none, shown: given };
  }
  if (!(given instanceof Uint8Array)) throw invalidArgType(name, ["string", "Buffer", "URL"], given);
  if (given.includes(0)) throw nullBytes(name, given);
  return fromBytes(given);
}

/** Takes for a URL what Node takes for one: also another realm's, and other implementations of the class. */
function isUrl(value: unknown): value is URL {
  if (typeof value !== "object" || value === null) return false;
  const { href, protocol, auth, path } = value as Record<string, unknown>;
  return Boolean(href && protocol) && auth === undefined && path === undefined;
}

function nullBytes(name: string, value: unknown): Error {
  return invalidArgValue(name, value, "must be a string, Uint8Array, or URL without null bytes");
}

function fromBytes(bytes: Uint8Array): VirtualPath {
  try {
    const path = strict.decode(bytes);
    return { path, raw: none, shown: path };
  } catch {
    return { path: "", raw: bytes, shown: lenient.decode(bytes) };
  }
}

/** The path of a file URL, by POSIX rules on every system: paths of ctxfs are POSIX. */
function pathOfUrl(url: URL): string {
  if (url.protocol !== "file:") throw nodeError(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
  if (url.hostname !== "") {
    throw nodeError(TypeError, "ERR_INVALID_FILE_URL_HOST", 'File URL host must be "localhost" or empty on linux');
  }
  if (/%2f/i.test(url.pathname)) {
    const error = nodeError(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must not include encoded / characters");
    throw nodeMajor >= 22 ? Object.assign(error, { input: url }) : error;
  }
  return decodeURIComponent(url.pathname);
}

/** The fields of a request with one path. */
export function pathFields(p: VirtualPath): { path: string; rawPath: Uint8Array } {
  return { path: p.path, rawPath: p.raw };
}

/** The fields of a request with two. */
export function twoPathFields(from: VirtualPath, to: VirtualPath): { path: string; rawPath: Uint8Array; dest: string; rawDest: Uint8Array } {
  return { path: from.path, rawPath: from.raw, dest: to.path, rawDest: to.raw };
}
