import { expect, test } from "vitest";
import { inputQueue } from "./input";

/** A queue whose frames and answers come when a test says so. */
function setUp() {
  const sent: string[] = [];
  const answers: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  const frames: (() => void)[] = [];
  const failures: unknown[] = [];
  const input = inputQueue((bytes) => {
    sent.push(new TextDecoder().decode(bytes));
    return new Promise((resolve, reject) => answers.push({ resolve, reject }));
  }, (error) => failures.push(error), (run) => frames.push(run));
  // clock: no time passes
  const settled = () => new Promise((resolve) => setTimeout(resolve));
  return { input, sent, failures, frame: () => frames.shift()?.(), answer: async () => { answers.shift()?.resolve(); await settled(); }, fail: async () => { answers.shift()?.reject(new Error("lost")); await settled(); } };
}

test("what is typed within a frame goes as one request, and what comes meanwhile as the next", async () => {
  const { input, sent, frame, answer } = setUp();
  input.push("a");
  input.push("ü");
  frame();
  input.push("c");
  input.push("d");
  expect(sent).toEqual(["aü"]);
  await answer();
  expect(sent).toEqual(["aü", "cd"]);
  await answer();
  input.push("e");
  frame();
  expect(sent).toEqual(["aü", "cd", "e"]);
});

test("a long paste goes in parts, in order", async () => {
  const { input, sent, frame, answer } = setUp();
  const text = Array.from({ length: 100_000 }, (_, i) => String(i)).join(" ");
  input.push(text);
  frame();
  while (sent.join("").length < text.length) await answer();
  expect(sent.length).toBeGreaterThan(1);
  expect(sent.join("")).toBe(text);
});

test("after a failure what waits is dropped, and what is typed later is sent", async () => {
  const { input, sent, failures, frame, fail } = setUp();
  input.push("a");
  frame();
  input.push("b");
  await fail();
  expect(failures).toHaveLength(1);
  input.push("c");
  frame();
  expect(sent).toEqual(["a", "c"]);
});
