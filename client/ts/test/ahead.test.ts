import { describe, expect, it } from "vitest";
import { ReadAhead } from "../src/fs/ahead.js";

/** A file that is read in pieces, and what was asked for. */
function fileOf(length: number): { bytes: Uint8Array; asked: [number, number][]; ahead: ReadAhead; fail?: Error } {
  const file = { bytes: Uint8Array.from({ length }, (_, i) => (i * 7) % 251), asked: [] as [number, number][] } as ReturnType<typeof fileOf>;
  file.ahead = new ReadAhead((position, size) => {
    file.asked.push([position, size]);
    return file.fail ? Promise.reject(file.fail) : Promise.resolve(file.bytes.slice(position, position + size));
  });
  return file;
}

async function readAll(ahead: ReadAhead, step: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (;;) {
    const bytes = new Uint8Array(step);
    const n = await ahead.read(bytes);
    if (n === 0) return Buffer.concat(parts);
    parts.push(bytes.subarray(0, n));
  }
}

describe("reading ahead", () => {
  it.each([0, 1, 1000, 256 << 10, (256 << 10) + 1, 3 << 20, 9_000_001])("gives all of %i bytes in order", async (length) => {
    const file = fileOf(length);
    expect(Buffer.compare(await readAll(file.ahead, 64 << 10), file.bytes)).toBe(0);
  });

  it("asks for larger and larger pieces, a few ahead, and for none twice", async () => {
    const file = fileOf(8 << 20);
    await file.ahead.read(new Uint8Array(1));
    expect(file.asked).toEqual([[0, 256 << 10], [256 << 10, 512 << 10], [768 << 10, 1 << 20], [1792 << 10, 2 << 20]]);
    await file.ahead.read(new Uint8Array(100));
    expect(file.asked.length).toBe(4);
    await file.ahead.read(new Uint8Array(1), 256 << 10);
    expect(file.asked.at(-1)).toEqual([3840 << 10, 2 << 20]);
  });

  it("asks for no more than a small file holds", async () => {
    const file = fileOf(10);
    await readAll(file.ahead, 64 << 10);
    expect(file.asked).toEqual([[0, 256 << 10], [10, 256 << 10]]); // the second finds the end
  });

  it("begins anew elsewhere", async () => {
    const file = fileOf(8 << 20);
    await readAll(file.ahead, 1 << 20);
    const bytes = new Uint8Array(5);
    expect(await file.ahead.read(bytes, 3)).toBe(5);
    expect(bytes).toEqual(file.bytes.subarray(3, 8));
    expect(file.asked.at(-4)).toEqual([3, 256 << 10]);
  });

  it("finds what was added since", async () => {
    const file = fileOf(100);
    const bytes = new Uint8Array(200);
    expect(await file.ahead.read(bytes)).toBe(100);
    file.bytes = Uint8Array.from({ length: 150 }, () => 9);
    expect(await file.ahead.read(bytes)).toBe(50);
    expect(await file.ahead.read(bytes)).toBe(0);
  });

  it("tells of a failure to who asks, and of no other", async () => {
    const file = fileOf(1 << 20);
    file.fail = new Error("gone");
    await expect(file.ahead.read(new Uint8Array(1))).rejects.toThrow("gone");
    delete file.fail;
    expect(await file.ahead.read(new Uint8Array(1), 5)).toBe(1);
  });
});
