import { chmod } from "node:fs/promises";
import { getuid } from "node:process";
import type { Experimental_SandboxSession } from "ai7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, CtxfsError, type CtxFs } from "../src/index.js";
import { createMemorySandbox } from "../src/sandbox/index.js";
import { createBashSandbox, createSandboxSession } from "../src/tools/index.js";
import { running } from "./behaviour/row.js";
import { startTestServer, type TestServer } from "./serve.js";

describe("a sandbox session of the AI SDK 7", () => {
  const open = (): { session: Experimental_SandboxSession; fs: CtxFs } => {
    const { fs } = createMemorySandbox();
    return { fs, session: createSandboxSession(fs) };
  };

  test("reads and writes streams, bytes and texts, and makes directories", async () => {
    const { session, fs } = open();
    await session.writeTextFile({ path: "workspace/a/b.txt", content: "one\ntwo\nthree" });
    await session.writeBinaryFile({ path: "/context/workspace/bytes", content: new Uint8Array([0, 255]) });
    await session.writeFile({ path: "/workspace/stream", content: new Response("streamed").body as ReadableStream<Uint8Array> });
    expect(await fs.readFile("/workspace/a/b.txt", "utf8")).toBe("one\ntwo\nthree");
    expect(await session.readTextFile({ path: "workspace/a/b.txt", startLine: 2, endLine: 9 })).toBe("two\nthree");
    expect([...await session.readBinaryFile({ path: "workspace/bytes" }) ?? []]).toEqual([0, 255]);
    expect(await new Response(await session.readFile({ path: "workspace/stream" })).text()).toBe("streamed");
    expect(await fs.callbacks.promises.readdir("/workspace/a")).toEqual(["b.txt"]);
  });

  test("writes and reads other encodings", async () => {
    const { session, fs } = open();
    await session.writeTextFile({ path: "l1", content: "ä", encoding: "latin1" });
    expect([...await fs.readFile("/l1")]).toEqual([0xe4]);
    expect(await session.readTextFile({ path: "l1", encoding: "latin1" })).toBe("ä");
    await expect(session.writeTextFile({ path: "x", content: "ä", encoding: "klingon" })).rejects.toThrow('unknown encoding "klingon"');
  });

  test("what does not exist is null, and a wrong kind rejects", async () => {
    const { session, fs } = open();
    expect(await session.readFile({ path: "none" })).toBeNull();
    expect(await session.readBinaryFile({ path: "none" })).toBeNull();
    expect(await session.readTextFile({ path: "none/none" })).toBeNull();
    expect(await session.stat({ path: "none" })).toBeNull();
    expect(await session.listDirectory({ path: "none" })).toBeNull();
    expect(await session.deleteFile({ path: "none" })).toBe(false);
    await fs.writeFile("/workspace/a", "12");
    await fs.symlink("a", "/workspace/link");
    expect(await session.stat({ path: "workspace/link" })).toEqual({ type: "file", size: 2 });
    expect(await session.listDirectory({ path: "workspace" })).toEqual([{ name: "a", type: "file" }, { name: "link", type: "symlink" }]);
    await expect(session.listDirectory({ path: "workspace/a" })).rejects.toMatchObject({ code: "ENOTDIR" });
    await expect(session.deleteFile({ path: "workspace" })).rejects.toMatchObject({ code: "EISDIR" });
    expect(await session.deleteFile({ path: "workspace/link" })).toBe(true);
    expect(await session.stat({ path: "workspace/a" })).toEqual({ type: "file", size: 2 });
  });

  test("without a runner commands are refused", async () => {
    const { session } = open();
    await expect(session.run({ command: "true" })).rejects.toThrow("give createSandboxSession a panel that was opened with exec");
    await expect(session.spawn({ command: "true" })).rejects.toThrow("runs no commands");
  });

  test("a signal that has fired ends a call", async () => {
    const { session } = open();
    const abortSignal = AbortSignal.abort(new Error("enough"));
    await expect(session.writeTextFile({ path: "a", content: "x", abortSignal })).rejects.toThrow("enough");
    expect(await session.stat({ path: "a" })).toBeNull();
  });

  test.runIf(running >= 22)("generateText hands it to tools", async () => {
    const { generateText, tool, isStepCount } = await import("ai7");
    const { MockLanguageModelV4 } = await import("ai7/test");
    const { z } = await import("zod/v4");
    const { session, fs } = open();
    const model = new MockLanguageModelV4({ doGenerate: (options: { prompt: { role: string }[] }) => Promise.resolve({
      content: options.prompt.at(-1)?.role === "tool" ? [{ type: "text", text: "done" }] : [{ type: "tool-call", toolCallId: "1", toolName: "note", input: "{}" }],
      finishReason: { unified: options.prompt.at(-1)?.role === "tool" ? "stop" : "tool-calls", raw: "" }, usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } }, warnings: [],
    } as never) });
    const note = tool({
      description: "note", inputSchema: z.object({}),
      execute: async (_, { experimental_sandbox: sandbox }) => {
        await sandbox?.writeTextFile({ path: "note.md", content: "noted" });
        return "noted";
      },
    });
    await generateText({ model, tools: { note }, prompt: "go", stopWhen: isStepCount(3), experimental_sandbox: session });
    expect(await fs.readFile("/note.md", "utf8")).toBe("noted");
  });
});

