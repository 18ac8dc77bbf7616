import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { connect } from "../src/index.js";
import { startServer, type Progress, type Server } from "../src/server/index.js";

let workspace: string;
const servers: Server[] = [];

async function start(...args: string[]): Promise<Server> {
  const server = await startServer({ workspace, args: ["--seed-root", "repo", ...args] });
  servers.push(server);
  return server;
}

beforeEach(async () => {
  workspace = await mkdtemp(join(tmpdir(), "ctxfs-server-"));
  await mkdir(join(workspace, "repo"));
  await writeFile(join(workspace, "repo", "a.txt"), "a");
});
afterEach(async () => {
  for (const server of servers.splice(0).reverse()) await server.stop();
  await rm(workspace, { recursive: true });
});

test("a panel is opened, with progress, and its files are used", async () => {
  const server = await start();
  const seen: Progress[] = [];
  const panel = await server.openPanel("panels/editor", { onProgress: (progress) => { seen.push(progress); } });
  expect(panel).toMatchObject({ panelId: "panels/editor", contextId: "ctx_panels~editor", partition: "persist:ctx_panels~editor" });
  expect(await panel.fs.readFile("/repo/a.txt", "utf8")).toBe("a");
  await using other = await connect({ socket: server.socket, token: panel.token });
  await other.writeFile("/b", "b");
  expect(await server.fs(panel.contextId).readFile("/b", "utf8")).toBe("b");
  // Progress is the latest state, so a short phase may be missing.
  const order = ["waiting", "scanning", "layering", "copying", "recording"];
  const phases = seen.map(({ phase }) => order.indexOf(phase));
  expect(phases.length).toBeGreaterThan(0);
  expect(phases).toEqual([...phases].sort((a, b) => a - b));
  expect(phases[0]).toBeGreaterThanOrEqual(0);
  await panel.close();
});

test("a second start attaches, and its stop leaves the server running", async () => {
  const first = await start();
  const second = await start();
  expect([first.started, second.started]).toEqual([true, false]);
  await second.stop();
  const panel = await first.openPanel("p");
  expect(await panel.fs.readdir("/")).toEqual(["repo"]);
  await panel.fs.disconnect();
});

test("a server in a container is found by the socket beside server.json", async () => {
  const first = await start();
  const file = join(workspace, ".contexts", ".ctxfs", "server.json");
  const record = JSON.parse(await readFile(file, "utf8")) as { socket: string };
  await writeFile(file, JSON.stringify({ ...record, socket: "/workspace/.contexts/.ctxfs/ctxfs.sock" }));
  const second = await start();
  expect([second.started, second.socket]).toEqual([false, first.socket]);
});

test("a panel for reading refuses changes; errors of the host's calls are those of a file system", async () => {
  const server = await start();
  await using panel = await server.openPanel("p", { readOnly: true });
  await expect(panel.fs.writeFile("/x", "")).rejects.toMatchObject({ code: "EROFS" });
  await expect(server.openPanel("a b")).rejects.toMatchObject({ code: "EINVAL" });
});

test("a token is renewed before it expires, and handles stay open", async () => {
  const server = await start();
  // A busy machine may be too slow to renew a token in time: the next one lives twice as long.
  for (let ttlMs = 4000; ; ttlMs *= 2) {
    try {
      await using panel = await server.openPanel("p", { ttlMs });
      await using handle = await panel.fs.open("/f", "w+");
      // clock: longer than the first token lives; without renewal the session would have ended meanwhile, and the token with it
      for (const until = Date.now() + 1.5 * ttlMs; Date.now() < until;) await handle.write("x", 0);
      expect((await handle.stat()).size).toBe(1);
      return;
    } catch (error) {
      if (ttlMs > 30_000) throw error;
    }
  }
});

test("a program that is not there is named, with the remedy", async () => {
  await expect(startServer({ workspace, bin: "/nowhere/ctxfs" })).rejects.toThrow("/nowhere/ctxfs is not found: install ctxfs, or name it");
  await expect(startServer({ workspace, args: ["--nonsense"] })).rejects.toThrow(/ctxfs serve did not start \(exit code \d+\): .*nonsense/s);
});
