import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { binary, startTestServer, type TestServer } from "../serve.js";
import { call, connectTo, transports } from "./clients.js";
import { links, pathsOut, secret, withPath } from "./hostile.js";

/* A client that means harm: it reads nothing of the outside, and the server goes on. */

let server: TestServer;
let other: { token: string; contextId: string };

beforeAll(async () => {
  server = await startTestServer("--origin", "https://allowed.example");
  await writeFile(join(server.workspace, "secret"), secret);
  other = await server.openPanel("other");
  await writeFile(join(server.folder(other.contextId), "secret"), secret);
});
afterAll(() => server.stop());

/** A panel with files, and with links that lead out. */
async function openVictim(id: string): Promise<{ id: string; token: string; contextId: string }> {
  const panel = await server.openPanel(id);
  await plant(server.folder(panel.contextId));
  await writeFile(join(server.folder(panel.contextId), "large.txt"), "0123456789abcde\n".repeat(640 << 10));
  return { id, ...panel };
}

/** Makes the files and links of a victim, whatever has become of them. */
async function plant(folder: string): Promise<void> {
  for (const name of ["hello.txt", "victim.txt"]) await writeFile(join(folder, name), "hello\n");
  await rm(join(folder, "etc"), { recursive: true, force: true }); // an absolute link leads below the root
  for (const [name, target] of Object.entries(links(server.workspace))) {
    await rm(join(folder, name), { recursive: true, force: true });
    await symlink(target, join(folder, name));
  }
}

const leaks = [secret.trim(), Buffer.from(secret).toString("base64"), "root:x:0:0", Buffer.from("root:x:0:0:").toString("base64").slice(0, 12), "CTXFS_ADDRESS="];

/** Fails if an answer has something of the outside. */
function expectNoLeak(answer: unknown, what: string): void {
  const text = JSON.stringify(answer);
  for (const leak of leaks) expect(text.includes(leak), `${what} returned ${leak}`).toBe(false);
}

/** What is outside of the victim's folder: it must stay as it is. */
async function outside(): Promise<unknown> {
  return [await readdir(server.workspace), await readdir(join(server.workspace, ".contexts")), await readFile(join(server.workspace, "secret"), "utf8"), await readdir(server.folder(other.contextId))];
}

const large = "x".repeat(3 << 20);

/** An array in an array, and so on. */
function nested(depth: number): unknown {
  return Array.from({ length: depth }).reduce<unknown>((inner) => [inner], "x");
}

