import { createHash } from "node:crypto";
import { access, chmod, readFile } from "node:fs/promises";
import { join } from "node:path";
import { getuid } from "node:process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, CtxfsError, type CheckEvent, type CtxFs } from "../src/index.js";
import { startServer } from "../src/server/index.js";
import { startProxy } from "./proxy.js";
import { startTestServer, type TestServer } from "./serve.js";

let server: TestServer;
let why = "";
beforeAll(async () => {
  server = await startTestServer(...(getuid?.() === 0 ? ["--exec-user", "4321:4321"] : []));
  await chmod(server.workspace, 0o755); // the user of commands passes through it
  const fs = await panelFs("panels/probe", "--exec");
  await fs.exec(["true"]).exit.catch((error: unknown) => {
    if (!(error instanceof CtxfsError) || error.code !== "EXEC_UNAVAILABLE") throw error;
    why = error.message;
  });
  await fs.disconnect();
});
afterAll(() => server.stop());

async function panelFs(id: string, ...flags: string[]): Promise<CtxFs> {
  const { token } = await server.openPanel(id, ...flags);
  return connect({ socket: server.socket, token });
}

async function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(stream).text();
}

/** Tests with a panel that may run commands, over each transport. */
function onTransports(name: string, run: (fs: CtxFs) => Promise<void>): void {
  for (const transport of ["ws", "grpc"] as const) {
    test(`${name} (${transport})`, async (context) => {
      if (why !== "") return context.skip(why);
      const { token } = await server.openPanel(`panels/${transport}`, "--exec");
      const fs = await connect({ socket: server.socket, token, transport });
      try {
        await run(fs);
      } finally {
        await fs.disconnect();
      }
    });
  }
}

onTransports("a command has output, input and an exit", async (fs) => {
  const p = fs.exec(["sh", "-c", "cat repo/hello.txt; echo $A; pwd; cat; echo oops >&2; exit 3"], { env: { A: "b" }, stdin: "stream", name: "first", labels: { task: "7" } });
  const writer = p.stdin.getWriter();
  await writer.write("typed ");
  await writer.write(new TextEncoder().encode("in\n"));
  await writer.close();
  expect(await textOf(p.stdout)).toBe("hello\nb\n/context\ntyped in\n");
  expect(await textOf(p.stderr)).toBe("oops\n");
  expect(await p.exit).toEqual({ code: 3, reason: "exited", detail: "" });
  const { id } = await p.started;
  const [info] = await fs.processes();
  expect(info).toMatchObject({ id, name: "first", labels: { task: "7" }, exit: { code: 3 } });
  expect(await textOf(fs.attachProcess(id).stdout)).toContain("typed in\n");
  const lines = [];
  for await (const line of fs.exec(["printf", "one\\ntwo\\r\\nthree"]).lines()) lines.push(line);
  expect(lines).toEqual(["one", "two", "three"]);
  expect(await textOf(fs.exec(["cat"], { input: "given" }).stdout)).toBe("given");
});

onTransports("a terminal has a size, keys and signals", async (fs) => {
  const p = fs.exec(["sh", "-c", "stty size; read line; stty size; trap 'echo got; exit 9' INT; echo ready; while :; do sleep 0.05; done"], { pty: { cols: 90, rows: 20 } });
  const reader = p.stdout.getReader();
  const decoder = new TextDecoder();
  let seen = "";
  const until = async (text: string): Promise<void> => {
    while (!seen.includes(text)) {
      const { value, done } = await reader.read();
      if (done) throw new Error(`the terminal shows ${seen}`);
      seen += decoder.decode(value, { stream: true });
    }
  };
  await until("20 90\r\n");
  await p.resize(100, 50);
  const keys = p.stdin.getWriter();
  await keys.write("\n");
  await until("50 100\r\n");
  await until("ready");
  await keys.write("\x03");
  await until("got");
  expect((await p.exit).code).toBe(9);
});

onTransports("a command ends by kill, by its signal and by its limit", async (fs) => {
  const sleeping = fs.exec(["sleep", "1000"]);
  await sleeping.started;
  expect((await sleeping.kill(0)).reason).toBe("killed");
  const stop = new AbortController();
  const aborted = fs.exec(["sleep", "1000"], { signal: stop.signal });
  const { id } = await aborted.started;
  stop.abort();
  await expect(aborted.exit).rejects.toMatchObject({ name: "AbortError" });
  expect((await fs.attachProcess(id).exit).reason).toBe("killed");
  expect((await fs.exec(["sleep", "1000"], { limits: { wallMs: 200 } }).exit).reason).toBe("timeout");
  expect((await fs.exec(["yes"], { limits: { outputBytes: 100_000 } }).exit).reason).toBe("output");
  expect((await fs.exec(["sh", "-c", "while :; do :; done"], { limits: { cpuMs: 300 } }).exit).reason).toBe("cpu");
  expect((await fs.exec(["sh", "-c", "head -c 2000000 /dev/zero > /tmp/f"], { limits: { tmpBytes: 1 << 20 } }).exit).code).toBe(1);
});

