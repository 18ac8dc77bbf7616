import { once } from "node:events";
import { MessageChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { defaultWindow } from "../../src/bridge/flow.js";
import { HostPort } from "../../src/bridge/hostport.js";
import { portDialer } from "../../src/bridge/panelport.js";
import { Port } from "../../src/bridge/port.js";
import type { Link } from "../../src/session/link.js";

const piece = 256 << 10;
/** The most that may be under way: the window, and the message that filled it. */
const bound = defaultWindow + piece;

/** The server's end of a link, in the test's hands. */
class FakeLink implements Link {
  onmessage: ((message: Uint8Array) => void) | null = null;
  onclose: ((why: Error) => void) | null = null;
  bufferedAmount = 0;
  got = 0;
  paused = false;
  closed = false;

  send(message: Uint8Array): void {
    this.got += message.length;
  }

  pause(on: boolean): void {
    this.paused = on;
  }

  close(): void {
    this.closed = true;
  }
}

async function connected(): Promise<{ server: FakeLink; panel: Link; moved: () => number; turn: () => Promise<void> }> {
  const server = new FakeLink();
  const { port1, port2 } = new MessageChannel();
  const host = new HostPort(new Port(port1), {
    instance: "i", renews: false, token: () => Promise.resolve(""),
    dialer: { tokenInOpen: false, dial: () => Promise.resolve(server), close: () => undefined },
  });
  expect(host.onend).toBeNull();
  const panel = await portDialer(port2).dial("");
  panel.send(new Uint8Array(10)); // its open
  return {
    server, panel,
    moved: () => server.got,
    turn: async () => {
      // What was posted on another channel after it arrives after it.
      const { port1: near, port2: far } = new MessageChannel();
      for (let i = 0; i < 20; i++) {
        near.postMessage(0);
        await once(far, "message");
      }
      near.close();
    },
  };
}

test("a panel that sends faster than the server takes is held back", async () => {
  const { server, panel, turn } = await connected();
  await turn();
  server.got = 0;
  server.bufferedAmount = 64 << 20; // nothing leaves
  for (let i = 0; i < 40; i++) panel.send(new Uint8Array(piece));
  await turn();
  expect(server.got).toBeGreaterThanOrEqual(defaultWindow);
  expect(server.got).toBeLessThanOrEqual(bound);
  expect(panel.bufferedAmount).toBe(40 * piece - server.got);
  server.bufferedAmount = 0;
  await expect.poll(() => server.got).toBe(40 * piece);
  expect(panel.bufferedAmount).toBe(0);
});

test("a server that answers faster than the panel reads is held back", async () => {
  const { port1, port2 } = new MessageChannel();
  const server = new FakeLink();
  new HostPort(new Port(port1), {
    instance: "i", renews: false, token: () => Promise.resolve(""),
    dialer: { tokenInOpen: false, dial: () => Promise.resolve(server), close: () => undefined },
  });
  let got = 0;
  const opened = once(port2, "message");
  port2.postMessage(["open", 1]);
  await opened;
  port2.on("message", ([kind, , value]: [string, number, ArrayBuffer]) => { if (kind === "data") got += value.byteLength; });
  for (let i = 0; i < 40; i++) server.onmessage?.(new Uint8Array(piece));
  await expect.poll(() => got).toBeGreaterThanOrEqual(defaultWindow);
  expect(got).toBeLessThanOrEqual(bound);
  expect(server.paused).toBe(true);
  for (let told = 0; told < 40 * piece;) {
    await expect.poll(() => got).toBeGreaterThan(told);
    const more = got - told;
    port2.postMessage(["ack", 1, more]);
    told += more;
  }
  expect(got).toBe(40 * piece);
  await expect.poll(() => server.paused).toBe(false);
  port2.close();
});

test("data that does not wait for the link costs the port", async () => {
  const { port1, port2 } = new MessageChannel();
  const host = new HostPort(new Port(port1), {
    instance: "i", renews: false, token: () => Promise.resolve(""),
    dialer: { tokenInOpen: false, dial: () => new Promise(() => undefined), close: () => undefined },
  });
  const ended = new Promise((resolve) => { host.onend = resolve; });
  port2.postMessage(["open", 1]);
  port2.postMessage(["data", 1, new ArrayBuffer(8)]);
  expect(await ended).toBeInstanceOf(Error);
});

test("messages are moved, not copied, where ports can", async () => {
  const { panel, server, turn } = await connected();
  const message = new Uint8Array(1000);
  panel.send(message);
  expect(message.byteLength).toBe(0);
  await turn();
  const got: Uint8Array[] = [];
  panel.onmessage = (bytes) => { got.push(bytes); };
  const answer = new Uint8Array(2000).fill(3);
  server.onmessage?.(answer);
  expect(answer.byteLength).toBe(0);
  await expect.poll(() => got.length).toBe(1);
  expect(got[0]).toEqual(new Uint8Array(2000).fill(3));
});

test("a part of a larger buffer is copied, and nothing else of it sent", async () => {
  const { panel, server, turn } = await connected();
  await turn();
  const large = new Uint8Array(4096);
  panel.onmessage = null;
  server.got = 0;
  panel.send(large.subarray(100, 200));
  await turn();
  expect([large.byteLength, server.got]).toEqual([4096, 100]);
});

test("the server's last words come before the end of the link", async () => {
  const { panel, server } = await connected();
  const order: string[] = [];
  panel.onmessage = () => { order.push("message"); };
  panel.onclose = (why) => { order.push(why.message); };
  for (let i = 0; i < 20; i++) server.onmessage?.(new Uint8Array(piece));
  server.onclose?.(new Error("the server stops"));
  await expect.poll(() => order.length).toBe(21);
  expect(order.at(-1)).toBe("the server stops");
});
