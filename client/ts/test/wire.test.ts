import { create, fromBinary, toBinary, type DescMessage } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { ReadResponseSchema, StatResponseSchema } from "../src/gen/ctxfs/v1/fs_messages_pb.js";
import { FsService } from "../src/gen/ctxfs/v1/fs_pb.js";
import { StatSchema } from "../src/gen/ctxfs/v1/fs_types_pb.js";
import { SessionRequestSchema, SessionResponseSchema, type SessionCall } from "../src/gen/ctxfs/v1/session_pb.js";
import { eachReply, encodeCall, errorOf, join, kinds, type Reply } from "../src/session/codec.js";
import { encodeRequest } from "../src/session/requests.js";
import { decodeResult } from "../src/session/results.js";
import { Reader } from "../src/session/wire.js";
import type { OpName } from "../src/session/operations.js";

/** What protobuf-es reads of what this package writes. */
/** An operation of FsService. */
type FsOp = Extract<OpName, keyof typeof FsService.method>;

function written(id: number, op: FsOp, request: object) {
  return fromBinary(SessionRequestSchema, encodeCall(id, op, encodeRequest(op, request, "ctx_a")));
}

/** What this package reads of what protobuf-es writes. */
function replies(bytes: Uint8Array): Reply[] {
  const out: Reply[] = [];
  eachReply(bytes, (reply) => out.push({ ...reply }));
  return out;
}

const longPath = `/${"ä".repeat(300)}`;

describe("requests that are written by hand are read as they were meant", () => {
  const requests: [FsOp, object][] = [
    ["stat", { path: "/a", rawPath: new Uint8Array(0) }], ["lstat", { path: longPath, rawPath: new Uint8Array(0) }],
    ["unlink", { path: "", rawPath: Uint8Array.of(0x2f, 0xff) }], ["fstat", { fd: 2 ** 31 - 1 }],
    ["close", { fd: 3 }], ["close", { fd: 3, commit: true }],
    ["read", { fd: 3, position: 0n, length: 262144n }], ["read", { fd: 3, position: -1n, length: 5n }], ["read", { fd: 3, position: 2n ** 60n }],
    ["write", { fd: 3, position: -1n, content: { case: "data", value: new Uint8Array(70_000).fill(7) } }],
    ["write", { fd: 3, position: 5n, content: { case: "data", value: new Uint8Array(0) } }],
    ["readFile", { path: "/a", rawPath: new Uint8Array(0), flagForm: { case: "flag", value: "r" } }],
    ["readFile", { path: "/a", flagForm: { case: "flagNumber", value: 0 } }], ["readFile", { fd: 3 }], ["readFile", { path: "/a", encoding: "hex" }],
    ["writeFile", { path: "/a", modeForm: { case: "mode", value: 0 }, flagForm: { case: "flag", value: "w" }, content: { case: "data", value: new Uint8Array(70_000).fill(7) } }],
    ["writeFile", { path: "/a", modeForm: { case: "mode", value: 0o666 }, flagForm: { case: "flag", value: "a" }, flush: true, content: { case: "data", value: new Uint8Array(0) } }],
    ["writeFile", { fd: 3, content: { case: "text", value: "text" } }],
    ["write", { fd: 3, content: { case: "text", value: "text" } }], ["mkdir", { path: "/d", recursive: true }],
  ];
  test.each(requests.map(([op, request], i) => [i, op, request] as const))("%i: %s", (_, op, request) => {
    for (const id of [1, 127, 128, 2 ** 21, 2 ** 40]) expect(written(id, op, request).id).toBe(BigInt(id));
    const { method, data } = written(1, op, request).request.value as SessionCall;
    expect(method).toBe(`/ctxfs.v1.FsService/${FsService.method[op].name}`);
    expect(fromBinary(FsService.method[op].input as DescMessage, data)).toMatchObject({ ...request, contextId: "ctx_a" });
  });

  test("several join to one message", () => {
    const messages = [1, 2, 3].map((id) => encodeCall(id, "stat", encodeRequest("stat", { path: `/${id}` }, "")));
    const joined = fromBinary(SessionRequestSchema, join(messages));
    expect([joined.id, ...joined.also.map(({ id }) => id)]).toEqual([1n, 2n, 3n]);
  });
});

