import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { access, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { env } from "node:process";

/** The exit code of a server that finds its workspace served already. */
const servedAlready = 75;
/** How much of a server's log an error shows, in characters. */
const shownLog = 2000;

/** How to start a server. */
export interface SpawnOptions {
  workspace: string;
  /** The ctxfs program; else CTXFS_BIN, else ctxfs of PATH. */
  bin?: string | undefined;
  /** Further flags of ctxfs serve. */
  args?: readonly string[] | undefined;
}

/** Starts ctxfs serve and waits until it answers; undefined when another server serves the workspace. It ends with this process. */
export async function spawnServer({ workspace, bin, args = [] }: SpawnOptions): Promise<ChildProcess | undefined> {
  const dir = await mkdtemp(join(tmpdir(), "ctxfs-ready-"));
  const ready = join(dir, "ready");
  const program = bin ?? env.CTXFS_BIN ?? "ctxfs";
  try {
    const child = spawn(program, ["serve", "--workspace", workspace, "--ready-file", ready, "--exit-on-stdin-close", "--log-format", "text", ...args], {
      stdio: ["pipe", "ignore", "pipe"],
    });
    const state = await settled(child, dir, ready);
    if (state.ready) {
      detach(child);
      return child;
    }
    if (state.code === servedAlready) return undefined;
    throw new Error(`ctxfs serve did not start (${state.code === null ? "killed" : `exit code ${state.code}`}): ${state.log.trim()}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new Error(`${program} is not found: install ctxfs, or name it by the option bin or by CTXFS_BIN`, { cause: error });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

interface Settled { ready: boolean; code: number | null; log: string }

/** Waits until the ready file is there, or the process has ended. */
function settled(child: ChildProcess, dir: string, ready: string): Promise<Settled> {
  return new Promise((resolve, reject) => {
    let log = "";
    const onLog = (text: Buffer): void => { log = (log + String(text)).slice(-shownLog); };
    const watcher = watch(dir);
    const end = (state: Partial<Settled>): void => {
      watcher.close();
      child.removeAllListeners();
      child.stderr?.off("data", onLog).resume();
      resolve({ ready: false, code: null, log, ...state });
    };
    const look = (): void => { access(ready).then(() => { end({ ready: true }); }, () => undefined); };
    watcher.on("change", look);
    child.stderr?.on("data", onLog);
    child.once("error", (error) => { watcher.close(); reject(error); });
    child.once("exit", (code) => { end({ code }); });
    look();
  });
}

/** Lets this process end while the server runs: the server then ends too, with its standard input. */
function detach(child: ChildProcess): void {
  child.unref();
  for (const stream of [child.stdin, child.stderr]) (stream as unknown as { unref?: () => void } | null)?.unref?.();
}

/** Ends a server and waits for its end. */
export async function endServer(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.ref();
  child.kill("SIGTERM");
  await exit;
}
