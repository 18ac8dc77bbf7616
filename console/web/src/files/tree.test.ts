import { describe, expect, it } from "vitest";
import { pathField, shownPath } from "./names";
import { hexDump, modeText, textOf } from "./read";
import { nodesOf, rowsOf, type Listing } from "./tree";

const file = "FILE_TYPE_FILE";
const directory = "FILE_TYPE_DIRECTORY";

describe("the tree", () => {
  const top = nodesOf([], [{ name: "b10", type: file }, { name: "b9", type: file }, { name: "z", type: directory }]);

  it("lists directories first, and numbers in names as numbers", () => {
    expect(top.map((node) => node.names.join("/"))).toEqual(["z", "b9", "b10"]);
  });

  it("shows what is in open directories alone", () => {
    const listings = new Map<string, Listing>([
      ["", { state: "read", nodes: top, more: false }],
      ["z", { state: "read", nodes: nodesOf(["z"], [{ name: "in", type: file }]), more: true }],
    ]);
    expect(rowsOf(listings, new Set()).map((row) => row.key)).toEqual(["z", "b9", "b10"]);
    const rows = rowsOf(listings, new Set(["z"]));
    expect(rows.map((row) => [row.key, row.depth, row.note?.state])).toEqual([["z", 1, undefined], ["z/in", 2, undefined], ["z/\0more", 2, "more"], ["b9", 1, undefined], ["b10", 1, undefined]]);
  });

  it("says that a directory is being read, is empty, or failed", () => {
    const states: [Listing | undefined, string][] = [[undefined, "loading"], [{ state: "read", nodes: [], more: false }, "empty"], [{ state: "failed", error: new Error("no") }, "failed"]];
    for (const [listing, note] of states) {
      expect(rowsOf(new Map(listing ? [["", listing]] : []), new Set()).map((row) => row.note?.state)).toEqual([note]);
    }
  });
});

describe("names", () => {
  it("keep bytes that are not UTF-8", () => {
    const names = ["a", ...nodesOf([], [{ rawName: "Yv8v" }]).flatMap((node) => node.names)];
    expect(names[1]).not.toContain("/");
    expect(shownPath(names)).toBe("/a/b\\xff/");
    expect(pathField(names)).toEqual({ rawPath: btoa("/a/b\xff/") });
    expect(pathField(["a", "ü"])).toEqual({ path: "/a/ü" });
  });
});

describe("content", () => {
  const bytes = (...values: number[]) => Uint8Array.from(values);

  it("is text if it is UTF-8 without NUL", () => {
    expect(textOf(bytes(0x61, 0xc3, 0xbc), false)).toBe("aü");
    expect(textOf(bytes(0x61, 0), false)).toBeNull();
    expect(textOf(bytes(0x61, 0xc3), false)).toBeNull();
  });

  it("may be cut within a character", () => {
    expect(textOf(bytes(0x61, 0xc3), true)).toBe("a");
  });

  it("is shown as hexadecimal digits otherwise", () => {
    expect(hexDump(bytes(0x41, 0xff))).toBe("00000000  41 ff                                             |A.|");
    expect(modeText(0o100755)).toBe("rwxr-xr-x");
  });
});
