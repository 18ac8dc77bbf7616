import { execFileSync } from "node:child_process";
import { chmod, lchown, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createBridge, createPortFs } from "../src/bridge/index.js";
import { connect, createFs } from "../src/index.js";
import { findServer } from "../src/links/discover.js";
import { configure } from "../src/runtime.js";
import { startServer, type Server } from "../src/server/index.js";
import { startTestServer, type TestServer } from "./serve.js";

/*
 * What a program does not say: connect() without arguments finds its server as the Go client does. What it says wrongly: an
 * option that does not exist is an error.
 */

let server: TestServer;
let host: Server;
const env = { ...process.env };
const before = process.cwd();
beforeAll(async () => {
  server = await startTestServer();
  host = await startServer({ workspace: server.workspace });
  await mkdir(join(server.workspace, "repo/deep/er"), { recursive: true });
  for (const name of Object.keys(process.env)) if (name.startsWith("CTXFS_") && name !== "CTXFS_BIN") Reflect.deleteProperty(process.env, name);
});
afterAll(async () => {
  process.chdir(before);
  process.env = env;
  await host.stop();
  await server.stop();
});

/** Sets variables of the environment for a call. */
async function withEnv<T>(variables: Record<string, string>, run: () => Promise<T>): Promise<T> {
  Object.assign(process.env, variables);
  try {
    return await run();
  } finally {
    for (const name of Object.keys(variables)) Reflect.deleteProperty(process.env, name);
  }
}

describe("connect() without arguments", () => {
  test.each([".", "repo", "repo/deep/er"])("finds the workspace's server from %s", async (dir) => {
    process.chdir(join(server.workspace, dir));
    const { contextId } = await server.openPanel("finder");
    await using fs = await connect({ contextId });
    expect(await fs.readFile("/repo/hello.txt", "utf8")).toBe("hello\n");
    await using lazy = createFs({ panel: "finder" });
    expect((await lazy.info()).contextId).toBe(contextId);
  });

  test("CTXFS_ADDRESS, CTXFS_TOKEN, CTXFS_PANEL and CTXFS_CONTEXT are obeyed", async () => {
    process.chdir(tmpdir());
    const { token, contextId } = await server.openPanel("environment");
    const address = `unix://${server.socket}`;
    const contextOf = async (): Promise<string> => {
      await using fs = await connect();
      await fs.stat("/");
      return (await fs.info()).contextId;
    };
    expect(await withEnv({ CTXFS_ADDRESS: address, CTXFS_TOKEN: token }, contextOf)).toBe(contextId);
    expect(await withEnv({ CTXFS_ADDRESS: address, CTXFS_PANEL: "environment" }, contextOf)).toBe(contextId);
    expect(await withEnv({ CTXFS_ADDRESS: address, CTXFS_CONTEXT: contextId }, contextOf)).toBe(contextId);
    expect(() => createFs()).toThrow("no ctxfs server found from");
  });

  test("without a server the error names the remedies", async () => {
    process.chdir(tmpdir());
    await expect(connect()).rejects.toThrow(/no ctxfs server found from .* upwards: start one with 'ctxfs serve' in your workspace, set CTXFS_ADDRESS, or name one by/);
  });

  test("a token does not travel in the clear to another machine", async () => {
    await withEnv({ CTXFS_ADDRESS: "files.example.org:7420", CTXFS_TOKEN: "t" }, async () => {
      await expect(connect()).rejects.toThrow("a token would travel in the clear to files.example.org:7420");
    });
    for (const address of ["127.0.0.1:1", "localhost:1", "[::1]:1", "https://files.example.org", "/run/ctxfs.sock"]) {
      // eslint-disable-next-line @typescript-eslint/require-await -- findServer throws or returns at once
      await withEnv({ CTXFS_ADDRESS: address, CTXFS_TOKEN: "t" }, async () => { expect(findServer()).toMatchObject({ address, token: "t" }); });
    }
  });

  test("a server.json in a panel's own folder leads nobody astray", async () => {
    const { contextId } = await server.openPanel("trap");
    const inside = join(server.folder(contextId), "deep");
    const trap = join(inside, ".contexts/.ctxfs");
    await mkdir(trap, { recursive: true, mode: 0o700 });
    await chmod(join(inside, ".contexts"), 0o700);
    await writeFile(join(trap, "server.json"), JSON.stringify({ socket: "/nowhere", addresses: [] }), { mode: 0o600 });
    expect(findServer(inside)).toMatchObject({ socket: server.socket });
    expect(findServer(trap)).toMatchObject({ socket: server.socket });
  });

  test.each([[".contexts", "nothing"], ["elsewhere", ".ctxfs"]])("a server.json in a folder of the contexts directory %s with %s leads nobody astray", async (name, state) => {
    const dir = await mkdtemp(join(tmpdir(), "ctxfs-discover-"));
    const inside = join(dir, name, "ctx_a");
    await mkdir(join(inside, ".contexts/.ctxfs"), { recursive: true, mode: 0o700 });
    await writeFile(join(inside, ".contexts/.ctxfs/server.json"), JSON.stringify({ socket: "/nowhere", addresses: [] }), { mode: 0o600 });
    await mkdir(join(dir, name, state));
    expect(() => findServer(inside)).toThrow("no ctxfs server found from");
    await rm(dir, { recursive: true });
  });

  test("a state directory that others may enter is not believed, and the socket beside server.json comes first", async () => {
    const dir = await mkdtemp(join(tmpdir(), "ctxfs-discover-"));
    const state = join(dir, ".contexts/.ctxfs");
    await mkdir(state, { recursive: true, mode: 0o700 });
    await writeFile(join(state, "server.json"), JSON.stringify({ socket: "/in/the/container/ctxfs.sock" }));
    expect(findServer(dir)).toMatchObject({ socket: "/in/the/container/ctxfs.sock" });
    const { createServer } = await import("node:net");
    const listening = createServer().listen(join(state, "ctxfs.sock"));
    await new Promise((resolve) => { listening.once("listening", resolve); });
    expect(findServer(dir)).toMatchObject({ socket: join(state, "ctxfs.sock") });
    listening.close();
    await chmod(state, 0o755);
    expect(() => findServer(dir)).toThrow("is not a directory with mode 0700, so it is not believed");
    await rm(state, { recursive: true });
    await symlink(join(server.workspace, ".contexts/.ctxfs"), state);
    expect(() => findServer(dir)).toThrow("is not a directory with mode 0700, so it is not believed");
    await rm(dir, { recursive: true });
  });

  const foreign = "belongs to uid 1000, not to you (uid 0), so it is not believed unless CTXFS_TRUST_DIR names";
  const record = ".ctxfs/server.json";
  type Change = (contexts: string) => Promise<unknown>;
  const give = (...names: string[]): Change => async (contexts) => { for (const name of names) await lchown(join(contexts, name), 1000, 1000); };
  const rows: [name: string, change: Change, trusted: boolean, want: string][] = [
    ["the user's own", () => Promise.resolve(), false, ""],
    ["another's state", give(".", ".ctxfs", record), false, foreign],
    ["another's state directory", give(".ctxfs"), false, foreign],
    ["another's contexts directory", give("."), false, foreign],
    ["another's server.json", give(record), false, "is not the file of its directory's owner"],
    ["a file in the place of the state directory", async (c) => { await rm(join(c, ".ctxfs"), { recursive: true }); await writeFile(join(c, ".ctxfs"), "", { mode: 0o600 }); }, false, "is not a directory with mode 0700"],
    ["a link", async (c) => { await rename(join(c, record), join(c, "real")); await symlink("../real", join(c, record)); }, false, "is not a regular file"],
    ["a FIFO", async (c) => { await rm(join(c, record)); execFileSync("mkfifo", [join(c, record)]); }, false, "is not a regular file"],
    ["a huge file", (c) => writeFile(join(c, record), " ".repeat((64 << 10) + 1)), false, "is not of at most 65536 bytes"],
    ["a file that others may change", (c) => chmod(join(c, record), 0o620), false, "is not closed to others (mode 0620)"],
    ["no socket", (c) => writeFile(join(c, record), '{"addresses":["127.0.0.1:1"]}'), false, "names no socket"],
    ["another's socket", async (c) => { await listenAt(join(c, "away.sock")); await give("away.sock")(c); }, false, "belongs to uid 1000, and is no server of yours"],
    ["another's state that is trusted", give(".", ".ctxfs", record), true, ""],
    ["server.json of the user in another's state that is trusted", give(".", ".ctxfs"), true, "is not the file of its directory's owner"],
  ];
  const listenAt = async (path: string): Promise<void> => {
    const { createServer } = await import("node:net");
    const listening = createServer().listen(path).unref();
    await new Promise((resolve) => { listening.once("listening", resolve); });
  };
  test.skipIf(process.geteuid?.() !== 0).each(rows)("of what another user may have put there, %s", async (_, change, trusted, want) => {
    const dir = await mkdtemp(join(tmpdir(), "ctxfs-discover-"));
    const contexts = join(dir, ".contexts");
    await mkdir(join(contexts, ".ctxfs"), { recursive: true, mode: 0o700 });
    await writeFile(join(contexts, record), JSON.stringify({ socket: join(contexts, "away.sock"), token_file: "/etc/shadow" }), { mode: 0o600 });
    await change(contexts);
    await withEnv({ CTXFS_TRUST_DIR: trusted ? `/elsewhere,${contexts}` : dir }, async () => {
      if (want === "") expect(findServer(dir)).toEqual({ socket: join(contexts, "away.sock"), token: "", contextId: undefined });
      else expect(() => findServer(dir)).toThrow(want);
      await rm(dir, { recursive: true });
    });
  });
});