describe.each(transports)("over %s", (transport) => {
  let client: Client;
  let contextId: string;
  beforeAll(async () => {
    const panel = await openVictim(`victim-${transport}`);
    contextId = panel.contextId;
    client = await connectTo(server, panel, transport);
  });
  afterAll(() => client.close());

  const expectAlive = async (): Promise<void> => {
    expect(await call(client, "read_text_file", { path: "/hello.txt" })).toMatchObject({ failed: false, text: "hello\n" });
  };

  test("each tool that takes a path is attacked", async () => {
    const names = (await client.listTools()).tools.filter(({ inputSchema }) => Object.keys(inputSchema.properties ?? {}).some((name) => ["path", "paths", "source"].includes(name))).map((tool) => tool.name);
    expect(names.filter((name) => !(name in withPath))).toEqual([]);
  });

  test.each(Object.entries(withPath))("%s reads and changes nothing outside", async (tool, argsOf) => {
    const before = await outside();
    const readsOnly = (await client.listTools()).tools.find(({ name }) => name === tool)?.annotations?.readOnlyHint;
    for (const path of pathsOut(server.workspace, other.contextId)) {
      if (!readsOnly) await plant(server.folder(contextId));
      for (const args of argsOf(path)) expectNoLeak(await call(client, tool, args), `${tool} of ${path.slice(0, 60)}`);
    }
    expect(await outside()).toEqual(before);
    await plant(server.folder(contextId));
    await expectAlive();
  });

  test.each(["../../secret", "/../../secret", "/out-relative", "/out-folder/secret"])("the path %s is refused", async (path) => {
    expect(await call(client, "read_text_file", { path })).toMatchObject({ failed: true, text: expect.stringMatching(/^EACCES/) as unknown });
    expect(await call(client, "write_file", { path, content: "pwned" })).toMatchObject({ failed: true, text: expect.stringMatching(/^EACCES/) as unknown });
  });

  const resources = (): string[] => [
    "file:///etc/passwd", `file://${server.workspace}/secret`, `ctxfs://${other.contextId}/secret`, "ctxfs://other/secret", "ctxfs:///secret", "ctxfs:secret", "ctxfs://", "http://127.0.0.1/", "", "../../secret",
    `ctxfs://${contextId}/../../secret`, `ctxfs://${contextId}/%2e%2e/%2e%2e/secret`, `ctxfs://${contextId}/..%2f..%2fsecret`, `ctxfs://${contextId}/../${other.contextId}/secret`,
    `ctxfs://${contextId}/out-relative`, `ctxfs://${contextId}/out-folder/secret`, `ctxfs://${contextId}/etc-link/passwd`, `ctxfs://${contextId}/hello.txt%00`,
    `ctxfs://${contextId}@${other.contextId}/secret`, `ctxfs://${other.contextId}:80/secret`, `ctxfs://${contextId}/${"x".repeat(10_000)}`, `ctxfs://${contextId}/%ff`,
  ];

  test("resources of the outside are neither read nor watched", async () => {
    for (const uri of resources()) {
      await expect(client.readResource({ uri }), uri).rejects.toThrow();
      await expect(client.subscribeResource({ uri }), uri).rejects.toThrow();
    }
    await expectAlive();
  });

  test("what is unknown is an error", async () => {
    for (const name of ["nonsense", "push", "approve", "", "../read_file", "read_text_file\0", "x".repeat(100_000)]) expect((await call(client, name, {})).failed, name.slice(0, 40)).toBe(true);
    await expect(client.getPrompt({ name: "nonsense" })).rejects.toThrow();
    await expectAlive();
  });

  test.each<[string, string, Record<string, unknown>]>([
    ["a long path", "read_text_file", { path: large }],
    ["many paths", "read_multiple_files", { paths: Array.from({ length: 100_000 }, () => "/hello.txt") }],
    ["many edits", "edit_file", { path: "/hello.txt", edits: Array.from({ length: 50_000 }, () => ({ oldText: "a", newText: "b" })) }],
    ["a long edit", "edit_file", { path: "/hello.txt", edits: [{ oldText: large, newText: large }] }],
    ["a long pattern", "search_files", { path: "/", pattern: "{a,b}".repeat(50_000) }],
    ["a deep pattern", "search_files", { path: "/", pattern: "{".repeat(100_000) }],
    ["many exclusions", "directory_tree", { path: "/", excludePatterns: Array.from({ length: 100_000 }, (_, i) => `**/${i}*`) }],
    ["a hard expression", "grep", { pattern: "(((a{1,1000}){1,1000}){1,1000})", path: "/" }],
    ["a number that is too large", "read_text_file", { path: "/hello.txt", head: 1e300 }],
    ["a deep argument", "read_text_file", { path: nested(900) }],
    ["null", "read_text_file", { path: null }],
    ["an object", "write_file", { path: { toString: "x" }, content: [] }],
  ])("%s is refused in few words", async (_, tool, args) => {
    const answer = await call(client, tool, args);
    expect(answer.failed).toBe(true);
    expect(answer.text.length).toBeLessThan(20_000);
    await expectAlive();
  });

  // The decoder of messages takes 1,000 levels. JSON.stringify takes fewer than 5,000 before Node 26, and the call fails in the client.
  test.each<[string, unknown]>([["large", "y".repeat(24 << 20)], ["deep", nested(5_000)]])("a message that is too %s ends its session at most", async (_, content) => {
    const panel = { id: `victim-${transport}`, token: (await server.openPanel(`victim-${transport}`)).token };
    const greedy = await connectTo(server, panel, transport);
    expect((await call(greedy, "write_file", { path: "/huge.txt", content })).failed).toBe(true);
    await greedy.close();
    expect(await readdir(server.folder(contextId))).not.toContain("huge.txt");
    await expectAlive();
  });

  test("a long result is cut, and says how to read the rest", async () => {
    const { failed, text } = await call(client, "read_text_file", { path: "/large.txt" });
    expect({ failed, bounded: text.length < 1 << 20 }).toEqual({ failed: false, bounded: true });
    expect(text.slice(text.lastIndexOf("\n", text.length - 2))).toMatch(/startLine|head|tail/);
    await writeFile(join(server.folder(contextId), "huge.bin"), "");
    await truncate(join(server.folder(contextId), "huge.bin"), 2 ** 40);
    for (const tool of ["read_text_file", "read_media_file", "read_multiple_files"]) {
      const answer = await call(client, tool, tool === "read_multiple_files" ? { paths: ["/huge.bin"] } : { path: "/huge.bin" });
      expect(JSON.stringify(answer).length, tool).toBeLessThan(32 << 20);
    }
    await expect(client.readResource({ uri: `ctxfs://${contextId}/huge.bin` })).rejects.toThrow();
    await expectAlive();
  });

  test("a flood of subscriptions is bounded, and unsubscribing makes room", async () => {
    const uri = (i: number): string => `ctxfs://${contextId}/flood-${i}`;
    for (let i = 0; i < 300; i++) await writeFile(join(server.folder(contextId), `flood-${i}`), "");
    const done = await Promise.allSettled(Array.from({ length: 300 }, (_, i) => client.subscribeResource({ uri: uri(i) })));
    const held = done.flatMap(({ status }, i) => (status === "fulfilled" ? [i] : []));
    expect(held.length).toBeGreaterThan(0);
    expect(held.length).toBeLessThan(300);
    const left = done.findIndex(({ status }) => status === "rejected");
    await client.unsubscribeResource({ uri: uri(held[0] ?? 0) });
    await client.subscribeResource({ uri: uri(left) });
    await Promise.all([...held.slice(1), left].map((i) => client.unsubscribeResource({ uri: uri(i) })));
    await expectAlive();
  });

  test("of many calls at once each is answered, or refused because of their number", async () => {
    const paths = Array.from({ length: 300 }, (_, i) => (i % 2 ? "/hello.txt" : "../../secret"));
    const answers = await Promise.all(paths.map((path) => call(client, "read_text_file", { path })));
    const answered = answers.flatMap(({ failed, text }, i) => (/requests at once; wait/.test(text) ? [] : [[paths[i], failed]]));
    expect(answered.length).toBeGreaterThanOrEqual(50);
    expect(answered.filter(([path, failed]) => failed !== (path !== "/hello.txt"))).toEqual([]);
    await expectAlive();
  });
});

