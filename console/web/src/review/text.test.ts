import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { marksOf } from "./intraline";
import { chosen, findMarked } from "./markers";
import { sha256 } from "./sha256";
import { lineStarts, shownPath, splitLines } from "./text";

test("lines end at newlines alone", () => {
  expect(splitLines("a\rb\u2028c\n\nd")).toEqual(["a\rb\u2028c", "", "d"]);
  expect(splitLines("")).toEqual([]);
  expect(splitLines("a\n")).toEqual(["a"]);
  expect(lineStarts(["ab", "", "c"])).toEqual([0, 3, 4, 6]);
});

test("paths show characters that would hide something", () => {
  expect(shownPath("/app/a\u202egnp.exe\n")).toBe("app/a\\u{202e}gnp.exe\\u{a}");
});

test("conflicts are found by their markers, also longer ones, and give way to a choice", () => {
  const text = "<<<<<<< here\n<<<<<<<< context\n2\n|||||||| base\n1\n========\n3\n>>>>>>>> workspace\nend\n";
  const [found, ...more] = findMarked(text);
  expect(more).toEqual([]);
  expect(found).toMatchObject({ from: 13, context: "2\n", base: "1\n", workspace: "3\n" });
  if (!found) return;
  expect(text.slice(found.to)).toBe("end\n");
  expect(chosen(found, "both")).toBe("2\n3\n");
  expect(chosen({ ...found, context: "no newline" }, "both")).toBe("no newline\n3\n");
  expect(findMarked("<<<<<<< context\nno end\n")).toEqual([]);
});

test.each([0, 1, 55, 56, 63, 64, 65, 1000])("SHA-256 of %d bytes", (length) => {
  const data = Uint8Array.from({ length }, (_, i) => i * 7);
  expect(sha256(data)).toBe(createHash("sha256").update(data).digest("hex"));
});

test("words that differ are found by line, and not where all differs", () => {
  const diff = (before: string[], after: string[]) => ({ before, after, parts: [], beforeOpen: false, afterOpen: false });
  const part = { id: "", before: 0, beforeLines: 2, after: 0, afterLines: 2 };
  const marks = marksOf(diff(["const one = 1;", "same line here"], ["const one = 2;", "same line here"]), part);
  expect([...marks.after]).toEqual([[0, [[12, 13]]]]);
  expect(marksOf(diff(["abc", "def"], ["uvw", "xyz"]), part).after.size).toBe(0);
});
