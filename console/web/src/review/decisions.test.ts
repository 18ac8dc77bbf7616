import { expect, test } from "vitest";
import type { Change, Hunk } from "../gen/api";
import { empty, pending, reduce, stateOf, verdictOf, type State, type Verdict } from "./decisions";
import { move } from "./keys";

const file: Change = { path: "/a", changeId: "1", hunks: 2 };
const hunks: Hunk[] = [{ hunkId: "x" }, { hunkId: "y", decision: "DECISION_REJECTED", comment: "no" }];
const approved: Verdict = { decision: "DECISION_APPROVED", comment: "" };
const loaded = reduce(reduce(empty, { type: "listed", changes: [{ ...file, rejectedHunks: 1 }] }), { type: "loaded", change: file, hunks });
const decide = (state: State, hunkIds: string[], verdict: Verdict) => reduce(state, { type: "decided", id: state.steps.length, title: "", ask: { path: "/a", hunkIds, verdict } });
const at = (state: State) => state.files.get("/a");

test("a hunk is decided on, and the file follows", () => {
  expect(stateOf(at(loaded))).toBe("partly");
  const both = decide(decide(loaded, ["x"], approved), ["y"], approved);
  expect(stateOf(at(both))).toBe("approved");
  expect(stateOf(at(decide(both, [], pending)))).toBe("pending");
});

test("undo brings back what each hunk had, with its remark", () => {
  const all = decide(loaded, [], approved);
  expect(all.steps.at(-1)?.back).toEqual([
    { path: "/a", hunkIds: ["x"], verdict: pending },
    { path: "/a", hunkIds: ["y"], verdict: { decision: "DECISION_REJECTED", comment: "no" } },
  ]);
  const back = reduce(all, { type: "undone" });
  expect(verdictOf(at(back), "x")).toEqual(pending);
  expect(verdictOf(at(back), "y").comment).toBe("no");
  expect(back.steps).toEqual([]);
});

test("a refused decision is taken back, and later ones stay", () => {
  const both = decide(decide(loaded, ["x"], approved), ["y"], approved);
  const left = reduce(both, { type: "refused", id: 0 });
  expect(verdictOf(at(left), "x")).toEqual(pending);
  expect(verdictOf(at(left), "y")).toEqual(approved);
  expect(left.steps).toHaveLength(1);
});

test("a list keeps what is known of the hunks only while the change is the same", () => {
  const same = reduce(loaded, { type: "listed", changes: [{ ...file, rejectedHunks: 1 }] });
  expect(at(same)?.hunks?.size).toBe(2);
  const decided = decide(loaded, ["x"], approved);
  const other = reduce(decided, { type: "listed", changes: [{ ...file, changeId: "2" }] });
  expect(at(other)?.hunks).toBeUndefined();
  expect(other.steps).toEqual([]);
  expect(stateOf(at(other))).toBe("pending");
});

test("a diff of another change than was listed leaves nothing to undo in its file", () => {
  const decided = decide(loaded, ["x"], approved);
  const same = reduce(decided, { type: "loaded", change: file, hunks });
  expect(same.steps).toHaveLength(1);
  const other = reduce(decided, { type: "loaded", change: { ...file, changeId: "2" }, hunks: [{ hunkId: "z" }] });
  expect(other.steps).toEqual([]);
  expect(verdictOf(at(other), "z")).toEqual(pending);
});

test("the counts of the list count until the hunks are read", () => {
  expect(stateOf(at(reduce(empty, { type: "listed", changes: [{ ...file, approvedHunks: 2 }] })))).toBe("approved");
  expect(stateOf(at(reduce(empty, { type: "listed", changes: [{ path: "/a", changeId: "1", decision: "DECISION_REJECTED" }] })))).toBe("rejected");
});

test("movements go through hunks and files, and stop at both ends", () => {
  const parts = (i: number) => [2, 1][i] ?? 0;
  const go = (part: number, of: number, command: "nextHunk" | "previousHunk" | "nextFile" | "previousFile") => move({ file: of, part }, command, 2, parts);
  expect(go(0, 0, "nextHunk")).toEqual({ file: 0, part: 1 });
  expect(go(1, 0, "nextHunk")).toEqual({ file: 1, part: 0 });
  expect(go(0, 1, "nextHunk")).toEqual({ file: 1, part: 0 });
  expect(go(0, 1, "previousHunk")).toEqual({ file: 0, part: 1 });
  expect(go(1, 0, "nextFile")).toEqual({ file: 1, part: 0 });
  expect(go(0, 0, "previousFile")).toEqual({ file: 0, part: 0 });
});
