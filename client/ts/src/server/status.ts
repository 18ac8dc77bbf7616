import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { status, type ServiceError } from "@grpc/grpc-js";
import { ConnectionError } from "../errors/connection.js";
import { systemErrorOf } from "../session/failure.js";

const details = "grpc-status-details-bin";

/** Turns what a call of grpc-js failed with into an error of the file system, or of the connection. */
export function callError(error: ServiceError): Error {
  const [encoded] = error.metadata.get(details);
  const info = encoded === undefined ? undefined : errorInfo(Buffer.from(encoded));
  if (info) return systemErrorOf(info.reason, info.metadata);
  if (error.code === status.UNAVAILABLE) return new ConnectionError("ECONNREFUSED", `no ctxfs server was reached (${error.details})`, false, error);
  return error;
}

interface ErrorInfo { reason: string; metadata: Record<string, string> }

/** Reads the google.rpc.ErrorInfo of a google.rpc.Status; undefined when there is none. */
function errorInfo(encoded: Uint8Array): ErrorInfo | undefined {
  for (const any of fieldsOf(encoded).filter((f) => f.no === 3)) {
    const parts = fieldsOf(any.bytes);
    const type = text(parts, 1);
    const value = parts.find((f) => f.no === 2);
    if (value && type.endsWith("/google.rpc.ErrorInfo")) return readInfo(value.bytes);
  }
  return undefined;
}

function readInfo(bytes: Uint8Array): ErrorInfo {
  const fields = fieldsOf(bytes);
  const entries = fields.filter((f) => f.no === 3).map((f) => fieldsOf(f.bytes));
  return { reason: text(fields, 1), metadata: Object.fromEntries(entries.map((e) => [text(e, 1), text(e, 2)])) };
}

interface Field { no: number; bytes: Uint8Array }

/** The length-delimited fields of a message. */
function fieldsOf(bytes: Uint8Array): Field[] {
  const reader = new BinaryReader(bytes);
  const out: Field[] = [];
  while (reader.pos < reader.len) {
    const [no, type] = reader.tag();
    if (type === WireType.LengthDelimited) out.push({ no, bytes: reader.bytes() });
    else reader.skip(type);
  }
  return out;
}

function text(fields: readonly Field[], no: number): string {
  return new TextDecoder().decode(fields.find((f) => f.no === no)?.bytes);
}
