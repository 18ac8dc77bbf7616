import { ConnectionError } from "../errors/connection.js";
import { requireKnown } from "../errors/options.js";
import { nameOf } from "../fs/bytes.js";
import { ExitReason as Reason, OnDisconnect, OutputStream, type Exit, type Output, type Process } from "../gen/ctxfs/v1/exec_pb.js";
import { Flow, type Caller } from "../session/operations.js";
import { linesOf } from "./lines.js";
import { OutputBuffer } from "./output.js";

/** Limits of a command. The server's defaults hold for those that are left out. */
export interface ExecLimits {
  /** How long the command may run, in ms: 10 minutes unless told, and without end for a terminal. */
  wallMs?: number | undefined;
  /** CPU time of each process, in ms. */
  cpuMs?: number | undefined;
  /** Processes and threads at once. */
  processes?: number | undefined;
  /** Open files of each process. */
  openFiles?: number | undefined;
  /** The size of a file that it writes, in bytes. */
  fileBytes?: number | undefined;
  /** Memory, with /tmp, in bytes. Only a server with a memory cgroup limits it. */
  memoryBytes?: number | undefined;
  /** Share of the CPUs, in percent of one. Only a server with a CPU cgroup limits it. */
  cpuPercent?: number | undefined;
  /** Output of both streams, in bytes. */
  outputBytes?: number | undefined;
  /** The size of /tmp, in bytes. */
  tmpBytes?: number | undefined;
}

/** A terminal. */
export interface TerminalOptions {
  /** Its width in characters; 80 unless told. */
  cols?: number | undefined;
  /** Its height in lines; 24 unless told. */
  rows?: number | undefined;
  /** The variable TERM; xterm-256color unless told. */
  term?: string | undefined;
}

/** Options of exec. */
export interface ExecOptions {
  /** The working directory, from the context's root. */
  cwd?: string | undefined;
  /** Variables besides PATH, HOME, USER, LANG and TMPDIR. */
  env?: Readonly<Record<string, string>> | undefined;
  /** All that standard input reads. Without it, standard input is what stdin writes if "stream" is given, else empty. */
  input?: string | Uint8Array | undefined;
  /** "stream" leaves standard input open for the process's stdin. */
  stdin?: "stream" | undefined;
  /** Gives the command a terminal: stdout has all output, and stdin types. */
  pty?: TerminalOptions | undefined;
  /** A name for people. No other process of the context that runs may have it. */
  name?: string | undefined;
  /** What to know about the process later. */
  labels?: Readonly<Record<string, string>> | undefined;
  /** The process outlives the connection. The client then follows it again; without this the server kills it. */
  keep?: boolean | undefined;
  /** What the command may use. */
  limits?: ExecLimits | undefined;
  /** The profile of the server, which has the network, variables, folders and limits; "offline" unless told. */
  profile?: string | undefined;
  /** The name of a sandbox to share with other commands of the context: its processes, /tmp and loopback. */
  sandbox?: string | undefined;
  /** Records what the command changes: exit has the journalId, for undo. */
  checkpoint?: boolean | undefined;
  /** Kills the process when it fires. */
  signal?: AbortSignal | undefined;
}

/** Why a process ended. */
export type ExitReason =
  "exited" | "timeout" | "killed" | "contextClosed" | "serverStopped" | "sandboxFailed" | "lost" | "cpu" | "memory" | "quota" | "output" | "unknown";

/** The end of a process. */
export interface ProcessExit {
  /** The exit code; 128 and the number of the signal that ended it; 126 and 127 if the program cannot be executed or was not found. */
  code: number;
  /** Why it ended. The code means something for "exited" only. */
  reason: ExitReason;
  /** What went wrong, for "sandboxFailed". */
  detail: string;
  /** The journal's entry of what the command changed, with checkpoint; there is none if it changed nothing. */
  journalId?: number;
  /** New directories that the ignore files exclude, and that the command changed: their content is not in the entry, and undo leaves them alone. */
  unrecorded?: string[];
}

/** What is known of a process. */
export interface ProcessInfo {
  /** Identifies the process, also after it ended. */
  id: string;
  /** Its name; "" if it has none. */
  name: string;
  /** The context in which it runs. */
  contextId: string;
  /** The program and its arguments. */
  argv: string[];
  /** The working directory, from the context's root. */
  cwd: string;
  /** When it was started, in ms since the epoch. */
  startedMs: number;
  /** Its labels. */
  labels: Record<string, string>;
  /** How it ended; undefined while it runs. */
  exit: ProcessExit | undefined;
}

/** The limits whose fields are 64 bits wide, and the others. */
const wideLimits = ["wallMs", "cpuMs", "fileBytes", "memoryBytes", "outputBytes", "tmpBytes"] as const;
const smallLimits = ["processes", "openFiles", "cpuPercent"] as const;
const optionNames = ["cwd", "env", "input", "stdin", "pty", "name", "labels", "keep", "limits", "profile", "sandbox", "checkpoint", "signal"] as const;

