import { create, fromBinary, toBinary, type DescMessage } from "@bufbuild/protobuf";
import {
  OperationSchema, SessionRequestSchema, SessionResponseSchema, type SessionResponse,
} from "../gen/ctxfs/v1/session_pb.js";
import type { OpName, RequestInit, ResponseOf } from "./operations.js";

interface Shape { readonly number: number; readonly message: DescMessage }

/** Where an operation's request and result stand in their oneofs, and what they are. */
function shapes(schema: DescMessage): Map<string, Shape> {
  const out = new Map<string, Shape>();
  for (const field of schema.fields) {
    if (field.fieldKind === "message") out.set(field.localName, { number: field.number, message: field.message });
  }
  return out;
}

const requests = shapes(OperationSchema);

/** Encodes a request message of operation op, without the envelope. */
export function encodeRequest<K extends OpName>(op: K, init: RequestInit<K>, contextId: string): Uint8Array {
  const shape = requests.get(op);
  if (!shape) throw new TypeError(`no operation is called ${op}`);
  const message = create(shape.message, init as never) as { contextId?: string };
  message.contextId = contextId;
  return toBinary(shape.message, message as never);
}

/** Encodes a SessionRequest that asks for operation op, given its encoded request. */
export function encodeOperation(id: number, op: OpName, body: Uint8Array): Uint8Array {
  const number = requests.get(op)?.number ?? 0;
  const inner = sizeOfField(number, body.length);
  const writer = new Writer(sizeOfVarint(id) + 1 + sizeOfField(3, inner));
  writer.field(1, 0);
  writer.varint(id);
  writer.field(3, 2);
  writer.varint(inner);
  writer.field(number, 2);
  writer.varint(body.length);
  writer.raw(body);
  return writer.bytes;
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
  const writer = new Writer(others.reduce((n, m) => n + sizeOfField(6, m.length), first.length));
  writer.raw(first);
  for (const message of others) {
    writer.field(6, 2);
    writer.varint(message.length);
    writer.raw(message);
  }
  return writer.bytes;
}

/** Decodes a SessionResponse. */
export function decodeResponse(bytes: Uint8Array): SessionResponse {
  return fromBinary(SessionResponseSchema, bytes);
}

/** Takes operation op's result out of a response. Throws when the server answered another. */
export function resultOf<K extends OpName>(op: K, response: SessionResponse): ResponseOf<K> {
  const result = response.response.case === "result" ? (response.response.value.response as { case?: string; value?: unknown }) : {};
  if (result.case !== op) throw new Error(`the server answered ${op} with ${result.case ?? "nothing"}`);
  return result.value as ResponseOf<K>;
}

function sizeOfVarint(n: number): number {
  let size = 1;
  for (; n >= 128; n = Math.floor(n / 128)) size++;
  return size;
}

function sizeOfField(number: number, length: number): number {
  return sizeOfVarint(number << 3) + sizeOfVarint(length) + length;
}

/** Writes protobuf's wire format into an array of known size. */
class Writer {
  readonly bytes: Uint8Array;
  private at = 0;

  constructor(size: number) {
    this.bytes = new Uint8Array(size);
  }

  field(number: number, wireType: number): void {
    this.varint((number << 3) | wireType);
  }

  varint(n: number): void {
    for (; n >= 128; n = Math.floor(n / 128)) this.bytes[this.at++] = (n % 128) | 128;
    this.bytes[this.at++] = n;
  }

  raw(bytes: Uint8Array): void {
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
  }
}
