import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A server that a test started. */
export interface TestServer {
  readonly workspace: string;
  readonly socket: string;
  /** The URL of --http. */
  readonly url: string;
  /** The folder of a context on the disk. */
  folder(contextId: string): string;
  /** Opens a panel and returns its token and context. */
  openPanel(id: string, ...flags: string[]): Promise<{ token: string; contextId: string }>;
  /** Runs the command line against the server. */
  ctxfs(...args: string[]): Promise<string>;
  /** Kills it without a farewell. */
  kill(): Promise<void>;
  /** Stops its process, which keeps its connections and answers nothing; continues it. */
  hang(): void;
  resume(): void;
  /** Starts it again at the same addresses. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts ctxfs serve on a new workspace that holds one folder, repo, with hello.txt in it. */
export async function startTestServer(...flags: string[]): Promise<TestServer> {
  const workspace = await mkdtemp(join(tmpdir(), "ctxfs-ts-"));
  await mkdir(join(workspace, "repo"));
  await writeFile(join(workspace, "repo", "hello.txt"), "hello\n");
  let process = await serve(workspace, ["--http", "127.0.0.1:0", ...flags]);
  const record = await recordOf(workspace);
  const ctxfs = (...args: string[]): Promise<string> => run(args, { CTXFS_ADDRESS: `unix://${record.socket}` });
  return {
    workspace, ctxfs,
    socket: record.socket,
    url: `http://${record.http}`,
    folder: (contextId) => join(workspace, ".contexts", contextId),
    openPanel: async (id, ...more) => {
      const panel = JSON.parse(await ctxfs("panel", "open", "--json", ...more, id)) as { token: string; contextId: string };
      return { token: panel.token, contextId: panel.contextId };
    },
    kill: () => end(process, "SIGKILL"),
    hang: () => { process.kill("SIGSTOP"); },
    resume: () => { process.kill("SIGCONT"); },
    restart: async () => { process = await serve(workspace, ["--http", record.http, ...flags]); },
    stop: async () => {
      await end(process, "SIGTERM");
      await rm(workspace, { recursive: true, force: true });
    },
  };
}

async function serve(workspace: string, flags: string[]): Promise<ChildProcess> {
  const ready = join(workspace, "ready");
  await rm(ready, { force: true });
  const given = new AbortController();
  // It watches at once: the one of fs/promises begins when it is first asked, and misses a file that is there by then.
  const changes = watch(workspace, { signal: AbortSignal.any([given.signal, AbortSignal.timeout(60_000)]) });
  const appeared = new Promise<boolean>((resolve) => {
    changes.on("change", (_, name) => { if (name === "ready") resolve(true); });
    changes.on("error", () => { resolve(false); });
    changes.on("close", () => { resolve(false); });
  });
  const args = ["serve", "--workspace", workspace, "--seed-root", "repo", "--ready-file", ready, "--exit-on-stdin-close", ...flags];
  const child = spawn(binary(), args, { stdio: ["pipe", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", (text) => { log = (log + String(text)).slice(-4000); });
  child.once("exit", () => { given.abort(); });
  const started = await appeared;
  changes.close();
  if (started) return child;
  throw new Error(`ctxfs serve did not start:\n${log}`);
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
}

async function recordOf(workspace: string): Promise<{ socket: string; http: string }> {
  const text = await readFile(join(workspace, ".contexts", ".ctxfs", "server.json"), "utf8");
  const record = JSON.parse(text) as { socket: string; http: string };
  return { socket: record.socket.replace(/^unix:\/\//, ""), http: record.http };
}

async function run(args: string[], env: Record<string, string>): Promise<string> {
  const child = spawn(binary(), args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  child.stdout.on("data", (text) => { out += String(text); });
  child.stderr.on("data", (text) => { err += String(text); });
  const [code] = (await once(child, "close")) as [number];
  if (code !== 0) throw new Error(`ctxfs ${args.join(" ")} failed: ${err}`);
  return out;
}

/** The ctxfs that the test run built. */
export function binary(): string {
  const path = process.env.CTXFS_BIN;
  if (!path) throw new Error("CTXFS_BIN is not set: run the tests by npm test");
  return path;
}
