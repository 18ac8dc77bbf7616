import { expect, test } from "vitest";
import { chosen, findMarked } from "./markers";

const merged = (eol: string, size = 7) => [
  "before", `${"<".repeat(size)} context`, "panel", `${"|".repeat(size)} base`, "old", "=".repeat(size), "user", `${">".repeat(size)} workspace`, "after", "",
].join(eol);

test.each([["LF", "\n"], ["CRLF", "\r\n"]])("a conflict in a file with %s is found, with its sides", (_, eol) => {
  const text = merged(eol);
  const [conflict, ...others] = findMarked(text);
  expect(others).toEqual([]);
  expect(conflict).toMatchObject({ context: `panel${eol}`, base: `old${eol}`, workspace: `user${eol}` });
  if (!conflict) return;
  expect(text.slice(0, conflict.from) + chosen(conflict, "both") + text.slice(conflict.to)).toBe(["before", "panel", "user", "after", ""].join(eol));
});

test("conflicts of different sizes follow one another, and markers of another size are content", () => {
  const text = merged("\n", 8) + merged("\n") + "<<<<<<< context\nno end\n";
  expect(findMarked(text).map(({ context }) => context)).toEqual(["panel\n", "panel\n"]);
  expect(findMarked(merged("\n", 9).replace("panel", merged("\n")))).toHaveLength(1);
});

test("the last marker may end the text, and one within a line is no marker", () => {
  expect(findMarked(merged("\n").replace("\nafter\n", ""))).toHaveLength(1);
  expect(findMarked(merged("\n").replace("||||||| base", "x ||||||| base"))).toEqual([]);
});

test("conflicts without an end take no more time than their text is long", () => {
  const begins = "<<<<<<< context\n".repeat(20_000);
  expect(findMarked(begins)).toEqual([]);
  expect(findMarked(begins + merged("\n"))).toHaveLength(1);
});
