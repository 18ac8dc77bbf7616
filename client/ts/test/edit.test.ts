import { readFile as readOnDisk } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, type CtxFs, type SystemError } from "../src/index.js";
import { createMemorySandbox, createSandbox } from "../src/sandbox/index.js";
import { createSandboxTools } from "../src/tools/index.js";
import { startTestServer, type TestServer } from "./serve.js";

let server: TestServer;
let fs: CtxFs;
let folder: string;
let token: string;

beforeAll(async () => {
  server = await startTestServer();
  const panel = await server.openPanel("edit");
  token = panel.token;
  fs = await connect({ socket: server.socket, token });
  folder = server.folder(panel.contextId);
});
afterAll(async () => {
  await fs.disconnect();
  await server.stop();
});

/** The error with which a call rejects. */
async function failure(call: Promise<unknown>): Promise<SystemError> {
  return call.then(() => { throw new Error("it did not fail"); }, (error: unknown) => error as SystemError);
}

test("readFile and readLines read lines, with the etag", async () => {
  await fs.writeFile("/lines", "one\ntwo\nthree");
  expect(await fs.readFile("/lines", { lines: { start: 2, count: 1 }, encoding: "utf8" })).toBe("two\n");
  expect((await fs.readFile("/lines", { lines: { start: 3 } })).toString()).toBe("three");
  expect(await fs.readLines("/lines", { start: 2 })).toMatchObject({ text: "two\nthree", totalLines: 3, etag: expect.stringMatching(/^[\w-]{20}$/) as unknown });
});

test.each([["small", 1], ["large", 20 << 20]])("writeFile of %s content changes a file only if it has the etag", async (name, size) => {
  const path = `/${name}`;
  const content = Buffer.alloc(size, "x");
  await fs.writeFile(path, content, { ifNoneMatch: "*" });
  const taken = await failure(fs.writeFile(path, content, { ifNoneMatch: "*" }));
  expect(taken).toMatchObject({ code: "EEXIST", kind: "condition" });
  const etag = taken.etag ?? "";
  await fs.writeFile(path, Buffer.alloc(size, "y"), { ifMatch: etag });
  const stale = await failure(fs.writeFile(path, content, { ifMatch: etag }));
  expect(stale).toMatchObject({ code: "ESTALE", kind: "condition", message: expect.stringContaining("read the file again") as unknown });
  expect(stale.etag).not.toBe(etag);
  const now = await readOnDisk(join(folder, name));
  expect(now.length === size && now.every((byte) => byte === 0x79)).toBe(true);
});

test("editFile makes all edits or none", async () => {
  await fs.writeFile("/text", "one\ntwo\nthree\n");
  const dry = await fs.editFile("/text", { oldText: "two", newText: "2" }, { dryRun: true });
  expect(dry).toMatchObject({ replacements: [1], linesAdded: 1, linesRemoved: 1, diff: "--- a/text\n+++ b/text\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n" });
  expect(await fs.readFile("/text", "utf8")).toBe("one\ntwo\nthree\n");
  const done = await fs.editFile("/text", [{ oldText: "two", newText: "2" }, { startLine: 4, endLine: 3, newText: "four" }], { ifMatch: dry.etag });
  expect(await fs.readFile("/text", "utf8")).toBe("one\n2\nthree\nfour\n");
  expect(await failure(fs.editFile("/text", { oldText: "four", newText: "4" }, { ifMatch: dry.etag }))).toMatchObject({ code: "ESTALE", etag: done.etag });
  expect(await failure(fs.editFile("/text", [{ oldText: "four", newText: "4" }, { oldText: "thr ee", newText: "3" }]))).toMatchObject({
    code: "EINVAL", kind: "edit", message: expect.stringContaining('edit 2 of 2: oldText is not in the file; the nearest lines are 3: "three"') as unknown,
  });
  expect(await fs.readFile("/text", "utf8")).toBe("one\n2\nthree\nfour\n");
});

test("conditions that cannot be are refused", async () => {
  await expect(fs.writeFile("/x", "x", { ifMatch: "" })).rejects.toMatchObject({ code: "ERR_INVALID_ARG_VALUE" });
  await using file = await fs.open("/x", "w");
  await expect(fs.writeFile(file as never, "x", { ifMatch: "etag" })).rejects.toMatchObject({ code: "ERR_INVALID_ARG_VALUE" });
  const { fs: memory } = createMemorySandbox();
  await expect(memory.writeFile("/x", "x", { ifMatch: "etag" })).rejects.toMatchObject({ code: "ENOTSUP" });
  await memory.writeFile("/x", "one\ntwo\nthree");
  expect(await memory.readLines("/x", { start: 2, count: 1 })).toEqual({ text: "two\n", totalLines: 3, etag: "" });
});