onTransports("commands share a sandbox, and have a profile", async (fs) => {
  const server = fs.exec(["sh", "-c", "echo shared > /tmp/f; echo ready; sleep 1000"], { sandbox: "dev" });
  for await (const line of server.lines()) if (line === "ready") break;
  expect(await textOf(fs.exec(["cat", "/tmp/f"], { sandbox: "dev" }).stdout)).toBe("shared\n");
  expect((await fs.exec(["cat", "/tmp/f"]).exit).code).toBe(1);
  await server.kill(0);
  await expect(fs.exec(["true"], { profile: "nope" }).exit).rejects.toMatchObject({ code: "EINVAL" });
});

test("what a command changed is undone, and what passes its checks is applied", async (context) => {
  if (why !== "") return context.skip(why);
  const host = await startServer({ workspace: server.workspace });
  await using panel = await host.openPanel("panels/checked", { exec: true });
  const { journalId } = await panel.exec(["sh", "-c", "echo changed > repo/hello.txt"], { checkpoint: true }).exit;
  expect(await panel.fs.readFile("/repo/hello.txt", "utf8")).toBe("changed\n");
  const reviewer = host.review(panel.contextId);
  await reviewer.undo(journalId ?? 0);
  expect(await panel.fs.readFile("/repo/hello.txt", "utf8")).toBe("hello\n");
  expect(await panel.exec(["true"], { checkpoint: true }).exit).toEqual({ code: 0, reason: "exited", detail: "" });

  await panel.fs.writeFile("/repo/checked.txt", "good\n");
  const events: CheckEvent[] = [];
  const choice = { selection: ["/repo/checked.txt"], approve: true };
  const failing = reviewer.applyChecked([{ argv: ["grep", "-q", "bad", "repo/checked.txt"] }], choice, (event) => events.push(event));
  await expect(failing).rejects.toMatchObject({ name: "CtxfsError", code: "CHECK_FAILED" });
  expect(events).toMatchObject([{ kind: "started", check: 0 }, { kind: "ended", check: 0, passed: false, exit: { code: 1 } }]);
  await expect(access(join(server.workspace, "repo/checked.txt"))).rejects.toThrow("ENOENT");
  events.length = 0;
  const checks = [{ argv: ["false"], optional: true }, { argv: ["sh", "-c", "cat checked.txt; echo seen >&2"], cwd: "/repo" }];
  const { files } = await reviewer.applyChecked(checks, choice, (event) => events.push(event));
  expect(files).toEqual([{ path: "/repo/checked.txt", kind: "created", merged: false }]);
  const said = events.flatMap((e) => e.kind === "output" ? [[e.check, e.stream, new TextDecoder().decode(e.data)]] : []);
  expect(said).toEqual(expect.arrayContaining([[1, "stdout", "good\n"], [1, "stderr", "seen\n"]]));
  expect(await readFile(join(server.workspace, "repo/checked.txt"), "utf8")).toBe("good\n");
  await expect(reviewer.applyChecked([{ argv: ["true"], command: "x" } as never])).rejects.toThrow(/unknown option "command"/);
  await host.stop();
});

describe("what is refused", () => {
  test("has typed errors and the remedy", async (context) => {
    if (why !== "") return context.skip(why);
    const [plain, able] = [await panelFs("panels/plain"), await panelFs("panels/able", "--exec")];
    const refused = plain.exec(["true"]);
    await expect(refused.started).rejects.toMatchObject({ code: "EACCES", hint: expect.stringContaining("openPanel(id, { exec: true })") as string });
    await expect(textOf(refused.stdout)).rejects.toMatchObject({ code: "EACCES" });
    await expect(plain.processes()).rejects.toMatchObject({ code: "EACCES" });
    await expect(able.exec(["true"], { cwd: "/nope" }).exit).rejects.toMatchObject({ code: "ENOENT" });
    await expect(able.exec([]).exit).rejects.toMatchObject({ code: "EINVAL" });
    const other = JSON.parse(await server.ctxfs("exec", "--json", "-d", "panels/plain", "--", "sleep", "1000")) as { processId: string };
    await expect(able.attachProcess(other.processId).exit).rejects.toMatchObject({ code: "ENOENT" });
    expect(() => able.exec(["true"], { dir: "/" } as never)).toThrow(/unknown option "dir"/);
    await plain.disconnect();
    await able.disconnect();
  });
});