test("over stdio, what is no message does not reach the files, and the server ends or goes on by itself", async () => {
  await openVictim("raw");
  for (const line of ["nonsense", "{", "[]", '{"jsonrpc":"2.0"}', '{"jsonrpc":"1.0","id":1,"method":"ping"}', "\0\xff".repeat(1000), "[".repeat(100_000), '{"jsonrpc":"2.0","id":{},"method":"ping"}']) {
    const child = spawn(binary(), ["mcp", "--panel", "raw"], { env: { ...process.env, CTXFS_ADDRESS: `unix://${server.socket}` }, stdio: ["pipe", "pipe", "pipe"] });
    let log = "";
    child.stderr.on("data", (text) => { log += String(text); });
    const out: string[] = [];
    createInterface({ input: child.stdout }).on("line", (text) => out.push(text));
    child.stdin.on("error", () => undefined); // it may have ended
    child.stdin.end(`${line}\n`);
    await once(child, "close");
    expect(log, line.slice(0, 40)).not.toMatch(/panic|goroutine \d/);
    for (const text of out) expect(JSON.parse(text), line.slice(0, 40)).toMatchObject({ jsonrpc: "2.0" });
  }
});

/** Sends a request to /v1/mcp, with headers that browsers and fetch forbid. */
async function send(method: string, headers: Record<string, string>, body?: string): Promise<{ status: number; headers: Record<string, unknown>; body: string }> {
  const sent = request(new URL("/v1/mcp", server.url), { method, headers: { accept: "application/json, text/event-stream", ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers } });
  sent.end(body);
  const [response] = (await once(sent, "response")) as [import("node:http").IncomingMessage];
  let text = "";
  if (!String(response.headers["content-type"]).startsWith("text/event-stream") || method === "POST") for await (const chunk of response) text += String(chunk);
  else response.destroy();
  return { status: response.statusCode ?? 0, headers: response.headers, body: text };
}

const initialize = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "raw", version: "1" } } });
const read = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "read_text_file", arguments: { path: "/hello.txt" } } });

