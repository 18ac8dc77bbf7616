import { execFileSync } from "node:child_process";
import { access, lstat, mkdir, readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, type ArchiveSummary, type CtxFs } from "../src/index.js";
import { startServer, type Panel, type Server } from "../src/server/index.js";
import { startTestServer, type TestServer } from "./serve.js";

let server: TestServer;
let fs: CtxFs;
let folder: string;

beforeAll(async () => {
  server = await startTestServer();
  const panel = await server.openPanel("archives");
  fs = await connect({ socket: server.socket, token: panel.token });
  folder = server.folder(panel.contextId);
  await fs.mkdir("/src/deep", { recursive: true });
  await fs.writeFile("/src/large", new Uint8Array(3_000_000).map((_, i) => i * 7));
  await fs.writeFile("/src/deep/script.sh", "#!/bin/sh\n", { mode: 0o755 });
  await fs.writeFile("/src/skip.log", "log");
  await fs.symlink("deep/script.sh", "/src/link");
});
afterAll(async () => {
  await fs.disconnect();
  await server.stop();
});

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

describe.each(["tar", "zip"] as const)("%s", (format) => {
  test("an export is imported as it was", async () => {
    let told: ArchiveSummary | undefined;
    const archive = fs.exportArchive("/src", { format, exclude: ["*.log"], onSummary: (summary) => { told = summary; } });
    const got = await fs.importArchive(archive, `/${format}`, { format });
    expect(told).toEqual(got);
    expect(got).toEqual({ files: 2, directories: 1, symlinks: 1, bytes: 3_000_010, leftOut: 0, leftOutNames: [] });
    expect((await readFile(join(folder, format, "large"))).equals(await readFile(join(folder, "src/large")))).toBe(true);
    expect((await lstat(join(folder, format, "deep/script.sh"))).mode & 0o777).toBe(0o755);
    expect(await fs.readlink(`/${format}/link`)).toBe("deep/script.sh");
    await expect(access(join(folder, format, "skip.log"))).rejects.toThrow("ENOENT");
  });

  test("a file that exists is kept unless overwrite is set", async () => {
    const archive = await bytesOf(fs.exportArchive("/src/deep", { format }));
    await fs.mkdir(`/${format}-kept`);
    await fs.writeFile(`/${format}-kept/script.sh`, "mine");
    await expect(fs.importArchive(archive, `/${format}-kept`, { format })).rejects.toMatchObject({ code: "EEXIST", syscall: "import" });
    expect(await fs.readFile(`/${format}-kept/script.sh`, "utf8")).toBe("mine");
    await fs.importArchive(archive, `/${format}-kept`, { format, overwrite: true });
    expect(await fs.readFile(`/${format}-kept/script.sh`, "utf8")).toBe("#!/bin/sh\n");
  });
});

test("tar lists an export", async () => {
  const archive = await bytesOf(fs.exportArchive("/src", { exclude: ["large"] }));
  expect(execFileSync("tar", ["-tf", "-"], { input: archive, encoding: "utf8" }).trim().split("\n").sort()).toEqual(["./", "deep/", "deep/script.sh", "link", "skip.log"]);
});

test("a source that fails leaves nothing", async () => {
  async function* broken(): AsyncGenerator<Uint8Array, void> {
    yield (await bytesOf(fs.exportArchive("/src/deep"))).subarray(0, 1024);
    throw new Error("the source broke");
  }
  await expect(fs.importArchive(broken(), "/broken")).rejects.toThrow("the source broke");
  await expect(fs.importArchive(new Uint8Array(10), "/broken")).rejects.toMatchObject({ code: "EINVAL" });
  expect((await readdir(folder)).filter((name) => name.startsWith(".") || name === "broken")).toEqual([]);
});

test("an export that is left ends, and one that is aborted fails", async () => {
  const reader = fs.exportArchive("/src").getReader();
  expect((await reader.read()).value?.length).toBeGreaterThan(0);
  await reader.cancel();
  const stop = new AbortController();
  const aborted = fs.exportArchive("/src", { signal: stop.signal }).getReader();
  await aborted.read();
  stop.abort(new Error("enough"));
  await expect((async () => { while (!(await aborted.read()).done); })()).rejects.toMatchObject({ name: "AbortError" });
  expect(() => fs.exportArchive("/src", { format: "rar" as "tar" })).toThrow('unknown format of archives "rar"');
});

/** The names in a folder and below it that begin with a dot. */
async function hidden(dir: string): Promise<string[]> {
  return (await readdir(dir, { recursive: true })).filter((name) => /(^|\/)\./.test(name));
}

describe.each(["sandboxed", "direct"] as const)("in a context with %s zones", (mode) => {
  let host: Server;
  let panel: Panel;
  beforeAll(async () => {
    host = await startServer({ workspace: server.workspace });
    await mkdir(join(server.workspace, "repo/reports"), { recursive: true });
    const zones = mode === "direct" ? { "/work": { dir: "repo/reports" } } : { "/work": { from: "repositories" }, "/scratch": { commit: "never" } } as const;
    panel = await host.openPanel(`zoned-${mode}`, { zones: { mode, zones } });
  });
  afterAll(async () => {
    await panel.close();
    await host.stop();
  });

  test("an archive is imported into a zone, and below it", async () => {
    const archive = await bytesOf(fs.exportArchive("/src", { exclude: ["large"] }));
    for (const into of ["/work", "work/made", "/work/made", "/work/./made/../other"]) {
      expect(await panel.fs.importArchive(archive, into, { overwrite: true }), into).toMatchObject({ files: 2, symlinks: 1 });
      expect(await panel.fs.readFile(`${into}/deep/script.sh`, "utf8"), into).toBe("#!/bin/sh\n");
    }
    const { files } = await panel.import(panel.export({ path: "/work/made" }), { path: "/work/panel" });
    expect(files).toBe(2);
    expect(await hidden(mode === "direct" ? join(server.workspace, "repo/reports") : panel.folder)).toEqual([]);
  });

  test("beside the zones nothing is imported, and the error names the target", async () => {
    const archive = await bytesOf(fs.exportArchive("/src/deep"));
    for (const into of ["/", "/elsewhere"]) await expect(panel.fs.importArchive(archive, into), into).rejects.toMatchObject({ code: "EACCES", syscall: "import", path: into });
    expect(await panel.fs.readdir("/")).toEqual(mode === "direct" ? ["work"] : ["scratch", "work"]);
  });
});

test("a target whose name is not UTF-8 is imported into", async () => {
  const target = Buffer.from("/raw-\xff/below", "latin1");
  await fs.mkdir(target, { recursive: true });
  await fs.importArchive(await bytesOf(fs.exportArchive("/src/deep")), target);
  expect(await fs.readFile(Buffer.concat([target, Buffer.from("/script.sh")]), "utf8")).toBe("#!/bin/sh\n");
});

test("a panel exports and imports its folder", async () => {
  const host = await startServer({ workspace: server.workspace });
  const panel = await host.openPanel("archived");
  await panel.fs.writeFile("/file", "text");
  const { files } = await panel.import(panel.export({ path: "/file" }), { path: "/copy" });
  expect([files, await panel.fs.readFile("/copy/file", "utf8")]).toEqual([1, "text"]);
  await panel.close();
  await host.stop();
});
