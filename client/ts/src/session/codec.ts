import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  SessionClosingSchema, SessionErrorSchema, SessionReadySchema, SessionRefreshedSchema, SessionRequestSchema,
  type SessionError, type SessionReady, type SessionRefreshed,
} from "../gen/ctxfs/v1/session_pb.js";
import type { OpName } from "./operations.js";
import { methodOf, type Body } from "./requests.js";
import { Reader, sizeOfVarint } from "./wire.js";

/** The fields of SessionRequest, SessionCall and SessionReply that are written or read by hand. */
const callField = 3, methodField = 1, windowField = 2, dataField = 100;

/** Encodes a SessionRequest that calls the RPC of operation op, given its encoded request. window is 0 for none. */
export function encodeCall(id: number, op: OpName, { head, content }: Body, window = 0): Uint8Array {
  const method = methodOf(op);
  const length = head.length + content.length;
  const inner = sizeOfField(methodField, method.length) + (window > 0 ? 1 + sizeOfVarint(window) : 0) + sizeOfField(dataField, length);
  const out = new Uint8Array(sizeOfVarint(id) + 1 + sizeOfField(callField, inner));
  let at = put(out, 0, 1 << 3, id);
  at = put(out, at, (callField << 3) | 2, inner);
  at = put(out, at, (methodField << 3) | 2, method.length);
  out.set(method, at);
  at += method.length;
  if (window > 0) at = put(out, at, windowField << 3, window);
  at = put(out, at, (dataField << 3) | 2, length);
  out.set(head, at);
  if (content.length > 0) out.set(content, at + head.length);
  return out;
}

/** Encodes the open message. */
export function encodeOpen(clientInstance: string, token: string): Uint8Array {
  const value = { clientInstance, token, batches: true };
  return toBinary(SessionRequestSchema, create(SessionRequestSchema, { request: { case: "open", value } }));
}

/** Encodes a cancel of operation id. */
export function encodeCancel(id: number): Uint8Array {
  return toBinary(SessionRequestSchema, create(SessionRequestSchema, { id: BigInt(id), request: { case: "cancel", value: {} } }));
}

/** Encodes a credit for operation id. */
export function encodeCredit(id: number, bytes: number): Uint8Array {
  return toBinary(SessionRequestSchema, create(SessionRequestSchema, { id: BigInt(id), request: { case: "credit", value: { bytes: BigInt(bytes) } } }));
}

/** Encodes a refresh_token. */
export function encodeRefresh(id: number, token: string): Uint8Array {
  const request = { case: "refreshToken" as const, value: { token } };
  return toBinary(SessionRequestSchema, create(SessionRequestSchema, { id: BigInt(id), request }));
}

/** Joins encoded SessionRequests to one: the others stand in the first one's also. */
export function join(messages: readonly Uint8Array[]): Uint8Array {
  const [first, ...others] = messages;
  if (!first) throw new TypeError("no message to join");
  if (others.length === 0) return first;
  const out = new Uint8Array(others.reduce((n, m) => n + sizeOfField(6, m.length), first.length));
  out.set(first);
  let at = first.length;
  for (const message of others) {
    at = put(out, at, (6 << 3) | 2, message.length);
    out.set(message, at);
    at += message.length;
  }
  return out;
}

/** What a SessionResponse holds. The numbers are its fields. */
export const kinds = { ready: 3, reply: 4, error: 5, refreshed: 6, closing: 7 } as const;

/** One SessionResponse: its content, of a reply the response's, is in data, from from to to. */
export interface Reply {
  readonly id: number;
  readonly more: boolean;
  /** One of kinds; 0 when it holds nothing. */
  readonly kind: number;
  readonly data: Uint8Array;
  readonly from: number;
  readonly to: number;
}

/** Hands over a SessionResponse and those in its also, in order. */
export function eachReply(data: Uint8Array, visit: (reply: Reply) => void, start = 0, end = data.length): void {
  const reader = new Reader(data, start, end);
  const also: [number, number][] = [];
  const reply = { id: 0, more: false, kind: 0, data, from: 0, to: 0 };
  while (reader.next()) {
    const { field } = reader;
    if (field === 1) reply.id = reader.uint();
    else if (field === 2) reply.more = reader.uint() !== 0;
    else if (field === 8) {
      const to = reader.limit();
      also.push([reader.at, to]);
      reader.at = to;
    } else if (field === kinds.reply) {
      reply.kind = field;
      const to = reader.limit();
      const inner = new Reader(data, reader.at, to);
      reader.at = reply.from = reply.to = inner.end;
      while (inner.next()) {
        if (inner.field !== dataField) inner.skip();
        else {
          reply.to = inner.limit();
          reply.from = inner.at;
          inner.at = reply.to;
        }
      }
    } else if (field >= kinds.ready && field <= kinds.closing) {
      reply.kind = field;
      reply.to = reader.limit();
      reply.from = reader.at;
      reader.at = reply.to;
    } else reader.skip();
  }
  visit(reply);
  for (const [from, to] of also) eachReply(data, visit, from, to);
}

/** Decodes what is of kind ready. */
export function readyOf(reply: Reply): SessionReady {
  return fromBinary(SessionReadySchema, contentOf(reply));
}

/** Decodes what is of kind error. */
export function errorOf(reply: Reply): SessionError {
  return fromBinary(SessionErrorSchema, contentOf(reply));
}

/** Decodes what is of kind refreshed. */
export function refreshedOf(reply: Reply): SessionRefreshed {
  return fromBinary(SessionRefreshedSchema, contentOf(reply));
}

/** Decodes what is of kind closing. */
export function closingOf(reply: Reply): SessionError | undefined {
  return fromBinary(SessionClosingSchema, contentOf(reply)).error;
}

/** A copy: what is decoded may hold views, and the link may use its memory again. */
function contentOf({ data, from, to }: Reply): Uint8Array {
  return Uint8Array.prototype.slice.call(data, from, to);
}

function sizeOfField(number: number, length: number): number {
  return sizeOfVarint(number << 3) + sizeOfVarint(length) + length;
}

/** Writes a tag and a varint, and returns where they end. */
function put(out: Uint8Array, at: number, tag: number, value: number): number {
  for (let n = tag; ; n = Math.floor(n / 128)) {
    if (n < 128) { out[at++] = n; break; }
    out[at++] = (n % 128) | 128;
  }
  for (let n = value; ; n = Math.floor(n / 128)) {
    if (n < 128) { out[at++] = n; break; }
    out[at++] = (n % 128) | 128;
  }
  return at;
}