/** How much output may wait to be read, in bytes, before the server waits, and the process with it. */
const window = 1 << 20;
/** How often, and after how many ms, a process that is kept is followed again. */
const maxTries = 10, pause = 300;

const reasons: Readonly<Partial<Record<Reason, ExitReason>>> = {
  [Reason.EXITED]: "exited", [Reason.TIMEOUT]: "timeout", [Reason.KILLED]: "killed", [Reason.CONTEXT_CLOSED]: "contextClosed",
  [Reason.SERVER_STOPPED]: "serverStopped", [Reason.SANDBOX_FAILED]: "sandboxFailed",
  [Reason.LOST]: "lost", [Reason.CPU]: "cpu", [Reason.MEMORY]: "memory", [Reason.QUOTA]: "quota", [Reason.OUTPUT]: "output",
};

/** Converts the end of a process. */
export function exitOf({ code, reason, detail, journalId, unrecorded }: Exit): ProcessExit {
  return {
    code, reason: reasons[reason] ?? "unknown", detail,
    ...(journalId === 0n ? {} : { journalId: Number(journalId) }), ...(unrecorded.length === 0 ? {} : { unrecorded }),
  };
}

function limitsOf(limits: ExecLimits): object {
  const wide = wideLimits.map((name): [string, bigint] => [name, BigInt(limits[name] ?? 0)]);
  const small = smallLimits.map((name): [string, number] => [name, limits[name] ?? 0]);
  return Object.fromEntries<bigint | number>([...wide, ...small]);
}

function infoOf(p: Process): ProcessInfo {
  const { processId: id, name, contextId, labels, exit } = p;
  const argv = p.rawArgv.length === 0 ? p.argv : p.rawArgv.map((word) => nameOf("", word, "utf8") as string);
  return { id, name, contextId, argv, cwd: nameOf(p.cwd, p.rawCwd, "utf8") as string, startedMs: Number(p.startedNs / 1_000_000n), labels, exit: exit && exitOf(exit) };
}

interface Message { event: { case: "started" | "exited"; value: Process } | { case: "output"; value: Output } | { case: undefined } }

/** Options of attachProcess. */
export interface AttachOptions {
  /** The process waits for this reader as for that of exec. Without it, a slow reader misses output. */
  blocking?: boolean | undefined;
}

/** A process that exec or attachProcess follows. Its calls reject as those of files do, or with a CtxfsError (EXEC_UNAVAILABLE). */
export class RunningProcess {
  /** Writes to standard input, or types into the terminal. Closing it ends the input. */
  readonly stdin: WritableStream<string | Uint8Array>;
  /** Resolves when the process runs. */
  readonly started: Promise<ProcessInfo>;
  /** Resolves when it has ended, and its output has come: a program that has asked for stdout or stderr reads it. */
  readonly exit: Promise<ProcessExit>;
  readonly #caller: Caller;
  readonly #flow: Flow;
  readonly #outputs = [new OutputBuffer(), new OutputBuffer()] as const;
  #isStarted: (info: ProcessInfo) => void = () => undefined;

  /** Follows the events of a call with a flow. Programs get theirs from exec and attachProcess. */
  constructor(caller: Caller, flow: Flow, events: AsyncIterable<Message>, keep: boolean, id?: string) {
    this.#caller = caller;
    this.#flow = flow;
    let refused: (why: unknown) => void = () => undefined;
    this.started = new Promise((resolve, reject) => {
      this.#isStarted = resolve;
      refused = reject;
    });
    this.exit = this.#follow(events, keep);
    this.exit.then(() => { this.#end(); }, (why: unknown) => {
      refused(why);
      this.#end(why);
    });
    this.started.catch(() => undefined); // exit rejects too
    if (id !== undefined) this.#caller.call("getProcess", { processId: id }).then(({ process }) => { if (process) this.#isStarted(infoOf(process)); }, refused);
    this.stdin = new WritableStream({
      write: (chunk) => this.#write(chunk),
      close: async () => { await this.#caller.call("closeInput", { processId: await this.#id() }); },
    });
  }

  /**
   * Standard output, or all output of a terminal. From the first use of this property on it is a pipe: the process waits for its reader, and
   * nothing is dropped. Output that is not asked for is kept up to 16 MiB.
   */
  get stdout(): ReadableStream<Uint8Array> {
    return this.#outputs[0].stream;
  }

  /** Standard error, as stdout. */
  get stderr(): ReadableStream<Uint8Array> {
    return this.#outputs[1].stream;
  }

  /** How many bytes of output were dropped: by the server, or since they were not asked for. */
  get dropped(): number {
    return this.#outputs[0].dropped + this.#outputs[1].dropped;
  }

  /** The lines of stdout. */
  lines(): AsyncGenerator<string, void, undefined> {
    return linesOf(this.stdout);
  }

  /** Ends the process and everything that it started: SIGTERM, and after graceMs (5000 unless told) SIGKILL. Resolves when it has ended. */
  async kill(graceMs?: number): Promise<ProcessExit> {
    const { process } = await this.#caller.call("kill", { processId: await this.#id(), ...(graceMs === undefined ? {} : { graceMs: BigInt(graceMs) }) });
    return exitOf(process?.exit as Exit); // this.exit waits for a reader of the output
  }

  /** Sends a signal, by its Linux number: 2 is SIGINT. */
  async signal(number: number): Promise<void> {
    await this.#caller.call("sendSignal", { processId: await this.#id(), signal: number });
  }

  /** Changes the size of the terminal, in characters. */
  async resize(cols: number, rows: number): Promise<void> {
    await this.#caller.call("resize", { processId: await this.#id(), cols, rows });
  }

  async #id(): Promise<string> {
    return (await this.started).id;
  }

