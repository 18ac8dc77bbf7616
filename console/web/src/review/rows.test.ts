import { describe, expect, test } from "vitest";
import type { Change, DiffLine, Hunk } from "../gen/api";
import { crlfOnly, layout, rowText, textDiff, type TextDiff } from "./rows";

const change: Change = { path: "/a", hunks: 1 };
const removed = (text: string, more: DiffLine = {}): DiffLine => ({ kind: "LINE_KIND_REMOVED", text, ...more });
const added = (text: string, more: DiffLine = {}): DiffLine => ({ kind: "LINE_KIND_ADDED", text, ...more });
const text = (...lines: (string | number)[]) => lines.map((line) => `${line}\n`).join("");

function must(diff: TextDiff | undefined): TextDiff {
  if (!diff) throw new Error("the versions and hunks do not belong together");
  return diff;
}

describe("a diff", () => {
  const hunk: Hunk = { hunkId: "h", beforeStart: 2, beforeLines: 1, afterStart: 2, afterLines: 2, lines: [removed("b"), added("B"), added("BB")] };
  test("puts hunks and versions together", () => {
    expect(must(textDiff(change, [hunk], text("a", "b", "c"), text("a", "B", "BB", "c"))).parts).toEqual([{ id: "h", before: 1, beforeLines: 1, after: 1, afterLines: 2 }]);
  });
  test.each([
    ["another line in the hunk", text("a", "b", "c"), text("a", "X", "BB", "c")],
    ["another line outside of it", text("a", "b", "c"), text("a", "B", "BB", "X")],
    ["a further line", text("a", "b", "c"), text("a", "B", "BB", "c", "d")],
    ["no newline at the end", text("a", "b", "c"), "a\nB"],
  ])("refuses a version with %s", (_, before, after) => {
    expect(textDiff(change, [hunk], before, after)).toBeUndefined();
  });
  test("a newline that only one version has counts", () => {
    const open: Hunk = { hunkId: "h", beforeStart: 1, beforeLines: 1, afterStart: 1, afterLines: 1, lines: [removed("a"), added("a", { noNewline: true })] };
    expect(must(textDiff(change, [open], "a\n", "a")).afterOpen).toBe(true);
    expect(textDiff(change, [open], "a\n", "a\n")).toBeUndefined();
  });
  test("lines that are not UTF-8 are compared as they are shown", () => {
    const latin: Hunk = { hunkId: "h", beforeStart: 0, beforeLines: 0, afterStart: 1, afterLines: 1, lines: [{ kind: "LINE_KIND_ADDED", data: "6Q==" }] };
    expect(textDiff(change, [latin], "", "\ufffd\n")).toBeDefined();
  });
  test("a deleted file is one part without an ID", () => {
    expect(must(textDiff({ path: "/a" }, [], text(1, 2), "")).parts).toEqual([{ id: "", before: 0, beforeLines: 2, after: 0, afterLines: 0 }]);
  });
});

describe("the rows", () => {
  const lines = Array.from({ length: 30 }, (_, i) => i + 1);
  const hunks: Hunk[] = [
    { hunkId: "x", beforeStart: 10, beforeLines: 2, afterStart: 10, afterLines: 1, lines: [removed("10"), removed("11"), added("ten")] },
    { hunkId: "y", beforeStart: 25, beforeLines: 0, afterStart: 25, afterLines: 1, lines: [added("new")] },
  ];
  const after = text(...lines.slice(0, 9), "ten", ...lines.slice(11, 25), "new", ...lines.slice(25));
  const diff = must(textDiff(change, hunks, text(...lines), after));
  const shown = (side: "before" | "after" | "unified", form: "split" | "unified", open?: Set<number>) => layout(diff, form, open).rows.map((row) => rowText(diff, row, side));

  test("of a split diff stand beside each other", () => {
    const rows = layout(diff, "split").rows;
    expect(shown("before", "split").slice(0, 6)).toEqual(["7", "8", "9", "10", "11", "12"]);
    expect(shown("after", "split").slice(0, 6)).toEqual(["7", "8", "9", "ten", "", "12"]);
    expect(rows[4]).toEqual({ before: 10, after: -1, part: 0 });
  });
  test("of a unified diff are removed lines, then added ones", () => {
    expect(shown("unified", "unified").slice(2, 7)).toEqual(["9", "10", "11", "ten", "12"]);
  });
  test("leave unchanged lines out, and show them when their gap is opened", () => {
    const { gaps, starts } = layout(diff, "split");
    expect(gaps).toEqual([{ row: 0, id: 0, lines: 6 }, { row: 8, id: 14, lines: 8 }]);
    expect(starts).toEqual([3, 11]);
    expect(shown("before", "split", new Set([0, 14]))).toHaveLength(31);
    expect(layout(diff, "split", new Set([0])).gaps).toEqual([{ row: 14, id: 14, lines: 8 }]);
  });
  test("hold each line of both versions once when all gaps are open", () => {
    for (const form of ["split", "unified"] as const) {
      const { rows } = layout(diff, form, new Set([0, 14]));
      expect(rows.map((r) => r.before).filter((n) => n >= 0)).toEqual(lines.map((n) => n - 1));
      expect(rows.map((r) => r.after).filter((n) => n >= 0)).toEqual(lines.map((n) => n - 1));
    }
  });
});

test("line endings are hidden only if all are the same", () => {
  const hunk: Hunk = { hunkId: "h", beforeStart: 1, beforeLines: 1, afterStart: 1, afterLines: 1, lines: [removed("a\r"), added("b\r")] };
  expect(crlfOnly(must(textDiff(change, [hunk], "a\r\nc\r\n", "b\r\nc\r\n")))).toBe(true);
  expect(crlfOnly(must(textDiff(change, [hunk], "a\r\nc\n", "b\r\nc\n")))).toBe(false);
});
