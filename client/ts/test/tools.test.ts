import { describe, expect, test } from "vitest";
import { createMemorySandbox } from "../src/sandbox/index.js";
import { createSandboxTools, toolApproval, type ApprovalRequest } from "../src/tools/index.js";
import { scripted, versions } from "./models.js";

describe.each(Object.entries(versions))("with AI SDK %s", (version, run) => {
  test("a model reads a file by lines", async () => {
    const sandbox = createMemorySandbox();
    await sandbox.write("/workspace/a.txt", "one\ntwo\nthree\n");
    const script = scripted(version, "readFile", { path: "/workspace/a.txt", startLine: 2, endLine: null });
    await run(createSandboxTools(sandbox), script);
    expect(script.told()).toMatchObject({ type: "text", value: "2\ttwo\n3\tthree\n(lines 2-3 of 3)" });
  });

  test("a failure is text that the model can act on", async () => {
    const script = scripted(version, "readFile", { path: "/workspace/no.txt", startLine: null, endLine: null });
    await run(createSandboxTools(createMemorySandbox()), script);
    expect(script.told()).toMatchObject({ type: "error-text", value: "NOT_FOUND: /workspace/no.txt does not exist" });
  });

  test("an image comes as media", async () => {
    const sandbox = createMemorySandbox();
    await sandbox.writeBinary("/cache/dot.png", new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0]));
    const script = scripted(version, "readFile", { path: "/cache/dot.png", startLine: null, endLine: null });
    await run(createSandboxTools(sandbox), script);
    expect(JSON.stringify(script.told())).toContain('"mediaType":"image/png"');
  });

  test.runIf(version !== "5")("what a person has to agree to does not run before", async () => {
    const sandbox = createMemorySandbox();
    const options = { approval: { write: "ask" as const } };
    const script = scripted(version, "writeFile", { path: "/workspace/a.txt", content: "x", ifMatch: null });
    const { content } = await run(createSandboxTools(sandbox, options), script, { toolApproval: toolApproval(options) });
    expect(content.map(({ type }) => type)).toContain("tool-approval-request");
    expect(await sandbox.exists("/workspace/a.txt")).toBe(false);
  });

  test.runIf(version !== "5")("what a person agreed to runs, and what was refused does not", async () => {
    for (const approved of [true, false]) {
      const sandbox = createMemorySandbox();
      const options = { approval: { write: "ask" as const } };
      const tools = createSandboxTools(sandbox, options);
      const script = scripted(version, "writeFile", { path: "/workspace/a.txt", content: "x", ifMatch: null });
      const more = { toolApproval: toolApproval(options) };
      const { content, response } = await run(tools, script, more);
      const { approvalId } = content.find(({ type }) => type === "tool-approval-request") as unknown as { approvalId: string };
      const answer = { role: "tool", content: [{ type: "tool-approval-response", approvalId, approved }] };
      await run(tools, script, { ...more, messages: [{ role: "user", content: "go" }, ...response.messages, answer] });
      expect(await sandbox.exists("/workspace/a.txt")).toBe(approved);
    }
  });

  test.runIf(version === "5")("what nobody was asked about is refused", async () => {
    const sandbox = createMemorySandbox();
    const script = scripted(version, "writeFile", { path: "/workspace/a.txt", content: "x", ifMatch: null });
    await run(createSandboxTools(sandbox, { approval: { write: "ask" } }), script);
    expect(script.told()).toMatchObject({ type: "error-text", value: expect.stringContaining("NOT_APPROVED: writeFile") as unknown });
    expect(await sandbox.exists("/workspace/a.txt")).toBe(false);
  });

  test("onApproval asks a person in every version", async () => {
    for (const approved of [true, false]) {
      const sandbox = createMemorySandbox();
      const asked: unknown[] = [];
      const onApproval = ({ toolName, input }: ApprovalRequest): Promise<boolean> => {
        asked.push(toolName, input);
        return Promise.resolve(approved);
      };
      const options = { approval: { write: "ask" as const }, onApproval };
      const script = scripted(version, "writeFile", { path: "/workspace/a.txt", content: "x", ifMatch: null });
      await run(createSandboxTools(sandbox, options), script, { toolApproval: toolApproval(options) });
      expect(asked).toEqual(["writeFile", { path: "/workspace/a.txt", content: "x", ifMatch: null }]);
      expect(await sandbox.exists("/workspace/a.txt")).toBe(approved);
      expect(script.told()).toMatchObject(approved ? { type: "text" } : { type: "error-text", value: "NOT_APPROVED: a person refused writeFile" });
    }
  });
});