  async #write(chunk: string | Uint8Array): Promise<void> {
    const processId = await this.#id();
    const data = typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk;
    for (let at = 0; at < data.length; at += this.#caller.maxContent) {
      await this.#caller.call("sendInput", { processId, data: data.subarray(at, at + this.#caller.maxContent) });
    }
  }

  #end(why?: unknown): void {
    for (const output of this.#outputs) output.end(why);
  }

  /** Reads events until the exit. A process that is kept is followed again after the connection was lost. */
  async #follow(events: AsyncIterable<Message>, keep: boolean): Promise<ProcessExit> {
    let from = events;
    let known = "";
    for (let tries = 0; ; tries++) {
      try {
        for await (const message of from) {
          const { event } = message;
          tries = 0;
          if (event.case === "started") {
            known = event.value.processId;
            this.#isStarted(infoOf(event.value));
          } else if (event.case === "output") this.#add(event.value, () => { this.#flow.used(message); });
          else if (event.case === "exited") return exitOf(event.value.exit as Exit);
        }
        throw new ConnectionError("ECONNRESET", "the server ended the call without the exit of the process", true);
      } catch (why) {
        if (!keep || known === "" || !(why instanceof ConnectionError) || tries >= maxTries) throw why;
      }
      if (tries > 0) await new Promise((resolve) => { setTimeout(resolve, pause); });
      const [{ offset: stdoutOffset }, { offset: stderrOffset }] = this.#outputs;
      from = this.#caller.parts("followOutput", { processId: known, stdoutOffset, stderrOffset, follow: true, blocking: true }, { flow: this.#flow });
    }
  }

  #add({ stream, offset, dropped, data }: Output, used: () => void): void {
    this.#outputs[stream === OutputStream.STDERR ? 1 : 0].push(data, offset, dropped, used);
  }
}

/** Runs commands for one identity, in one context; "" is the caller's own. */
export class Commands {
  constructor(private readonly caller: Caller, private readonly contextId: string) {}

  /** Starts a command and follows it. */
  exec(argv: readonly string[], options: ExecOptions = {}): RunningProcess {
    requireKnown(options, optionNames);
    const { cwd = "", env = {}, input = "", stdin, pty, name = "", labels = {}, keep = false, limits = {}, signal } = options;
    const { profile = "", sandbox = "", checkpoint = false } = options;
    requireKnown(limits, [...wideLimits, ...smallLimits]);
    requireKnown(pty ?? {}, ["cols", "rows", "term"]);
    const command = {
      contextId: this.contextId, argv: [...argv], cwd, env: { ...env }, name, labels: { ...labels },
      stdin: typeof input === "string" ? new TextEncoder().encode(input) : input, openStdin: stdin === "stream",
      ...(pty ? { pty: { cols: pty.cols ?? 0, rows: pty.rows ?? 0, term: pty.term ?? "" } } : {}),
      limits: limitsOf(limits), profile, sandbox, checkpoint,
      onDisconnect: keep ? OnDisconnect.KEEP : OnDisconnect.KILL,
    };
    const flow = new Flow(window);
    const events = this.caller.parts("run", { command } as never, { signal, flow });
    const process = new RunningProcess(this.caller, flow, events, keep);
    if (keep) killOn(signal, process);
    return process;
  }

  /** Follows a process that was started before, from its beginning. */
  attach(id: string, options: AttachOptions = {}): RunningProcess {
    requireKnown(options, ["blocking"]);
    const flow = new Flow(window);
    const events = this.caller.parts("followOutput", { processId: id, follow: true, blocking: options.blocking ?? false }, { flow });
    return new RunningProcess(this.caller, flow, events, false, id);
  }

  /** Lists the processes. */
  async list(): Promise<ProcessInfo[]> {
    const list: ProcessInfo[] = [];
    let pageToken = "";
    do {
      const page = await this.caller.call("listProcesses", { pageToken });
      list.push(...page.processes.map(infoOf));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return list;
  }
}

/** Kills a process that outlives its call when a signal fires. */
function killOn(signal: AbortSignal | undefined, process: RunningProcess): void {
  signal?.addEventListener("abort", () => { process.kill().catch(() => undefined); }, { once: true }); // exit has the reason
}
