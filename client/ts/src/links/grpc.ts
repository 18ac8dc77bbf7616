import * as grpc from "@grpc/grpc-js";
import type { Dialer, Link } from "../session/link.js";
import type { Target } from "./target.js";

const method = "/ctxfs.v1.FsService/Session";
/** Bytes that a server may send ahead of what was taken, for a stream and for a connection. HTTP/2's 64 KiB halve the speed of large reads. */
const window = 2 << 20;

/** Options of gRPC links. */
export interface GrpcOptions {
  /** For hosts: the panel that the session acts for. */
  panel?: string | undefined;
}

/** Makes links that are streams of FsService/Session, by grpc-js. */
export function grpcDialer(target: Target, { panel }: GrpcOptions = {}): Dialer {
  const client = grpcClient(target);
  return {
    tokenInOpen: false,
    dial: (token) => Promise.resolve(linkOf(client.makeBidiStreamRequest(method, toBuffer, same, metadataOf(token, panel)))),
    close: () => { client.close(); },
  };
}

/** A grpc-js client of a server. */
export function grpcClient(target: Target): grpc.Client {
  const address = target.socket === undefined ? (target.host ?? "") : `unix:${target.socket}`;
  const credentials = target.secure ? grpc.credentials.createSsl() : grpc.credentials.createInsecure();
  return new grpc.Client(address, credentials, {
    "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1,
    "grpc-node.flow_control_window": window, "grpc.keepalive_time_ms": 30_000, "grpc.keepalive_timeout_ms": 10_000,
  });
}

/** The metadata of a caller. */
export function metadataOf(token: string, panel?: string): grpc.Metadata {
  const metadata = new grpc.Metadata();
  if (token) metadata.set("authorization", `Bearer ${token}`);
  if (panel !== undefined) metadata.set("ctxfs-panel", panel);
  return metadata;
}

const same = (bytes: Buffer): Buffer => bytes;
const toBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function linkOf(stream: grpc.ClientDuplexStream<Uint8Array, Buffer>): Link {
  let unsent = 0;
  let ended = false;
  const link: Link = {
    onmessage: null,
    onclose: null,
    get bufferedAmount() { return unsent; },
    send: (message) => {
      unsent += message.length;
      stream.write(message, () => { unsent -= message.length; });
    },
    close: () => { stream.cancel(); },
    pause: (on) => { if (on) stream.pause(); else stream.resume(); },
  };
  const end = (why: Error): void => {
    if (!ended) link.onclose?.(why);
    ended = true;
  };
  stream.on("data", (bytes: Buffer) => { link.onmessage?.(bytes); });
  // The code distinguishes a refused token from an absent server.
  stream.on("error", (why: grpc.ServiceError) => { end(Object.assign(new Error(why.details, { cause: why }), { grpc: why.code })); });
  stream.on("end", () => { end(new Error("the server ended the session")); });
  return link;
}