describe("replies are read by hand as protobuf-es wrote them", () => {
  const stat = {
    type: 1, dev: 2n ** 64n - 1n, ino: 2n ** 53n + 1n, mode: 0o100644, nlink: 1n, uid: 2 ** 32 - 1, gid: 0, rdev: 0n, size: 2n ** 62n,
    blksize: 4096n, blocks: 0n, atimeNs: -1n, mtimeNs: 1_700_000_000_123_456_789n, ctimeNs: 2n ** 63n - 1n, birthtimeNs: -(2n ** 63n),
  };

  test("attributes, with the numbers at their bounds", () => {
    const value = { stat: create(StatSchema, stat) };
    const bytes = toBinary(SessionResponseSchema, create(SessionResponseSchema, { id: 5n, response: { case: "reply", value: { data: toBinary(StatResponseSchema, create(StatResponseSchema, value)) } } }));
    const [reply] = replies(bytes);
    expect(reply).toMatchObject({ id: 5, more: false, kind: kinds.reply });
    expect(reply && decodeResult("stat", bytes, reply.from, reply.to, {})).toEqual({ stat });
    expect(reply && decodeResult("stat", bytes, reply.from, reply.to, { numbers: true })).toMatchObject({
      stat: { type: 1, dev: Number(stat.dev), ino: Number(stat.ino), mode: stat.mode, uid: stat.uid, size: Number(stat.size), blksize: 4096, blocks: 0, mtimeMs: 1_700_000_000_123.4568 },
    });
  });

  test("content, into memory of its own or the caller's", () => {
    const value = { bytesRead: 3n, content: { case: "data" as const, value: Uint8Array.of(1, 2, 3) } };
    const bytes = toBinary(SessionResponseSchema, create(SessionResponseSchema, { id: 1n, response: { case: "reply", value: { data: toBinary(ReadResponseSchema, create(ReadResponseSchema, value)) } } }));
    const [reply] = replies(bytes);
    const into = new Uint8Array(8);
    const own = decodeResult("read", bytes, reply?.from ?? 0, reply?.to ?? 0, {}) as { content: { value: Uint8Array } };
    const given = decodeResult("read", bytes, reply?.from ?? 0, reply?.to ?? 0, { into }) as { content: { value: Uint8Array } };
    bytes.fill(0);
    expect([[...own.content.value], own.content.value.buffer === bytes.buffer]).toEqual([[1, 2, 3], false]);
    expect([[...given.content.value], given.content.value.buffer === into.buffer]).toEqual([[1, 2, 3], true]);
  });

  test("several in one message, errors among them", () => {
    const error = { code: 5, message: "m", reason: "ENOENT", metadata: { path: "/x" } };
    const also = [create(SessionResponseSchema, { id: 2n, more: true }), create(SessionResponseSchema, { id: 3n, response: { case: "error", value: error } })];
    const [first, second, third] = replies(toBinary(SessionResponseSchema, create(SessionResponseSchema, { id: 1n, also })));
    expect([first?.id, second?.id, second?.more, third?.id, third?.kind]).toEqual([1, 2, true, 3, kinds.error]);
    expect(third && errorOf(third)).toMatchObject(error);
  });

  test("times as numbers are what bigints are in ms", () => {
    const random = (): bigint => BigInt.asIntN(64, (BigInt(Math.floor(Math.random() * 2 ** 32)) << 32n) | BigInt(Math.floor(Math.random() * 2 ** 32)));
    const edges = [0n, 1n, -1n, 999_999_999n, 1_000_000_000n, -1_000_000_000n, -1_000_000_001n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 32n, 1_700_000_000_999_999_999n];
    const around = Array.from({ length: 2000 }, () => (random() / 1_000_000_000n) * 1_000_000_000n + BigInt(Math.floor(Math.random() * 5) - 2));
    for (const ns of [...edges, ...around.map((n) => BigInt.asIntN(64, n)), ...Array.from({ length: 2000 }, random)]) {
      const data = toBinary(StatSchema, create(StatSchema, { mtimeNs: ns }));
      const reader = new Reader(data);
      let rest = ns % 1_000_000_000n;
      if (rest < 0n) rest += 1_000_000_000n;
      const expected = Number((ns - rest) / 1_000_000_000n) * 1000 + Number(rest) / 1e6;
      if (ns !== 0n) reader.next();
      expect(ns === 0n ? 0 : reader.milliseconds(), String(ns)).toBe(expected);
    }
  });

  test("what is cut short is refused, at every byte", () => {
    const value = { stat: create(StatSchema, stat) };
    const bytes = toBinary(SessionResponseSchema, create(SessionResponseSchema, { id: 5n, response: { case: "reply", value: { data: toBinary(StatResponseSchema, create(StatResponseSchema, value)) } } }));
    for (let n = 3; n < bytes.length; n++) expect(() => replies(bytes.subarray(0, n)), `${n} bytes`).toThrow(RangeError);
  });

  test("fields that are not known are passed over", () => {
    const reader = new Reader(Uint8Array.of(0x08, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 0x02, 1, 2, 0x25, 1, 2, 3, 4, 0x28, 0x07));
    const fields: number[] = [];
    while (reader.next()) {
      fields.push(reader.field);
      reader.skip();
    }
    expect(fields).toEqual([1, 2, 3, 4, 5]);
  });
});