describe("requests to /v1/mcp", () => {
  let panel: { token: string; contextId: string };
  let bearer: Record<string, string>;
  let session: string;
  beforeAll(async () => {
    panel = await openVictim("requests");
    bearer = { authorization: `Bearer ${panel.token}` };
    const begun = await send("POST", bearer, initialize);
    expect(begun.status).toBe(200);
    session = String(begun.headers["mcp-session-id"]);
    expect(session).toMatch(/^.{16,}$/);
  });
  const expectAlive = async (): Promise<void> => {
    const { status, body } = await send("POST", { ...bearer, "mcp-session-id": session }, read);
    expect(status).toBe(200);
    expect(body).toContain("hello");
  };

  test.each<[string, () => Record<string, string>, number]>([
    ["without a token", () => ({}), 401],
    ["with a wrong token", () => ({ authorization: "Bearer wrong" }), 401],
    ["with an empty token", () => ({ authorization: "Bearer " }), 401],
    ["with another scheme", () => ({ authorization: `Basic ${Buffer.from(`x:${panel.token}`).toString("base64")}` }), 401],
    ["of a foreign page", () => ({ ...bearer, origin: "https://evil.example" }), 403],
    ["of a page without an origin", () => ({ ...bearer, origin: "null" }), 403],
    ["with a session without a token", () => ({ "mcp-session-id": session }), 401],
    ["with another panel's session", () => ({ authorization: `Bearer ${other.token}`, "mcp-session-id": session }), 404],
    ["with a session that does not exist", () => ({ ...bearer, "mcp-session-id": "AAAAAAAAAAAAAAAAAAAAAAAAAA" }), 404],
  ])("%s are refused", async (_, headers, status) => {
    for (const method of ["POST", "GET", "DELETE"]) {
      const answer = await send(method, headers(), method === "POST" ? read : undefined);
      if (method === "POST" || "mcp-session-id" in headers() || status !== 404) expect(answer.status, method).toBe(status);
      expect(answer.body).not.toContain("hello");
    }
    if (status !== 404) expect((await send("POST", headers(), initialize)).status).toBe(status);
    await expectAlive();
  });

  test("a page that --origin names is admitted", async () => {
    const { status } = await send("POST", { ...bearer, origin: "https://allowed.example" }, initialize);
    expect(status).toBe(200);
  });

  test.each<[string, string, Record<string, string>]>([
    ["no JSON", "nonsense", {}],
    ["half a message", "{", {}],
    ["nothing", "", {}],
    ["another type", read, { "content-type": "text/plain" }],
    ["deep nesting", "[".repeat(1_000_000), {}],
    ["an unknown method", JSON.stringify({ jsonrpc: "2.0", id: 3, method: "files/steal" }), {}],
    ["a version that does not exist", read, { "mcp-protocol-version": "1999-01-01" }],
  ])("a body with %s is an error", async (_, body, headers) => {
    const answer = await send("POST", { ...bearer, "mcp-session-id": session, ...headers }, body);
    expect(answer.status >= 400 || answer.body.includes('"error"'), `${answer.status} ${answer.body.slice(0, 200)}`).toBe(true);
    expect(answer.status).toBeLessThan(500);
    await expectAlive();
  });

  test("a flood of sessions is bounded, and other panels are served", async () => {
    const statuses = new Set<number>();
    for (let i = 0; i < 200; i++) statuses.add((await send("POST", bearer, initialize)).status);
    expect([...statuses].every((status) => status === 200 || status === 429 || status === 503), [...statuses].join()).toBe(true);
    expect((await send("POST", { authorization: `Bearer ${other.token}` }, initialize)).status).toBe(200);
  });

  test("a panel that is closed has no session", async () => {
    const { token } = await openVictim("closed");
    const headers = { authorization: `Bearer ${token}` };
    const begun = await send("POST", headers, initialize);
    expect(begun.status).toBe(200);
    await server.ctxfs("panel", "close", "closed");
    expect((await send("POST", { ...headers, "mcp-session-id": String(begun.headers["mcp-session-id"]) }, read)).status).toBe(401);
  });

  test("a panel that may only read changes nothing", async () => {
    const { token } = await server.openPanel("reader", "--read-only");
    const client = await connectTo(server, { id: "reader", token }, "http");
    expect((await client.listTools()).tools.filter(({ annotations }) => annotations?.readOnlyHint !== true)).toEqual([]);
    expect(await call(client, "write_file", { path: "/x", content: "x" })).toMatchObject({ failed: true, text: expect.stringContaining("unknown tool") as unknown });
    await client.close();
  });
});
