import type { Dialer } from "../session/link.js";
import type { AddressOptions } from "../links/target.js";

/** How to reach a server, and as whom. */
export interface DialOptions extends AddressOptions {
  /** For hosts: the panel to act for. */
  panel?: string | undefined;
  /** Node only: how sessions travel; "ws" unless told. */
  transport?: "ws" | "grpc" | undefined;
}

/** Makes what connects to a server. */
export type MakeDialer = (options: DialOptions) => Dialer;

/** Loads what starts servers for sandboxes; undefined where no process can be started. */
export type LoadHost = (() => Promise<typeof import("../sandbox/host.js")>) | undefined;

/** Loads what sends requests to a gateway; undefined where pages are sent by a browser. */
export type LoadGateway = (() => Promise<typeof import("../links/gateway.js")>) | undefined;

/** The operations that streams are made of, with callbacks as Node's fs has them. */
export interface StreamOperations {
  open(path: string, flags: unknown, mode: unknown, done: (error: unknown, fd?: number) => void): void;
  close(fd: number, done: (error?: unknown) => void): void;
  read(fd: number, buffer: Uint8Array, offset: number, length: number, position: unknown, done: (error: unknown, n?: number, buffer?: unknown) => void): void;
  write(fd: number, buffer: Uint8Array, offset: number, length: number, position: unknown, done: (error: unknown, n?: number, buffer?: unknown) => void): void;
  writev(fd: number, buffers: Uint8Array[], position: unknown, done: (error: unknown, n?: number, buffers?: unknown) => void): void;
  fsync(fd: number, done: (error?: unknown) => void): void;
}

/** What streams a platform has. */
export interface Streams {
  /** fs.createReadStream over these operations. */
  read(path: unknown, options: unknown, operations: StreamOperations): import("node:fs").ReadStream;
  /** fs.createWriteStream over these operations. */
  write(path: unknown, options: unknown, operations: StreamOperations): import("node:fs").WriteStream;
  /** The lines of what open gives. */
  lines(open: () => import("node:fs").ReadStream, bytes: () => ReadableStream<Uint8Array>): AsyncIterable<string>;
}

/** Classes of Node whose instances results are, by prototype. Browsers have none. */
export interface NodeClasses {
  readonly Stats?: { readonly prototype: object };
  readonly Dir?: { readonly prototype: object };
}
