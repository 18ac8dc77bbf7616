import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { once } from "node:events";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { SessionRequestSchema, SessionResponseSchema, type SessionResponse } from "../../src/gen/ctxfs/v1/session_pb.js";
import { callOf } from "../call.js";
import { startWorld, type World } from "./fixture.js";

let world: World;
let contextId: string;
let otherToken: string;
beforeAll(async () => {
  world = await startWorld();
  contextId = await world.open("evil");
  otherToken = (await world.host.openPanel("victim")).token;
});
afterAll(() => world.stop());

/** A panel that speaks with its bridge by hand. */
class Evil {
  readonly port: MessagePort;
  readonly heard: unknown[] = [];
  readonly answers: SessionResponse[] = [];

  constructor() {
    const { port1, port2 } = new MessageChannel();
    world.bridge.serve(port1, contextId);
    this.port = port2;
    port2.on("message", (message: unknown) => {
      this.heard.push(message);
      if (Array.isArray(message) && message[2] instanceof ArrayBuffer) this.answers.push(fromBinary(SessionResponseSchema, new Uint8Array(message[2])));
    });
  }

  say(...message: unknown[]): void {
    this.port.postMessage(message);
  }

  request(init: Parameters<typeof create<typeof SessionRequestSchema>>[1]): void {
    const bytes = toBinary(SessionRequestSchema, create(SessionRequestSchema, init));
    this.say("data", 1, new Uint8Array(bytes).buffer);
  }

  /** Waits for a frame of a kind. */
  async frame(kind: string): Promise<void> {
    await expect.poll(() => this.heard.filter((m) => Array.isArray(m) && m[0] === kind).length).toBeGreaterThan(0);
  }

  /** Begins a session. What the open message says is up to the panel. */
  async begin(value: { clientInstance?: string; token?: string } = {}): Promise<SessionResponse> {
    this.say("open", 1);
    await this.frame("opened");
    this.request({ request: { case: "open", value } });
    await this.frame("data");
    return this.answers[0] as SessionResponse;
  }
}

describe("garbage costs a panel its port", () => {
  const buffer = new ArrayBuffer(8);
  const table: Record<string, unknown> = {
    "no array": "hello", "nothing": null, "an empty array": [], "an unknown kind": ["attach", 1], "no link": ["open"],
    "a negative link": ["open", -1], "a link that is none": ["open", 1.5], "a name for a link": ["open", "1"],
    "data of a link that was not opened": ["data", 1, buffer], "data that is no buffer": ["data", 1, "text"],
    "what hosts say": ["opened", 1, true], "a panel's name": ["open", 1, "victim"], "an ack of less than nothing": ["ack", 1, -5],
  };
  beforeEach(() => { world.errors.length = 0; });

  test.each(Object.entries(table))("%s", async (_, message) => {
    const evil = new Evil();
    evil.port.postMessage(message);
    await once(evil.port, "close");
    expect(world.errors).toHaveLength(1);
    expect(world.errors[0]).toMatch(/^ctx_evil: a panel sent its bridge what is no frame of it \(.*\), and has lost its port$/);
  });

  test("more data than there is room for", async () => {
    const greedy = new Evil();
    await greedy.begin();
    for (let i = 0; i < 200; i++) greedy.say("data", 1, new ArrayBuffer(1 << 20));
    await once(greedy.port, "close");
    expect(world.errors).toHaveLength(1);
  });

  test("a link's number that was used", async () => {
    const evil = new Evil();
    await evil.begin();
    evil.say("open", 1);
    await once(evil.port, "close");
  });
});

test("the open message is the host's: instance, token and panel that a panel names count for nothing", async () => {
  const { response } = await new Evil().begin({ clientInstance: "mine", token: otherToken });
  expect(response.case).toBe("ready");
  expect(response.value).toMatchObject({ contextId });
  expect((response.value as { clientInstance: string }).clientInstance).not.toBe("mine");
});

test.each([
  ["a second open", { request: { case: "open" as const, value: { token: "x" } } }],
  ["another panel's token", { id: 1n, request: { case: "refreshToken" as const, value: { get token() { return otherToken; } } } }],
  ["another panel's context", { id: 1n, request: callOf("stat", { contextId: "ctx_victim", path: "/" }) }],
])("%s is refused by the server", async (_, init) => {
  const evil = new Evil();
  await evil.begin();
  evil.request(init);
  await expect.poll(() => evil.answers.length).toBeGreaterThan(1);
  expect(["error", "closing"]).toContain(evil.answers[1]?.response.case);
});

test("bytes that are no message end the session, and no other panel's", async () => {
  const good = await world.panel("good");
  const handle = await good.fs.open("/repo/hello.txt");
  const evil = new Evil();
  await evil.begin();
  evil.say("data", 1, new Uint8Array([255, 255, 255, 1, 2, 3]).buffer);
  await evil.frame("closed");
  expect((await handle.stat()).size).toBe(6);
});

test("a panel that takes no answers holds up no other", async () => {
  const own = await world.panel("evil");
  await own.fs.writeFile("/large", Buffer.alloc(3 << 20));
  const evil = new Evil();
  await evil.begin();
  const asked = 30; // far more than all windows between the server and the panel hold
  for (let i = 1; i <= asked; i++) {
    evil.request({ id: BigInt(i), request: callOf("readFile", { path: "/large" }) });
  }
  const { fs } = await world.panel("good");
  const bytes = Buffer.alloc(20 << 20, "not held up");
  await fs.writeFile("/large", bytes);
  expect(bytes.equals(await fs.readFile("/large"))).toBe(true);
  expect(evil.answers.length).toBeLessThan(asked / 2);
});

test("no token reaches a panel", async () => {
  const evil = new Evil();
  await evil.begin();
  evil.request({ id: 1n, request: callOf("readFile", { path: "/repo/hello.txt" }) });
  await expect.poll(() => evil.answers.length).toBe(2);
  evil.say("close", 1);
  const tokens = [(await world.host.openPanel("evil")).token.slice(0, 6)]; // tokens of a kind begin alike
  const all = evil.heard.map((m) => Buffer.from(JSON.stringify(m) + ((m as unknown[])[2] instanceof ArrayBuffer ? Buffer.from((m as [0, 0, ArrayBuffer])[2]).toString("latin1") : ""))).join("");
  expect(all).not.toContain(otherToken);
  for (const token of tokens) expect(all).not.toContain(token);
});
