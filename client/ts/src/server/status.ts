import type { Any } from "@bufbuild/protobuf/wkt";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { status, type ServiceError } from "@grpc/grpc-js";
import { ConnectionError } from "../errors/connection.js";
import { errorOf } from "../session/failure.js";

const trailer = "grpc-status-details-bin";

/** Turns what a call of grpc-js failed with into an error of the file system, of a refusal, or of the connection. */
export function callError(error: ServiceError): Error {
  const [encoded] = error.metadata.get(trailer);
  const details = encoded === undefined ? [] : detailsOf(Buffer.from(encoded));
  const info = details.find(({ typeUrl }) => typeUrl.endsWith("/google.rpc.ErrorInfo"));
  if (info) {
    const { reason, metadata } = readInfo(info.value);
    return errorOf(reason, metadata, details);
  }
  if (error.code === status.UNAVAILABLE) return new ConnectionError("ECONNREFUSED", `no ctxfs server was reached (${error.details})`, false, error);
  return error;
}

interface ErrorInfo { reason: string; metadata: Record<string, string> }

/** Reads the details of a google.rpc.Status. */
function detailsOf(encoded: Uint8Array): Any[] {
  return fieldsOf(encoded).filter((f) => f.no === 3).map((any) => {
    const parts = fieldsOf(any.bytes);
    return { $typeName: "google.protobuf.Any", typeUrl: text(parts, 1), value: parts.find((f) => f.no === 2)?.bytes ?? new Uint8Array(0) };
  });
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
