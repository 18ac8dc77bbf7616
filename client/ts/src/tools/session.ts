import { Buffer } from "#platform";
import type { CtxFs } from "../create.js";
import type { ExecOptions, RunningProcess } from "../exec/process.js";
import { dirname, resolve } from "../fs/posix.js";
import { isMissing } from "../sandbox/errors.js";

/** What runs commands: a panel that was opened with exec, or its fs. */
export interface Runner {
  exec(argv: readonly string[], options?: ExecOptions): RunningProcess;
}

interface OnPath { path: string; abortSignal?: AbortSignal | undefined }
interface OnCommand { command: string; workingDirectory?: string | undefined; env?: Record<string, string> | undefined; abortSignal?: AbortSignal | undefined }

/** A process of a session. */
export interface SessionProcess {
  readonly stdout: ReadableStream<Uint8Array>;
  readonly stderr: ReadableStream<Uint8Array>;
  readonly stdin?: WritableStream<Uint8Array>;
  wait(): Promise<{ exitCode: number }>;
  kill(): Promise<void>;
}

type Kind = "file" | "directory" | "other";

/** The sandbox session of the AI SDK 7 (its Experimental_SandboxSession). Reads of what does not exist resolve to null. */
export interface SandboxSession {
  readonly description: string;
  readFile(options: OnPath): Promise<ReadableStream<Uint8Array> | null>;
  readBinaryFile(options: OnPath): Promise<Uint8Array | null>;
  readTextFile(options: OnPath & { encoding?: string | undefined; startLine?: number | undefined; endLine?: number | undefined }): Promise<string | null>;
  writeFile(options: OnPath & { content: ReadableStream<Uint8Array> }): Promise<void>;
  writeBinaryFile(options: OnPath & { content: Uint8Array }): Promise<void>;
  writeTextFile(options: OnPath & { content: string; encoding?: string | undefined }): Promise<void>;
  stat(options: OnPath): Promise<{ type: Kind; size: number } | null>;
  listDirectory(options: OnPath): Promise<{ name: string; type: Kind | "symlink" }[] | null>;
  deleteFile(options: OnPath): Promise<boolean>;
  spawn(options: OnCommand & { stdin: true }): Promise<SessionProcess & { readonly stdin: WritableStream<Uint8Array> }>;
  spawn(options: OnCommand & { stdin?: boolean | undefined }): Promise<SessionProcess>;
  run(options: OnCommand): Promise<{ exitCode: number; stdout: string; stderr: string }>;
}

/** Where commands see the root of the context. */
const mount = "/context";

/** Returns the path of the fs for one that a model gave: commands see the files below /context. */
function onFs(path: string): string {
  const whole = resolve("/", path);
  return whole === mount || whole.startsWith(`${mount}/`) ? whole.slice(mount.length) || "/" : whole;
}

/**
 * Makes a sandbox session of an fs for the AI SDK 7: generateText({ experimental_sandbox: createSandboxSession(fs, panel) }). Without a runner, run and
 * spawn reject.
 */
