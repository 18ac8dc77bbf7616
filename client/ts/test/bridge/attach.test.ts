import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPortFs } from "../../src/bridge/index.js";
import { FakeContents, startWorld, type World } from "./fixture.js";

let world: World;
let contextId: string;
let window: FakeContents;
beforeAll(async () => {
  world = await startWorld();
  contextId = await world.open("window");
  window = new FakeContents();
  world.bridge.attach(window, contextId);
});
afterAll(() => world.stop());

const noHandles = (): Promise<void> => expect.poll(() => world.handles("window")).toEqual([]);

test("the preload is told whose panel its window is", () => {
  expect(window.ask("ctxfs:info")).toEqual({ contextId, partition: `persist:${contextId}` });
});

test("a reload's port takes the old one's place, whose handles close", async () => {
  const old = window.connect();
  const before = createPortFs(old);
  await before.open("/repo/hello.txt");
  const fresh = createPortFs(window.connect());
  await once(old, "close");
  await expect(before.stat("/repo")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  expect(await fresh.readFile("/repo/hello.txt", "utf8")).toBe("hello\n");
  await noHandles();
});

test.each(["render-process-gone", "destroyed"])("at %s the port and its handles close", async (event) => {
  const contents = new FakeContents();
  world.bridge.attach(contents, contextId);
  const port = contents.connect();
  await createPortFs(port).open("/repo/hello.txt");
  expect(await world.handles("window")).toHaveLength(1);
  contents.emit(event);
  await once(port, "close");
  await noHandles();
});

test("a destroyed window is let go of", () => {
  const contents = new FakeContents();
  world.bridge.attach(contents, contextId);
  contents.emit("destroyed");
  expect([contents, contents.ipc].map((emitter) => emitter.eventNames())).toEqual([[], []]);
});

test("frames in the page, and pages that are not allowed, get nothing", async () => {
  const contents = new FakeContents();
  world.bridge.attach(contents, contextId, { allow: (url) => url.startsWith("app://panel/") });
  await once(contents.connect({ url: "the page around it" }), "close");
  contents.url = "https://elsewhere.example/";
  expect(contents.ask("ctxfs:info")).toBeNull();
  await once(contents.connect(), "close");
  contents.url = "app://panel/other.html";
  expect((await createPortFs(contents.connect()).info()).contextId).toBe(contextId);
});
