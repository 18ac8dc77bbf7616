import { fromBinary, type DescMessage } from "@bufbuild/protobuf";
import type { Stat } from "../gen/ctxfs/v1/fs_types_pb.js";
import { services, type OpName } from "./operations.js";
import { Reader } from "./wire.js";

/** What each operation's result is. */
const schemas = new Map<string, DescMessage>(services.flatMap(({ methods }) => methods.map(({ localName, output }): [string, DescMessage] => [localName, output])));

type Decoder = (reader: Reader, options: DecodeOptions) => unknown;

/** How a result is decoded. */
export interface DecodeOptions {
  /** Where content goes, if there is room. */
  into?: Uint8Array | undefined;
  /** Attributes are decoded as a NumberStat. */
  numbers?: boolean | undefined;
}

/** Attributes in numbers, times in ms. Most programs want these, and bigints cost more than the rest of a reply. */
export type NumberStat = Record<"type" | "dev" | "ino" | "mode" | "nlink" | "uid" | "gid" | "rdev" | "size" | "blksize" | "blocks" | "atimeMs" | "mtimeMs" | "ctimeMs" | "birthtimeMs", number>;

const decodeStat: Decoder = (reader, { numbers }) => {
  while (reader.next()) {
    if (reader.field === 1) {
      const end = reader.limit();
      const inner = new Reader(reader.data, reader.at, end);
      return { stat: numbers ? numbersOf(inner) : statOf(inner) };
    }
    reader.skip();
  }
  return {};
};

/** Attributes, field by field; what is not there is 0. */
function statOf(reader: Reader): Stat {
  const stat = {
    type: 0, dev: 0n, ino: 0n, mode: 0, nlink: 0n, uid: 0, gid: 0, rdev: 0n, size: 0n, blksize: 0n, blocks: 0n,
    atimeNs: 0n, mtimeNs: 0n, ctimeNs: 0n, birthtimeNs: 0n,
  };
  while (reader.next()) {
    switch (reader.field) {
      case 1: stat.type = reader.uint(); break;
      case 2: stat.dev = reader.uint64(); break;
      case 3: stat.ino = reader.uint64(); break;
      case 4: stat.mode = reader.uint(); break;
      case 5: stat.nlink = reader.uint64(); break;
      case 6: stat.uid = reader.uint(); break;
      case 7: stat.gid = reader.uint(); break;
      case 8: stat.rdev = reader.uint64(); break;
      case 9: stat.size = reader.int64(); break;
      case 10: stat.blksize = reader.int64(); break;
      case 11: stat.blocks = reader.int64(); break;
      case 12: stat.atimeNs = reader.int64(); break;
      case 13: stat.mtimeNs = reader.int64(); break;
      case 14: stat.ctimeNs = reader.int64(); break;
      case 15: stat.birthtimeNs = reader.int64(); break;
      default: reader.skip();
    }
  }
  return stat as unknown as Stat;
}

/** As statOf, in numbers. */
function numbersOf(reader: Reader): NumberStat {
  const stat = { type: 0, dev: 0, ino: 0, mode: 0, nlink: 0, uid: 0, gid: 0, rdev: 0, size: 0, blksize: 0, blocks: 0, atimeMs: 0, mtimeMs: 0, ctimeMs: 0, birthtimeMs: 0 };
  while (reader.next()) {
    switch (reader.field) {
      case 1: stat.type = reader.uint(); break;
      case 2: stat.dev = reader.uint(); break;
      case 3: stat.ino = reader.uint(); break;
      case 4: stat.mode = reader.uint(); break;
      case 5: stat.nlink = reader.uint(); break;
      case 6: stat.uid = reader.uint(); break;
      case 7: stat.gid = reader.uint(); break;
      case 8: stat.rdev = reader.uint(); break;
      case 9: stat.size = reader.uint(); break;
      case 10: stat.blksize = reader.uint(); break;
      case 11: stat.blocks = reader.uint(); break;
      case 12: stat.atimeMs = reader.milliseconds(); break;
      case 13: stat.mtimeMs = reader.milliseconds(); break;
      case 14: stat.ctimeMs = reader.milliseconds(); break;
      case 15: stat.birthtimeMs = reader.milliseconds(); break;
      default: reader.skip();
    }
  }
  return stat;
}

/** Content is copied: into what the caller gave, or into memory of its own, which the result then has for itself. */
const decodeContent: Decoder = (reader, { into }) => {
  const result: { lossy: boolean; bytesRead: bigint; etag: string; totalLines?: bigint; content: { case: string | undefined; value: unknown } } = {
    lossy: false, bytesRead: 0n, etag: "", content: { case: undefined, value: undefined },
  };
  while (reader.next()) {
    if (reader.field === 2 && reader.type === 0) result.bytesRead = reader.int64();
    else if (reader.field === 22) result.etag = reader.string();
    else if (reader.field === 23) result.totalLines = reader.int64();
    else if (reader.field === 100) result.content = { case: "data", value: copied(reader, into) };
    else if (reader.field === 101) result.content = { case: "text", value: reader.string() };
    else reader.skip();
  }
  return result;
};

function copied(reader: Reader, into: Uint8Array | undefined): Uint8Array {
  const { data } = reader;
  const end = reader.limit();
  const from = reader.at;
  reader.at = end;
  if (!into || into.length < end - from) return Uint8Array.prototype.slice.call(data, from, end);
  into.set(data.subarray(from, end));
  return into.subarray(0, end - from);
}

const decodeWritten: Decoder = (reader) => {
  const result: { bytesWritten: bigint; position?: bigint } = { bytesWritten: 0n };
  while (reader.next()) {
    if (reader.field === 1) result.bytesWritten = reader.int64();
    else if (reader.field === 2) result.position = reader.int64();
    else reader.skip();
  }
  return result;
};

const decodeWrittenFile: Decoder = (reader) => {
  const result = { bytesWritten: 0n, etag: "" };
  while (reader.next()) {
    if (reader.field === 1) result.bytesWritten = reader.int64();
    else if (reader.field === 22) result.etag = reader.string();
    else reader.skip();
  }
  return result;
};

/** The results that travel most. */
const decoders: Partial<Record<OpName, Decoder>> = {
  stat: decodeStat, lstat: decodeStat, fstat: decodeStat, read: decodeContent, readFile: decodeContent, write: decodeWritten, writeFile: decodeWrittenFile,
};

/**
 * Decodes the response of operation op. What comes back holds no view of data, whose memory may be used
 * again.
 */
export function decodeResult(op: OpName, data: Uint8Array, from: number, to: number, options: DecodeOptions): unknown {
  const decoder = decoders[op];
  if (decoder) return decoder(new Reader(data, from, to), options);
  const schema = schemas.get(op);
  if (!schema) throw new TypeError(`no operation is called ${op}`);
  return fromBinary(schema, Uint8Array.prototype.slice.call(data, from, to));
}
