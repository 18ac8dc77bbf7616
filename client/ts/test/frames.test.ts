import { describe, expect, test } from "vitest";
import { frameHead, FrameParser, ProtocolError } from "../src/links/frames.js";

interface Seen { messages: string[]; controls: [number, string][] }

/** Parses bytes in pieces of a size, and notes what comes out. */
function parse(bytes: Uint8Array, pieceSize: number): Seen {
  const seen: Seen = { messages: [], controls: [] };
  const parser = new FrameParser({
    onmessage: (payload) => { seen.messages.push(Buffer.from(payload).toString()); },
    oncontrol: (code, payload) => { seen.controls.push([code, Buffer.from(payload).toString()]); },
  });
  for (let at = 0; at < bytes.length; at += pieceSize) parser.push(bytes.subarray(at, at + pieceSize));
  return seen;
}

/** A server's frame: not masked. */
function frame(code: number, text: string, final = true): Buffer {
  const size = Buffer.byteLength(text);
  const head = Buffer.alloc(size < 126 ? 2 : size < 65_536 ? 4 : 10);
  head[0] = (final ? 0x80 : 0) | code;
  head[1] = size < 126 ? size : size < 65_536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(size, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(size), 2);
  return Buffer.concat([head, Buffer.from(text)]);
}

const lengths = [0, 1, 125, 126, 65_535, 65_536, 200_000];

describe("what arrives is put together, however it is cut", () => {
  const texts = lengths.map((n) => "x".repeat(n));
  const whole = Buffer.concat(texts.map((text) => frame(2, text)));
  test.each([1, 2, 7, 1000, 65_537, 1 << 20])("in pieces of %i bytes", (size) => {
    expect(parse(whole, size).messages.map((m) => m.length)).toEqual(lengths);
  });

  test.each([1, 3, 100])("in fragments with a ping between them, in pieces of %i bytes", (size) => {
    const bytes = Buffer.concat([frame(2, "one ", false), frame(9, "ping"), frame(0, "", false), frame(0, "two"), frame(2, "next"), frame(8, "\u0003done")]);
    expect(parse(bytes, size)).toEqual({ messages: ["one two", "next"], controls: [[9, "ping"], [8, "\u0003done"]] });
  });
});

test.each([
  ["a masked frame", Buffer.from([0x82, 0x80])],
  ["a reserved bit", Buffer.from([0xc2, 0x00])],
  ["a ping in fragments", Buffer.from([0x09, 0x00])],
  ["a long ping", Buffer.from([0x89, 126, 0, 126])],
  ["a message beyond all bounds", Buffer.from([0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0])],
])("%s is refused", (_, bytes) => {
  expect(() => parse(bytes, 1)).toThrow(ProtocolError);
});

test.each([...lengths, 2 ** 32 + 5])("the head of a client's frame of %i bytes says its length, and is masked by zeros", (size) => {
  const head = Buffer.from(frameHead(2, size));
  const short = (head[1] ?? 0) & 127;
  expect(head[0]).toBe(0x82);
  expect((head[1] ?? 0) & 0x80).toBe(0x80);
  expect(short < 126 ? short : short === 126 ? head.readUInt16BE(2) : Number(head.readBigUInt64BE(2))).toBe(size);
  expect([...head.subarray(-4)]).toEqual([0, 0, 0, 0]);
});
