import { describe, expect, test } from "vitest";
import { createMemorySandbox, NotFoundError, SandboxError } from "../src/sandbox/index.js";

describe("a sandbox in memory", () => {
  test("keeps texts and bytes under its zones", async () => {
    const sandbox = createMemorySandbox();
    await sandbox.write("/workspace/reports/one.md", "# One\n");
    await sandbox.writeBinary("/cache/page.bin", new Uint8Array([0, 255]));
    expect(await sandbox.read("/workspace/reports/one.md")).toBe("# One\n");
    expect([...await sandbox.readBinary("/cache/page.bin")]).toEqual([0, 255]);
    expect(await sandbox.list("/workspace")).toEqual(["reports"]);
    expect(await sandbox.exists("/workspace/reports")).toBe(true);
    await sandbox.delete("/workspace/reports");
    expect(await sandbox.exists("/workspace/reports")).toBe(false);
  });

  test("says NotFoundError for what is not there, and for what is in no zone", async () => {
    const sandbox = createMemorySandbox();
    const missing: unknown = await sandbox.read("/workspace/no.md").catch((e: unknown) => e);
    expect(missing).toBeInstanceOf(NotFoundError);
    expect(missing).toMatchObject({ name: "NotFoundError", code: "NOT_FOUND", path: "/workspace/no.md", message: "/workspace/no.md does not exist" });
    for (const path of ["/etc/passwd", "/workspace/../etc/passwd", "relative.md", "/", "/cachet/x"]) {
      await expect(sandbox.write(path, "x")).rejects.toMatchObject({ code: "NOT_FOUND", message: expect.stringContaining("paths begin with /cache or /workspace") as unknown });
    }
    expect(await sandbox.fs.readdir("/")).toEqual(["cache", "workspace"]);
  });

  test("gives the file system's errors as SandboxError", async () => {
    const sandbox = createMemorySandbox();
    await sandbox.mkdir("/workspace/dir");
    const error: unknown = await sandbox.read("/workspace/dir").catch((e: unknown) => e);
    expect(error).toBeInstanceOf(SandboxError);
    expect(error).not.toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ code: "EISDIR", path: "/workspace/dir" });
    await expect(sandbox.delete("/cache")).rejects.toMatchObject({ code: "EBUSY" });
  });

  test("shares nothing with another one", async () => {
    const [one, other] = [createMemorySandbox(), createMemorySandbox()];
    await one.write("/cache/a", "1");
    expect(await other.exists("/cache/a")).toBe(false);
  });
});

describe("the file system in memory", () => {
  test("reports changes to a watch, those in new directories too", async () => {
    const { fs } = createMemorySandbox();
    const stop = new AbortController();
    const seen: string[] = [];
    const changes = fs.watch("/workspace", { recursive: true, signal: stop.signal });
    const first = changes[Symbol.asyncIterator]().next();
    await new Promise(setImmediate);
    await fs.mkdir("/workspace/new");
    await fs.writeFile("/workspace/new/a", "1");
    await fs.rename("/workspace/new/a", "/workspace/b");
    seen.push(JSON.stringify((await first).value));
    for await (const change of changes) {
      seen.push(JSON.stringify(change));
      if (change.filename === "b") stop.abort();
      if (change.filename === "b") break;
    }
    expect(seen).toEqual([
      '{"eventType":"rename","filename":"new"}', '{"eventType":"rename","filename":"new/a"}', '{"eventType":"change","filename":"new/a"}',
      '{"eventType":"rename","filename":"new/a"}', '{"eventType":"rename","filename":"b"}',
    ]);
  });

  test("finds lines, with those around them", async () => {
    const { fs } = createMemorySandbox();
    await fs.writeFile("/workspace/a.txt", "one\ntwo\nthree\nfour\n");
    await fs.writeFile("/workspace/b.bin", new Uint8Array([0, 116, 119, 111]));
    const found: unknown[] = [];
    const search = fs.grep("t[wh]", { path: "/workspace", after: 1 });
    let step = await search.next();
    for (; !step.done; step = await search.next()) found.push(step.value);
    expect(found).toEqual([{ path: "/workspace/a.txt", lines: [
      { number: 2, text: "two", context: false }, { number: 3, text: "three", context: false }, { number: 4, text: "four", context: true },
    ] }]);
    expect(step.value).toEqual({ matches: 2, filesSearched: 1, truncated: false });
    await expect(fs.grep("(").next()).rejects.toMatchObject({ code: "EINVAL", syscall: "grep" });
  });

  test("keeps what a handle has open after the name is gone", async () => {
    const { fs } = createMemorySandbox();
    await fs.writeFile("/cache/a", "kept");
    const handle = await fs.open("/cache/a", "r+");
    await fs.unlink("/cache/a");
    await fs.writeFile("/cache/a", "another");
    expect(await handle.readFile("utf8")).toBe("kept");
    expect((await handle.stat()).nlink).toBe(0);
    await handle.close();
    await expect(handle.read()).rejects.toMatchObject({ code: "EBADF" });
  });

  test("names of bytes that are not UTF-8 are kept as they are", async () => {
    const { fs } = createMemorySandbox();
    const name = Buffer.from([0x2f, 0x61, 0xff, 0xc3]);
    await fs.writeFile(name, "x");
    expect(await fs.readdir("/", "buffer")).toContainEqual(name.subarray(1));
    expect(await fs.readFile(name, "utf8")).toBe("x");
  });

  test("calls after disconnect fail", async () => {
    const { fs } = createMemorySandbox();
    await fs.disconnect();
    await expect(fs.readdir("/")).rejects.toMatchObject({ code: "ECONNRESET" });
  });
});