test("the tools of a model edit on the server, and read parts of large files", async () => {
  const sandbox = createSandbox({ panel: { fs: await connect({ socket: server.socket, token }) } });
  const tools = createSandboxTools(sandbox);
  const path = `${sandbox.zones[0] ?? ""}/big.txt`;
  await sandbox.write(path, `${"a line\n".repeat(600_000)}the last\n`);
  expect(await tools.readFile.execute({ path, startLine: 600_001, endLine: null })).toEqual({ text: expect.stringMatching(/^600001\tthe last\n\(lines 600001-600001 of 600001\)\n\(etag [\w-]{20}\)$/) as unknown });
  const byText = { path, startLine: null, endLine: null, replaceAll: null, ifMatch: null };
  expect(await tools.editFile.execute({ ...byText, oldText: "the last", newText: "the end" })).toEqual({ text: expect.stringMatching(`^Replaced 1 place in ${path}\n\\(etag [\\w-]{20}\\)$`) as unknown });
  expect(await tools.editFile.execute({ ...byText, oldText: "the l ast", newText: "x" })).toMatchObject({ error: expect.stringContaining('600001: \\"the end\\"'.replaceAll("\\", "")) as unknown });
  const none = { content: null, oldText: null, newText: null, to: null };
  const zone = sandbox.zones[0] ?? "";
  const steps = [
    { ...none, change: "mkdir" as const, path: `${zone}/made` }, { ...none, change: "write" as const, path: `${zone}/made/a.txt`, content: "one\n" },
    { ...none, change: "edit" as const, path: `${zone}/made/a.txt`, oldText: "one", newText: "two" }, { ...none, change: "move" as const, path: `${zone}/made/a.txt`, to: `${zone}/b.txt` },
    { ...none, change: "delete" as const, path: `${zone}/made` },
  ];
  expect(await tools.batch.execute({ steps, dryRun: true })).toMatchObject({ text: expect.stringContaining("+two") as unknown });
  expect(await sandbox.exists(`${zone}/b.txt`)).toBe(false);
  expect(await tools.batch.execute({ steps, dryRun: null })).toEqual({ text: "Made all 5 changes" });
  expect(await sandbox.read(`${zone}/b.txt`)).toBe("two\n");
  expect(await tools.batch.execute({ steps: [{ ...none, change: "delete", path: `${zone}/b.txt` }, { ...none, change: "move", path: `${zone}/no`, to: `${zone}/c` }], dryRun: null })).toMatchObject({ error: expect.stringContaining("ENOENT") as unknown });
  expect(await tools.batch.execute({ steps: [{ ...none, change: "delete", path: zone }], dryRun: null })).toMatchObject({ error: expect.stringContaining("is a zone") as unknown });
  expect(await sandbox.read(`${zone}/b.txt`), "a batch that fails changes nothing").toBe("two\n");
  const inMemory = createSandboxTools(createMemorySandbox());
  expect(await inMemory.batch.execute({ steps: [{ ...none, change: "mkdir", path: "/workspace/x" }], dryRun: null })).toMatchObject({ error: expect.stringContaining("no batches") as unknown });
  expect(await inMemory.batch.execute({ steps: [{ ...none, change: "move", path: "/workspace/x", to: "/elsewhere/x" }], dryRun: null })).toMatchObject({ error: expect.stringContaining("in no zone") as unknown });
  expect(await inMemory.batch.execute({ steps: [{ ...none, change: "delete", path: "/workspace/." }], dryRun: null })).toMatchObject({ error: expect.stringContaining("is a zone") as unknown });
  expect(await inMemory.readFile.execute({ path: "/elsewhere/x", startLine: 1, endLine: 2 })).toMatchObject({ error: expect.stringContaining("in no zone") as unknown });
  await sandbox.close();
});

/** The etag at the end of a tool's result. */
function etagOf(result: object): string {
  const [, etag] = /\n\(etag ([\w-]{20})\)$/.exec((result as { text?: string }).text ?? "") ?? [];
  if (etag === undefined) throw new Error(`no etag in ${JSON.stringify(result)}`);
  return etag;
}

test("the tools of a model give etags, and change only the file that has the one they are given", async () => {
  const sandbox = createSandbox({ panel: { fs: await connect({ socket: server.socket, token }) } });
  const { readFile, writeFile, editFile } = createSandboxTools(sandbox);
  const path = `${sandbox.zones[0] ?? ""}/new/tool.txt`;
  const lines = { path, oldText: null, startLine: 2, endLine: 2, newText: "2", replaceAll: null };
  const first = etagOf(await writeFile.execute({ path, content: "one\ntwo\nthree\n", ifMatch: null }));
  expect(etagOf(await readFile.execute({ path, startLine: null, endLine: null }))).toBe(first);
  const second = etagOf(await editFile.execute({ ...lines, ifMatch: first }));
  expect(await sandbox.read(path)).toBe("one\n2\nthree\n");
  expect(etagOf(await readFile.execute({ path, startLine: 2, endLine: 2 }))).toBe(second);
  const stale = { error: expect.stringMatching(/^ESTALE: .*read the file again/) as unknown };
  expect(await editFile.execute({ ...lines, ifMatch: first })).toEqual(stale);
  expect(await editFile.execute({ ...lines, oldText: "one", startLine: null, endLine: null, ifMatch: first })).toEqual(stale);
  expect(await writeFile.execute({ path, content: "lost", ifMatch: first })).toEqual(stale);
  expect(await writeFile.execute({ path: `${sandbox.zones[0] ?? ""}/none/x`, content: "x", ifMatch: first })).toMatchObject({ error: expect.stringMatching(/^ESTALE/) as unknown });
  expect(await sandbox.exists(`${sandbox.zones[0] ?? ""}/none`), "a refused write makes no directory").toBe(false);
  expect(await sandbox.read(path)).toBe("one\n2\nthree\n");
  const third = etagOf(await writeFile.execute({ path, content: "whole\n", ifMatch: second }));
  await editFile.execute({ ...lines, startLine: 1, endLine: 1, ifMatch: third });
  expect(await sandbox.read(path)).toBe("2\n");
  await sandbox.close();
});