describe("the tools of a sandbox", () => {
  const begin = async (files: Record<string, string> = {}) => {
    const sandbox = createMemorySandbox();
    for (const [path, text] of Object.entries(files)) await sandbox.write(path, text);
    return { sandbox, tools: createSandboxTools(sandbox, { maxOutput: 1024 }) };
  };
  const byText = { startLine: null, endLine: null, replaceAll: null, ifMatch: null };
  const byLines = { oldText: null, replaceAll: null, ifMatch: null };

  test("editFile replaces text that is there once", async () => {
    const { sandbox, tools } = await begin({ "/workspace/a.ts": "let a = 1;\nlet b = 1;\n" });
    expect(await tools.editFile.execute({ ...byText, path: "/workspace/a.ts", oldText: "a = 1", newText: "a = $&" })).toEqual({ text: "Replaced 1 place in /workspace/a.ts" });
    expect(await sandbox.read("/workspace/a.ts")).toBe("let a = $&;\nlet b = 1;\n");
  });

  test("editFile says where an ambiguous text is, and what is like a missing one", async () => {
    const { sandbox, tools } = await begin({ "/workspace/a.ts": "let a = 1;\nlet b = 1;\n" });
    const edit = (oldText: string, replaceAll: boolean | null = null) => tools.editFile.execute({ ...byText, path: "/workspace/a.ts", oldText, newText: "2", replaceAll });
    expect(await edit("1")).toEqual({ error: "AMBIGUOUS: oldText is 2 times in /workspace/a.ts, at lines 1, 2. Add lines around it, or set replaceAll." });
    expect(await edit("let b  = 1;")).toEqual({ error: 'NO_MATCH: oldText is not in /workspace/a.ts. The nearest line is 2: "let b = 1;"' });
    expect(await sandbox.read("/workspace/a.ts")).toBe("let a = 1;\nlet b = 1;\n");
    expect(await edit("1", true)).toEqual({ text: "Replaced 2 places in /workspace/a.ts" });
  });

  test("edits of one file that a model asks for at once are all made", async () => {
    const { sandbox, tools } = await begin({ "/workspace/a.ts": "one\ntwo\nthree\n" });
    const edit = (oldText: string) => tools.editFile.execute({ ...byText, path: "/workspace/a.ts", oldText, newText: oldText.toUpperCase() });
    await Promise.all(["one", "two", "three"].map(edit));
    expect(await sandbox.read("/workspace/a.ts")).toBe("ONE\nTWO\nTHREE\n");
  });

  test.each([
    ["lines", "one\ntwo\nthree\n", 2, 3, "2\n3", "one\n2\n3\n"], ["the last line, which has no end", "one\ntwo", 2, 2, "2\n", "one\n2"],
    ["lines by nothing", "one\ntwo\nthree\n", 1, 2, "", "three\n"], ["lines that end in CRLF", "one\r\ntwo\r\n", 1, 1, "1\n1.5", "1\r\n1.5\r\ntwo\r\n"],
    ["nothing, before a line", "one\ntwo\n", 2, 1, "1.5", "one\n1.5\ntwo\n"], ["nothing, after the last line", "one", 2, 1, "two\n", "one\ntwo"], ["nothing, in an empty file", "", 1, 0, "one\n", "one\n"],
  ])("editFile replaces %s", async (_, before, startLine, endLine, newText, after) => {
    const { sandbox, tools } = await begin({ "/workspace/a.txt": before });
    const text = endLine < startLine ? `Inserted before line ${startLine} of /workspace/a.txt` : `Replaced lines ${startLine}-${endLine} of /workspace/a.txt`;
    expect(await tools.editFile.execute({ ...byLines, path: "/workspace/a.txt", startLine, endLine, newText })).toEqual({ text });
    expect(await sandbox.read("/workspace/a.txt")).toBe(after);
  });

  test("editFile refuses lines that are not there, two ways at once, and etags where there are none", async () => {
    const path = "/workspace/a.txt";
    const { sandbox, tools } = await begin({ [path]: "one\ntwo\n" });
    const lines = { ...byLines, path, startLine: 1, endLine: 1, newText: "x" };
    expect(await tools.editFile.execute({ ...lines, endLine: 3 })).toEqual({ error: `NO_LINES: lines 1-3 are not in ${path}, which has 2. Read the file again.` });
    const both = { error: "EINVAL: give either oldText, or startLine and endLine, and null for the others" };
    for (const input of [{ ...lines, oldText: "one" }, { ...lines, endLine: null }, { ...lines, startLine: null, endLine: null }, { ...lines, replaceAll: true }]) expect(await tools.editFile.execute(input)).toEqual(both);
    const none = { error: "ENOTSUP: the files of this sandbox have no etags: give null as ifMatch" };
    expect(await tools.editFile.execute({ ...lines, ifMatch: "etag" })).toEqual(none);
    expect(await tools.writeFile.execute({ path, content: "x", ifMatch: "etag" })).toEqual(none);
    expect(await sandbox.read(path)).toBe("one\ntwo\n");
  });

  test("a long result is cut, and says how much is left", async () => {
    const { tools } = await begin({ "/workspace/long.txt": "0123456789\n".repeat(2310) });
    const { text } = await tools.readFile.execute({ path: "/workspace/long.txt", startLine: null, endLine: null }) as { text: string };
    expect(text.length).toBeLessThan(1100);
    expect(text).toMatch(/\n\(lines 1-\d\d of 2310\)$/);
  });

  test("glob, grep, listFiles and stat stay in the zones", async () => {
    const { tools } = await begin({ "/workspace/src/a.ts": "needle\n", "/workspace/b.md": "hay\n" });
    expect(await tools.glob.execute({ pattern: "/workspace/**/*.ts" })).toEqual({ text: "/workspace/src/a.ts" });
    expect(await tools.grep.execute({ pattern: "need", path: "/workspace", include: null, ignoreCase: null, context: null })).toEqual({ text: "/workspace/src/a.ts:1:needle" });
    expect(await tools.listFiles.execute({ path: "/workspace", recursive: true })).toEqual({ text: "/workspace/b.md\n/workspace/src/\n/workspace/src/a.ts" });
    expect(await tools.stat.execute({ path: "/workspace/b.md" })).toMatchObject({ text: expect.stringMatching(/^\/workspace\/b.md: file of 4 bytes, changed 2/) as unknown });
    const outside = [
      tools.glob.execute({ pattern: "/**" }), tools.grep.execute({ pattern: "x", path: "/", include: null, ignoreCase: null, context: null }),
      tools.listFiles.execute({ path: "/", recursive: null }), tools.stat.execute({ path: "/workspace/../x" }),
    ];
    for (const result of await Promise.all(outside)) expect(result).toMatchObject({ error: expect.stringContaining("in no zone") as unknown });
  });

  test("an approval is for one call, and counts in the last message alone", async () => {
    const { sandbox } = await begin();
    const { deleteFile } = createSandboxTools(sandbox, { approval: { write: "ask" } });
    await sandbox.write("/workspace/a", "a");
    const request = { role: "assistant", content: [{ type: "tool-approval-request", approvalId: "a", toolCallId: "1" }] };
    const answer = (approvalId: string, approved: unknown, role = "tool") => ({ role, content: [{ type: "tool-approval-response", approvalId, approved }] });
    const agreed = answer("a", true);
    const calls = [
      {}, { toolCallId: "1" }, { messages: [request, agreed] }, { toolCallId: "2", messages: [request, agreed] }, { toolCallId: "1", messages: [agreed] },
      { toolCallId: "1", messages: [request, answer("b", true)] }, { toolCallId: "1", messages: [request, answer("a", false)] }, { toolCallId: "1", messages: [request, answer("a", "yes")] },
      { toolCallId: "1", messages: [request, answer("a", true, "user")] }, { toolCallId: "1", messages: [request, agreed, { role: "user", content: "go on" }] },
      { toolCallId: "1", messages: [{ ...request, role: "tool" }, agreed] },
    ];
    for (const call of calls) expect(await deleteFile.execute({ path: "/workspace/a" }, call)).toMatchObject({ error: expect.stringContaining("NOT_APPROVED") as unknown });
    expect(await deleteFile.execute({ path: "/workspace/a" }, { toolCallId: "1", messages: [request, agreed] })).toEqual({ text: "Removed /workspace/a" });
  });

  test("with deny nothing can be changed", () => {
    const tools = createSandboxTools(createMemorySandbox(), { approval: { write: "deny" } });
    expect(Object.keys(tools)).toEqual(["readFile", "listFiles", "glob", "grep", "stat"]);
  });

  test("every schema is one that strict providers take: all properties are required", async () => {
    const { z } = await import("zod/v4");
    for (const { inputSchema } of Object.values(createSandboxTools(createMemorySandbox()))) {
      const schema = z.toJSONSchema(inputSchema) as { properties: object; required: string[] };
      expect(schema.required).toEqual(Object.keys(schema.properties));
    }
  });

  test("a signal that has fired ends a call", async () => {
    const { tools } = await begin();
    await expect(tools.stat.execute({ path: "/cache" }, { abortSignal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough");
  });
});
