import { Buffer } from "#platform";
import { invalidArgType, nodeError } from "../errors/node.js";
import { isEncoding } from "./validate.js";

/** A view as bytes, without copying. */
export function viewBytes(view: ArrayBufferView): Uint8Array {
  return view instanceof Uint8Array ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** Content that a program gives at once, as bytes. name is the argument's, for errors. */
export function contentBytes(data: unknown, encoding: string | null | undefined, name: string): Uint8Array {
  if (typeof data === "string") return encodedText(data, encoding);
  if (ArrayBuffer.isView(data)) return viewBytes(data);
  throw invalidArgType(name, ["string", "Buffer", "TypedArray", "DataView"], data);
}

/** A piece of content, as bytes: all that Buffer.from takes. */
export function pieceBytes(piece: unknown, encoding: string | null | undefined): Uint8Array {
  if (typeof piece === "string") return encodedText(piece, encoding);
  return ArrayBuffer.isView(piece) ? viewBytes(piece) : Buffer.from(piece as Uint8Array);
}

/** A text's bytes; an encoding that is none of a text's is Buffer's error. */
function encodedText(text: string, encoding: string | null | undefined): Uint8Array {
  return Buffer.from(text, plain((encoding || "utf8") as BufferEncoding));
}

/** A text's bytes in one of Node's encodings; utf8 when there is none. */
export function textBytes(text: string, encoding?: string | null): Uint8Array {
  return Buffer.from(text, isEncoding(encoding) ? plain(encoding) : "utf8");
}

/** A file's bytes as a Buffer, without copying, or as text. */
export function decoded(bytes: Uint8Array, encoding: string | null | undefined): Buffer | string {
  const buffer = asBuffer(bytes);
  if (!encoding) return buffer;
  if (encoding === "buffer") throw nodeError(TypeError, "ERR_UNKNOWN_ENCODING", "Unknown encoding: buffer");
  return textOf(buffer, encoding as BufferEncoding);
}

/** Returns the size of a file that is read as a whole. ERR_FS_FILE_TOO_LARGE for more than Node reads. */
export function requireReadable(size = 0n): number {
  if (size >= 2n ** 31n) throw nodeError(RangeError, "ERR_FS_FILE_TOO_LARGE", `File size (${size}) is greater than 2 GiB`);
  return Number(size);
}

/** Bytes as a Buffer, without copying. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
}

/** The buffer package for browsers has no base64url: it reads base64 and base64url alike, and writes base64 only. */
const hasBase64url = Buffer.isEncoding("base64url");

function plain(encoding: BufferEncoding): BufferEncoding {
  return encoding.toLowerCase() === "base64url" && !hasBase64url ? "base64" : encoding;
}

function textOf(buffer: Buffer, encoding: BufferEncoding): string {
  const text = buffer.toString(plain(encoding));
  if (plain(encoding) === encoding) return text;
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** A name or path that the server gives, in the encoding that the program asked for. */
export function nameOf(text: string, raw: Uint8Array, encoding: string | null | undefined): string | Buffer {
  if (!encoding || encoding === "utf8" || encoding === "utf-8") return raw.length === 0 ? text : asBuffer(raw).toString("utf8");
  const bytes = raw.length === 0 ? textBytes(text) : raw;
  return encoding === "buffer" ? asBuffer(bytes) : decoded(bytes, encoding);
}

/** Says whether data comes in pieces: an iterable that is neither text nor a view. */
export function isPieces(data: unknown): data is Iterable<unknown> | AsyncIterable<unknown> {
  if (data === null || typeof data !== "object" || ArrayBuffer.isView(data)) return false;
  return Symbol.asyncIterator in data || Symbol.iterator in data;
}

/** An array of views, as readv and writev take. */
export function viewArray(value: unknown): ArrayBufferView[] {
  if (!Array.isArray(value) || !value.every((v) => ArrayBuffer.isView(v))) throw invalidArgType("buffers", "ArrayBufferView[]", value);
  return value;
}

/** The error for what should be a buffer. */
export function notAView(value: unknown): Error {
  return invalidArgType("buffer", ["Buffer", "TypedArray", "DataView"], value);
}
