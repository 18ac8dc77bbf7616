import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { getuid } from "node:process";
import { promisify } from "node:util";

const runFile = promisify(execFile);

/** Files by their path. */
export type Files = Readonly<Record<string, string>>;

/** A server that a test started, on a workspace of real git repositories. */
export interface TestServer {
  readonly workspace: string;
  /** The URL of --http. */
  readonly url: string;
  /** The folder of a context on the disk. */
  folder(contextId: string): string;
  /** Runs git in a repository of the workspace, and returns what it prints, without the last line's end. */
  git(repository: string, ...args: string[]): Promise<string>;
  /** Runs the command line against the server, and returns what it prints. */
  ctxfs(...args: string[]): Promise<string>;
  /** Calls a method as the host. */
  call<T = Record<string, unknown>>(method: string, request?: object): Promise<T>;
  /** Calls a method as the host, and gives all messages of its stream. */
  collect<T>(method: string, request: object): Promise<T[]>;
  /** Opens a panel, which seeds its context, and returns its token and context. */
  openPanel(id: string, ...flags: string[]): Promise<Panel>;
  /** Makes a link to the console. It works once. */
  consoleLink(): Promise<string>;
  /** Stops the server. It returns what starts it again at the same address. */
  leave(): Promise<() => Promise<void>>;
  stop(): Promise<void>;
}

/** A panel's token, and its context. */
export interface Panel {
  readonly token: string;
  readonly contextId: string;
}

/** What a server is started with. */
export interface Settings {
  /** The repositories of the workspace, each with its files. */
  readonly repositories: Readonly<Record<string, Files>>;
  /** More flags of ctxfs serve. */
  readonly flags?: readonly string[];
  /** Starts the server without --gateway. */
  readonly noSites?: boolean;
}

/** Starts ctxfs serve with a page, sites, an audit log, and commands where this machine can isolate them. */
export async function startServer(settings: Settings): Promise<TestServer> {
  const workspace = await mkdtemp(join(tmpdir(), "ctxfs-console-"));
  await chmod(workspace, 0o755); // the user of commands passes through it
  for (const [name, files] of Object.entries(settings.repositories)) await makeRepository(join(workspace, name), files);
  const flags = ["--audit-log", join(workspace, "audit.log"), ...(settings.flags ?? [])];
  if (!settings.noSites) flags.push("--gateway", "127.0.0.1:0");
  if (getuid?.() === 0) flags.push("--exec-user", "4321:4321");
  let child = await serve(workspace, ["--http", "127.0.0.1:0", ...flags]);
  const record = JSON.parse(await readFile(join(workspace, ".contexts/.ctxfs/server.json"), "utf8")) as { socket: string; http: string; token_file: string };
  const hostToken = (await readFile(record.token_file, "utf8")).trim();
  const url = `http://${record.http}`;
  const ctxfs = (...args: string[]): Promise<string> => run(binary(), args, workspace, { CTXFS_ADDRESS: `unix://${record.socket.replace(/^unix:\/\//, "")}` });
  return {
    workspace, url, ctxfs,
    folder: (contextId) => join(workspace, ".contexts", contextId),
    git: async (repository, ...args) => (await run("git", args, join(workspace, repository), {})).trimEnd(),
    call: (method, request) => callWith(url, hostToken, method, request),
    collect: (method, request) => collectWith(url, hostToken, method, request),
    openPanel: async (id, ...more) => JSON.parse(await ctxfs("panel", "open", "--json", ...more, id)) as Panel,
    consoleLink: async () => (await ctxfs("console", "--print")).trim(),
    leave: async () => {
      await end(child);
      return async () => { child = await serve(workspace, ["--http", record.http, ...flags]); };
    },
    stop: async () => {
      await end(child);
      await rm(workspace, { recursive: true, force: true });
    },
  };
}

/** Calls a method with a token, and fails with the server's error. */
async function callWith<T>(url: string, token: string, method: string, request: object = {}): Promise<T> {
  const [answer] = await collectWith<T>(url, token, method, request);
  return answer as T;
}

/** Calls a method with a token, and gives all messages that it answers with. */
export async function collectWith<T>(url: string, token: string, method: string, request: object): Promise<T[]> {
  const response = await fetch(`${url}/v1/${method}`, {
    method: "POST", body: JSON.stringify(request),
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} failed: ${response.status} ${text}`);
  return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as T);
}

const author = ["-c", "user.name=Robin", "-c", "user.email=robin@example.com", "-c", "commit.gpgsign=false"];

async function makeRepository(dir: string, files: Files): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true });
    await writeFile(join(dir, path), text);
  }
  await run("git", ["init", "-q", "-b", "main", "."], dir, {});
  await run("git", ["config", "user.name", "Robin"], dir, {});
  await run("git", ["config", "user.email", "robin@example.com"], dir, {});
  await run("git", ["add", "."], dir, {});
  await run("git", [...author, "commit", "-q", "-m", "Begin"], dir, {});
}

async function serve(workspace: string, flags: string[]): Promise<ChildProcess> {
  const ready = join(workspace, "ready");
  const given = new AbortController();
  // It watches at once: the one of fs/promises begins when it is first asked, and misses a file that is there by then.
  const changes = watch(workspace, { signal: AbortSignal.any([given.signal, AbortSignal.timeout(60_000)]) });
  const appeared = new Promise<boolean>((resolve) => {
    changes.on("change", (_, name) => { if (name === "ready") resolve(true); });
    changes.on("error", () => { resolve(false); });
    changes.on("close", () => { resolve(false); });
  });
  const args = ["serve", "--workspace", workspace, "--ready-file", ready, "--exit-on-stdin-close", ...flags];
  const child = spawn(binary(), args, { stdio: ["pipe", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", (text) => { log = (log + String(text)).slice(-4000); });
  child.once("exit", () => { given.abort(); });
  const started = await appeared;
  changes.close();
  if (started) return child;
  throw new Error(`ctxfs serve did not start:\n${log}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  await exit;
}

async function run(program: string, args: readonly string[], cwd: string, env: Record<string, string>): Promise<string> {
  const { stdout } = await runFile(program, args, { cwd, env: { ...process.env, ...env }, maxBuffer: 64 << 20 });
  return stdout;
}

function binary(): string {
  const path = process.env.CTXFS_BIN;
  if (!path) throw new Error("CTXFS_BIN is not set: run the tests by npm test");
  return path;
}
