import { expect, test } from "vitest";
import { repeats, type OpName } from "../src/session/operations.js";

test.each<[OpName, object, boolean]>([
  ["stat", { path: "/a" }, true],
  ["unlink", { path: "/a" }, false],
  ["readdir", { path: "/a", recursive: true }, true],
  ["readFile", { path: "/a" }, true],
  ["readFile", { path: "/a", flagForm: { case: "flag", value: "rs" } }, true],
  ["readFile", { path: "/a", flagForm: { case: "flag", value: "w+" } }, false],
  ["readFile", { path: "/a", flagForm: { case: "flagNumber", value: 0o400000 } }, true],
  ["readFile", { path: "/a", flagForm: { case: "flagNumber", value: 0o100 } }, false],
  ["readFile", { fd: 3 }, false],
  ["open", { path: "/a" }, false],
  ["read", { fd: 3 }, false],
  ["read", { fd: 3, position: -1n }, false],
  ["read", { fd: 3, position: 0n }, true],
  ["readv", { fd: 3, position: 5n }, true],
  ["close", { fd: 3 }, false],
])("%s %o is done twice after a lost connection: %s", (op, request, want) => {
  expect(repeats(op, request)).toBe(want);
});
