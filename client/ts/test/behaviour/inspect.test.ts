import { inspect as nodes } from "node:util";
import { expect, test } from "vitest";
import { inspect } from "../../src/errors/inspect.js";

/** What errors show of wrong arguments, in browsers as in Node. */
const values: Record<string, unknown> = {
  "a text": "abc", "a text with a NUL": "a\0b", "a text with '": "it's", "a text with ' and \"": "it's \"a\"", "a text with all quotes": "'\"`", "a text with a line's end": "a\nb\t\\", "a control character": "\x1b\x7f",
  "a number": 5, "-0": -0, NaN: NaN, "a bigint": 5n, true: true, null: null, undefined: undefined, "a symbol": Symbol("s"),
  "an empty array": [], "an array": [1, "a"], "an empty object": {}, "an object": { a: 1, b: "x" }, "a function": function named() { /* only its name */ }, "a nameless function": (() => () => 1)(),
  "a Buffer": Buffer.from("abc"), "an empty Buffer": Buffer.alloc(0), "a long Buffer": Buffer.alloc(60), "a Buffer of 51": Buffer.alloc(51),
  "a Uint8Array": new Uint8Array([1, 2]), "an empty Uint16Array": new Uint16Array(0),
};

test.each(Object.entries(values))("%s is shown as Node shows it", (_, value) => {
  expect(inspect(value)).toBe(nodes(value));
});

test("an object without a constructor is shown by that", () => {
  const value: unknown = Object.create(null);
  expect(inspect(value, { depth: -1 })).toBe(nodes(value, { depth: -1 }));
});