describe("commands", () => {
  let server: TestServer;
  let fs: CtxFs;
  let why = "";
  beforeAll(async () => {
    server = await startTestServer(...(getuid?.() === 0 ? ["--exec-user", "4321:4321"] : []));
    await chmod(server.workspace, 0o755); // the user of commands passes through it
    const { token } = await server.openPanel("panels/session", "--exec");
    fs = await connect({ socket: server.socket, token });
    await fs.exec(["true"]).exit.catch((error: unknown) => {
      if (!(error instanceof CtxfsError) || error.code !== "EXEC_UNAVAILABLE") throw error;
      why = error.message;
    });
  });
  afterAll(async () => {
    await fs.disconnect();
    await server.stop();
  });

  test("run where the files are", async (context) => {
    if (why !== "") return context.skip(why);
    const session = createSandboxSession(fs, fs);
    await session.writeTextFile({ path: "/context/dir/in.txt", content: "in" });
    const ran = await session.run({ command: "cat in.txt; echo $WHO >&2; pwd > out.txt; exit 3", workingDirectory: "dir", env: { WHO: "me" } });
    expect(ran).toEqual({ exitCode: 3, stdout: "in", stderr: "me\n" });
    expect(await session.readTextFile({ path: "dir/out.txt" })).toBe("/context/dir\n");
  });

  test("spawn streams both ways, and kill may be repeated", async (context) => {
    if (why !== "") return context.skip(why);
    const session: Experimental_SandboxSession = createSandboxSession(fs, fs);
    const cat = await session.spawn({ command: "cat", stdin: true });
    const writer = cat.stdin.getWriter();
    await writer.write(new TextEncoder().encode("typed"));
    await writer.close();
    expect(await new Response(cat.stdout).text()).toBe("typed");
    expect(await cat.wait()).toEqual({ exitCode: 0 });
    await cat.kill();
    const sleeper = await session.spawn({ command: "sleep 1000" });
    expect("stdin" in sleeper).toBe(false);
    await sleeper.kill();
    await sleeper.kill();
    expect((await sleeper.wait()).exitCode).not.toBe(0);
  });

  test("a signal ends a command, with its reason", async (context) => {
    if (why !== "") return context.skip(why);
    const session = createSandboxSession(fs, fs);
    const stop = new AbortController();
    const process = await session.spawn({ command: "sleep 1000", abortSignal: stop.signal });
    stop.abort(new Error("enough"));
    await expect(process.wait()).rejects.toThrow("enough");
  });

  test("bash-tool's sandbox runs commands and has the files", async (context) => {
    if (why !== "") return context.skip(why);
    const sandbox = createBashSandbox(fs, fs);
    await sandbox.writeFiles([{ path: "/context/bash/a.txt", content: "a" }, { path: "bash/b.txt", content: Buffer.from("b") }]);
    expect(await sandbox.executeCommand("cat bash/a.txt bash/b.txt")).toEqual({ stdout: "ab", stderr: "", exitCode: 0 });
    expect(await sandbox.readFile("/bash/a.txt")).toBe("a");
    await expect(sandbox.readFile("/bash/none")).rejects.toMatchObject({ code: "ENOENT" });
  });
});