test("openPanel gives hosts the panel's folder", async () => {
  await using panel = await host.openPanel("folder");
  await panel.fs.writeFile("/a.txt", "a");
  expect(panel.folder).toBe(server.folder(panel.contextId));
  expect(await readFile(join(panel.folder, "a.txt"), "utf8")).toBe("a");
});

test.each([
  ["createFs", "adress", "did you mean address?", () => createFs({ adress: "x" } as object)],
  ["connect", "Token", "did you mean token?", () => connect({ socket: server.socket, Token: "x" } as object)],
  ["startServer", "contextDir", "did you mean contextsDir?", () => startServer({ workspace: server.workspace, contextDir: "x" } as never)],
  ["openPanel", "readonly", "did you mean readOnly?", () => host.openPanel("p", { readonly: true } as object)],
  // clock: this is no time, but an option that is none
  ["configure", "timeout", "the options are address, ", async () => { configure({ timeout: 5 } as object); await Promise.resolve(); }],
  ["createBridge", "onerror", "did you mean onError?", () => createBridge(host, { onerror: () => undefined } as object)],
  ["createPortFs", "ping", "the options are pingEvery", () => createPortFs(new MessageChannel().port1 as never, { ping: 5 } as object)],
] as const)("%s refuses the option %s", async (_, name, remedy, run: () => unknown) => {
  const failed = new Promise((resolve) => { resolve(run()); });
  await expect(failed).rejects.toMatchObject({ code: "ERR_INVALID_ARG_VALUE" });
  await expect(failed).rejects.toThrow(`unknown option "${name}": ${remedy}`);
});
