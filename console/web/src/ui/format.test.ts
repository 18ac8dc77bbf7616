import { expect, it } from "vitest";
import { href, parse } from "../router";
import { sortRows, type Column } from "./basics";
import { ago, count, size } from "./format";

it("writes sizes with two figures", () => {
  expect([0, 1023, 1024, 1536, 10_240, 1_048_575, 1_048_576, 5e12].map(size)).toEqual(["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "10 KiB", "1.0 MiB", "1.0 MiB", "4.5 TiB"]);
});

it("writes ages in one unit", () => {
  const now = Date.UTC(2026, 0, 31);
  const before = (seconds: number) => ago((now - seconds * 1000) * 1e6, now);
  expect([0, 60, 3599, 86_399, 86_400 * 3, 86_400 * 30].map(before)).toEqual(["just now", "1 min ago", "1 h ago", "1 d ago", "3 d ago", "2026-01-01"]);
  expect(ago("0", now)).toBe("");
});

it("counts in words", () => {
  expect([count(1, "file"), count("1200", "file"), count(2, "entry", "entries")]).toEqual(["1 file", "1,200 files", "2 entries"]);
});

it("gives back each part of a route", () => {
  const parts = ["contexts", "ctx_a~b", "files", "a b", "c/d", "%41", "\0eA=="];
  expect(parse(href(...parts))).toEqual(parts);
  expect(parse("#code=x")).toEqual([]);
  expect(parse("#/a/%zz")).toEqual(["a", "%zz"]);
});

it("sorts text with its numbers as numbers, both ways", () => {
  const columns: Column<string>[] = [{ id: "name", title: "Name", cell: (row) => row, sort: (row) => row }];
  expect(sortRows(["p10", "p9", "a"], columns, { column: "name", descending: false })).toEqual(["a", "p9", "p10"]);
  expect(sortRows(["p10", "p9", "a"], columns, { column: "name", descending: true })).toEqual(["p10", "p9", "a"]);
});
