import { Buffer, nodeMajor } from "#platform";
import { invalidArgType, invalidArgValue, outOfRange } from "../errors/node.js";
import { contentBytes, notAView, textBytes, viewBytes } from "./bytes.js";
import { requireInt32, requireInteger, requireObject } from "./validate.js";

/*
 * The arguments of FileHandle's read and write, in all the forms that Node takes. Where a form leaves something out,
 * Node computes it before it checks the rest; the order here is that order, since errors show it.
 */

/** Bytes that read takes when it makes the buffer itself. */
const readSize = 16 << 10;

/** A position that a file can have; -1 for all else, which means the handle's own. */
export function positionOf(position: unknown): number {
  return Number.isSafeInteger(position) ? (position as number) : -1;
}

/** The position of a read of length bytes. Node checks it from version 22 on, and takes a bigint. */
function readPositionOf(position: unknown, length: number): number {
  if (nodeMajor < 22) return positionOf(position);
  if (position === null || position === undefined) return -1;
  if (typeof position === "number") return requireInteger(position, "position", -1);
  if (typeof position !== "bigint") throw invalidArgType("position", ["integer", "bigint"], position);
  const max = 2n ** 63n - 1n - BigInt(length);
  if (position < -1n || position > max) throw outOfRange("position", `>= -1 && <= ${max}`, position);
  return Number(position);
}

/** What read is to do. */
export interface ReadCall {
  readonly buffer: ArrayBufferView;
  /** The part of buffer to read into; undefined for a read of nothing. */
  readonly bytes: Uint8Array | undefined;
  readonly length: number;
  readonly position: number;
}

interface Range { offset?: unknown; length?: unknown; position?: unknown }

/** The forms of read: (buffer, offset, length, position), (buffer, options) and (options). */
export function readArguments(first: unknown, offset: unknown, length: unknown, position: unknown): ReadCall {
  let buffer = first as ArrayBufferView;
  let range: Range = { offset, length, position };
  if (!ArrayBuffer.isView(first)) {
    if (first !== undefined && first !== null) requireObject(first, "options");
    const given: Range & { buffer?: ArrayBufferView } = first ?? {};
    ({ buffer = Buffer.alloc(readSize) } = given);
    range = rangeOf(buffer, given);
  }
  if (!ArrayBuffer.isView(buffer) && range.offset === undefined) throw notAView(buffer);
  if (range.offset !== null && typeof range.offset === "object") range = rangeOf(buffer, range.offset);
  if (!ArrayBuffer.isView(buffer)) throw notAView(buffer);
  return readCall(buffer, range);
}

function rangeOf(buffer: ArrayBufferView, { offset = 0, length = buffer.byteLength - (offset as number), position = null }: Range): Range {
  return { offset, length, position };
}

function readCall(buffer: ArrayBufferView, { offset, length, position }: Range): ReadCall {
  const from = offset === null || offset === undefined ? 0 : requireInteger(offset, "offset", 0);
  const given = (length ?? buffer.byteLength - from) as number;
  const count = nodeMajor < 26 ? given : given | 0;
  if (count === 0) return { buffer, bytes: undefined, length: count, position: -1 };
  if (buffer.byteLength === 0) throw invalidArgValue("buffer", buffer, "is empty and cannot be written");
  if (count < 0) throw outOfRange("length", ">= 0", count);
  if (from + count > buffer.byteLength) throw outOfRange("length", `<= ${buffer.byteLength - from}`, count);
  requireInteger(count, "length");
  return { buffer, bytes: viewBytes(buffer).subarray(from, from + count), length: count, position: readPositionOf(position, count) };
}

/** What write is to do. */
export interface WriteCall {
  readonly bytes: Uint8Array;
  readonly position: number;
}

/** The forms of write: (buffer, offset, length, position), (buffer, options) and (text, position, encoding). */
export function writeArguments(data: unknown, offset: unknown, length: unknown, position: unknown): WriteCall {
  if (!ArrayBuffer.isView(data)) return { bytes: textToWrite(data, length), position: positionOf(offset) };
  if (data.byteLength === 0) return { bytes: new Uint8Array(0), position: -1 };
  const range = typeof offset === "object" ? rangeOf(data, (offset ?? {})) : { offset, length, position };
  const from = range.offset === null || range.offset === undefined ? 0 : requireInteger(range.offset, "offset", 0);
  const count = typeof range.length === "number" ? range.length : data.byteLength - from;
  if (from > data.byteLength) throw outOfRange("offset", `<= ${data.byteLength}`, from);
  if (count > data.byteLength - from) throw outOfRange("length", `<= ${data.byteLength - from}`, count);
  if (count < 0) throw outOfRange("length", ">= 0", count);
  requireInt32(count, "length", 0);
  return { bytes: viewBytes(data).subarray(from, from + count), position: positionOf(range.position) };
}

function textToWrite(data: unknown, encoding: unknown): Uint8Array {
  if (typeof data !== "string") return contentBytes(data, undefined, "buffer");
  if (typeof encoding === "string" && encoding.toLowerCase() === "hex" && data.length % 2 !== 0) {
    throw invalidArgValue("encoding", encoding, `is invalid for data of length ${data.length}`);
  }
  return textBytes(data, encoding as string | undefined);
}