export function createSandboxSession(fs: CtxFs, runner?: Runner): SandboxSession {
  const read = async ({ path, abortSignal }: OnPath): Promise<Uint8Array | null> => orNull(() => fs.readFile(onFs(path), { signal: abortSignal }));
  const write = async ({ path, abortSignal }: OnPath, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> => {
    abortSignal?.throwIfAborted();
    await fs.mkdir(dirname(onFs(path)), { recursive: true });
    await fs.writeFile(onFs(path), content, { signal: abortSignal });
  };
  const start = ({ command, workingDirectory = "/", env, abortSignal }: OnCommand, stdin: boolean): RunningProcess => {
    if (!runner) throw new TypeError("this session runs no commands: give createSandboxSession a panel that was opened with exec");
    abortSignal?.throwIfAborted();
    return runner.exec(["sh", "-c", command], { cwd: onFs(workingDirectory), env, signal: abortSignal, ...(stdin ? { stdin: "stream" as const } : {}) });
  };
  return {
    description: runner
      ? `Files of a ctxfs context. Relative paths begin at its root, which commands see as ${mount}: /a.txt of the file operations is ${mount}/a.txt of commands. Commands see nothing else of the machine.`
      : "Files of a ctxfs context. Relative paths begin at its root. No commands can be run.",
    readFile: async ({ path, abortSignal }) => orNull(async () => {
      const handle = await fs.open(onFs(path), "r");
      abortSignal?.addEventListener("abort", () => { handle.close().catch(() => undefined); }, { once: true }); // reading then fails
      return handle.readableWebStream({ autoClose: true } as never) as ReadableStream<Uint8Array>;
    }),
    readBinaryFile: read,
    readTextFile: async (options) => {
      const { encoding = "utf-8", startLine = 1, endLine = Infinity } = options;
      const bytes = await read(options);
      if (!bytes) return null;
      const text = new TextDecoder(encoding).decode(bytes);
      return startLine === 1 && endLine === Infinity ? text : text.split(/(?<=\n)/).slice(startLine - 1, endLine).join("");
    },
    writeFile: (options) => write(options, piecesOf(options.content)),
    writeBinaryFile: (options) => write(options, options.content),
    writeTextFile: async (options) => {
      const { content, encoding = "utf-8" } = options;
      if (!Buffer.isEncoding(encoding)) throw new TypeError(`unknown encoding ${JSON.stringify(encoding)}`);
      await write(options, Buffer.from(content, encoding));
    },
    stat: ({ path, abortSignal }) => orNull(async () => {
      abortSignal?.throwIfAborted();
      const stat = await fs.stat(onFs(path));
      return { type: kindOf(stat), size: stat.size };
    }),
    listDirectory: ({ path, abortSignal }) => orNull(async () => {
      abortSignal?.throwIfAborted();
      const entries = await fs.readdir(onFs(path), { withFileTypes: true });
      return entries.map((entry) => ({ name: entry.name, type: entry.isSymbolicLink() ? "symlink" as const : kindOf(entry) }));
    }, "ENOENT"),
    deleteFile: async ({ path, abortSignal }) => await orNull(async () => {
      abortSignal?.throwIfAborted();
      await fs.unlink(onFs(path));
      return true;
    }) ?? false,
    spawn: ((options: OnCommand & { stdin?: boolean | undefined }) => spawned(start, options)) as SandboxSession["spawn"],
    run: async (options) => {
      const process = start(options, false);
      const [stdout, stderr, exitCode] = await Promise.all([textOf(process.stdout), textOf(process.stderr), codeOf(process, options.abortSignal)]).catch((error: unknown) => {
        options.abortSignal?.throwIfAborted();
        throw error;
      });
      return { exitCode, stdout, stderr };
    },
  };
}

async function spawned(start: (options: OnCommand, stdin: boolean) => RunningProcess, options: OnCommand & { stdin?: boolean | undefined }): Promise<SessionProcess> {
  const process = start(options, options.stdin === true);
  await process.started;
  const exit = codeOf(process, options.abortSignal);
  exit.catch(() => undefined); // wait says it
  let ended = false;
  exit.then(() => { ended = true; }, () => { ended = true; });
  return {
    get stdout() { return process.stdout; }, // a stream that is asked for must be read
    get stderr() { return process.stderr; },
    ...(options.stdin ? { stdin: process.stdin } : {}),
    wait: async () => ({ exitCode: await exit }),
    kill: async () => {
      await process.kill().catch((error: unknown) => { if (!ended) throw error; });
    },
  };
}

/** Returns the exit code. Rejects with the signal's reason once that fired, and with what ended a command that did not exit by itself. */
async function codeOf(process: RunningProcess, signal: AbortSignal | undefined): Promise<number> {
  try {
    const { code, reason, detail } = await process.exit;
    signal?.throwIfAborted();
    if (reason === "sandboxFailed" || reason === "serverStopped") throw new Error(`the command was not run to its end (${reason}): ${detail}`);
    return reason === "exited" || code !== 0 ? code : reason === "timeout" ? 124 : 137; // as shells say it
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/** The sandbox of the package bash-tool: createBashTool({ sandbox: createBashSandbox(fs, panel) }). */
export interface BashSandbox {
  executeCommand(command: string): Promise<{ stdout: string; stderr: string; exitCode: number }>;
  readFile(path: string): Promise<string>;
  writeFiles(files: { path: string; content: string | Uint8Array }[]): Promise<void>;
}

/** Makes a sandbox of bash-tool's. Without a runner, executeCommand rejects. */
export function createBashSandbox(fs: CtxFs, runner?: Runner): BashSandbox {
  const session = createSandboxSession(fs, runner);
  return {
    executeCommand: (command) => session.run({ command }),
    readFile: (path) => fs.readFile(onFs(path), "utf8"),
    writeFiles: async (files) => {
      for (const { path, content } of files) await session.writeBinaryFile({ path, content: typeof content === "string" ? Buffer.from(content) : content });
    },
  };
}

/** Runs a task. Null when nothing is at the path. */
async function orNull<T>(task: () => Promise<T>, ...codes: string[]): Promise<T | null> {
  try {
    return await task();
  } catch (error) {
    if (codes.length === 0 ? isMissing(error) : codes.includes((error as { code: string }).code)) return null;
    throw error;
  }
}

function kindOf(of: { isFile(): boolean; isDirectory(): boolean }): Kind {
  return of.isFile() ? "file" : of.isDirectory() ? "directory" : "other";
}

async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = stream.getReader();
  try {
    for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
  } finally {
    reader.releaseLock();
  }
}

function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(stream).text();
}
