import { expect, test } from "vitest";
import { approvedAllText, goneWord } from "./words";

test("what became of a change that was decided on is said in words", () => {
  expect(goneWord({ decision: "DECISION_APPROVED", actor: "host" })).toBe("approved by host, and gone; Apply still writes what was approved");
  expect(goneWord({ decision: "DECISION_APPROVED", replaced: true })).toBe("approved, and changed since; Apply still writes what was approved");
  expect(goneWord({ decision: "DECISION_REJECTED", actor: "host" })).toBe("rejected by host, and gone");
  expect(goneWord({ decision: "DECISION_REJECTED", actor: "host", replaced: true })).toBe("rejected by host, and changed since; what it has now is not rejected");
});

test("what Approve all leaves out is a file, or hunks of one", () => {
  expect(approvedAllText([], 0)).toBe("Approved all changes");
  expect(approvedAllText([{ path: "/.env", reason: "ignored" }, { path: "/a", reason: "rejected", hunks: 2 }], 2)).toBe("Approved all but 1 file and rejected hunks of 1 file: decide on these one by one");
  expect(approvedAllText([{ path: "/a", reason: "rejected", hunks: 2 }], 1)).toBe("Approved all but rejected hunks of 1 file: decide on these one by one");
  expect(approvedAllText([{ path: "/.env", reason: "ignored" }], 150)).toBe("Approved all but 150 files: decide on these one by one");
});