test("a process that is kept outlives its connection, and one that is not ends with it", async (context) => {
  if (why !== "") return context.skip(why);
  const [first, second] = [await panelFs("panels/kept", "--exec"), await panelFs("panels/kept", "--exec")];
  const script = ["sh", "-c", "echo begun; read line; echo $line"];
  const [kept, lost] = [first.exec(script, { stdin: "stream", keep: true }), first.exec(["cat"], { stdin: "stream" })];
  const [{ id }, { id: gone }] = [await kept.started, await lost.started];
  await first.disconnect();
  await expect(lost.exit).rejects.toThrow();
  expect(await second.attachProcess(gone).exit).toMatchObject({ reason: "killed" });
  const again = second.attachProcess(id);
  const writer = again.stdin.getWriter();
  await writer.write("back\n");
  expect(await textOf(again.stdout)).toBe("begun\nback\n");
  expect((await again.exit).code).toBe(0);
  await second.disconnect();
});

/** A command that writes 32 MiB, twice what is kept for a stream that nobody reads. */
const numbers = "seq 1 99999999999 | head -c 33554432";

/** The SHA-256 of what a stream has. after is called after each MiB: a slow reader is as slow as that. */
async function sumOf(stream: ReadableStream<Uint8Array>, after: (mib: number) => Promise<unknown>): Promise<string> {
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of stream) {
    hash.update(chunk);
    const mib = (size + chunk.length) >> 20;
    if (mib !== size >> 20) await after(mib);
    size += chunk.length;
  }
  return hash.digest("hex");
}

onTransports("a slow reader gets all output, and delays nothing else", async (fs) => {
  const want = (await textOf(fs.exec(["sh", "-c", `${numbers} | sha256sum`]).stdout)).slice(0, 64);
  const p = fs.exec(["sh", "-c", numbers]);
  const { stdout } = p;
  const { id } = await p.started;
  for (const same of [numbers, numbers]) await fs.exec(["sh", "-c", same]).exit; // nobody reads these
  expect((await fs.processes()).find((info) => info.id === id)?.exit, "a process that waits for its reader has ended").toBeUndefined();
  expect(await sumOf(stdout, async () => {
    for (let calls = 0; calls < 20; calls++) await fs.stat("/"); // on the same connection
  })).toBe(want);
  expect(p.dropped).toBe(0);
  expect(await p.exit).toEqual({ code: 0, reason: "exited", detail: "" });
});

onTransports("a stream that the program has not asked for delays no command", async (fs) => {
  const p = fs.exec(["sh", "-c", `${numbers} >&2; echo done`]);
  expect(await textOf(p.stdout)).toBe("done\n");
  expect((await p.exit).code).toBe(0);
  expect(p.dropped).toBeGreaterThanOrEqual(16 << 20); // what does not fit is dropped by messages
});

onTransports("a command ends when its reader takes nothing, and when it has gone", async (fs) => {
  const p = fs.exec(["yes"]);
  const reader = p.stdout.getReader();
  await reader.read();
  await fs.exec(["sh", "-c", numbers]).exit; // meanwhile the other one waits
  expect((await p.kill(0)).reason).toBe("killed");
  await reader.cancel();
  await p.exit;
  const stop = new AbortController();
  const gone = fs.exec(["yes"], { signal: stop.signal });
  const { id } = await gone.started;
  await gone.stdout.getReader().read();
  stop.abort();
  await expect(gone.exit).rejects.toMatchObject({ name: "AbortError" });
  expect(await fs.attachProcess(id).exit).toMatchObject({ code: 141, reason: "exited" }); // SIGPIPE
});

test("a reader that loses its connection gets all output of a command that is kept", async (context) => {
  if (why !== "") return context.skip(why);
  const proxy = await startProxy(server.socket);
  const { token } = await server.openPanel("panels/cut", "--exec");
  const [fs, other] = [await connect({ address: proxy.address, token }), await panelFs("panels/other")];
  const want = (await textOf(fs.exec(["sh", "-c", `${numbers} | sha256sum`]).stdout)).slice(0, 64);
  const p = fs.exec(["sh", "-c", numbers], { keep: true });
  expect(await sumOf(p.stdout, async (mib) => {
    if (mib % 8 === 1) proxy.cut();
    for (let calls = 0; calls < 100; calls++) await other.stat("/");
  })).toBe(want);
  expect(p.dropped).toBe(0);
  expect((await p.exit).code).toBe(0);
  await fs.disconnect();
  await other.disconnect();
  await proxy.close();
});

test("output that nobody reads is bounded and counted", async (context) => {
  if (why !== "") return context.skip(why);
  const fs = await panelFs("panels/flood", "--exec");
  const p = fs.exec(["head", "-c", "40000000", "/dev/zero"]);
  await p.exit;
  const { byteLength } = await new Response(p.stdout).arrayBuffer();
  expect(byteLength).toBeLessThanOrEqual(16 << 20);
  expect(byteLength + p.dropped).toBe(40_000_000);
  await fs.disconnect();
});

test("a host's server gives the right", async (context) => {
  if (why !== "") return context.skip(why);
  const host = await startServer({ workspace: server.workspace });
  await using panel = await host.openPanel("panels/host", { exec: true });
  expect(await textOf(panel.exec(["cat", "repo/hello.txt"]).stdout)).toBe("hello\n");
  expect(await panel.processes()).toHaveLength(1);
  await host.stop();
});
