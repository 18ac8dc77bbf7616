// What a process is, in words.
import { num } from "../api";
import { rawName, shownName } from "../files/names";
import type { EnforcedLimit, Process } from "../gen/api";
import { size, type Tone } from "../ui";

/** The state of a process. */
export interface State {
  text: string;
  tone: Tone;
}

const reasons: Readonly<Record<string, string>> = {
  EXIT_REASON_TIMEOUT: "exceeded its time limit",
  EXIT_REASON_KILLED: "killed",
  EXIT_REASON_CONTEXT_CLOSED: "the context was restored or deleted",
  EXIT_REASON_SERVER_STOPPED: "the server stopped",
  EXIT_REASON_SANDBOX_FAILED: "the sandbox failed",
  EXIT_REASON_LOST: "lost with its runner",
  EXIT_REASON_CPU: "exceeded its CPU time",
  EXIT_REASON_MEMORY: "exceeded its memory",
  EXIT_REASON_QUOTA: "the context exceeded its quota",
  EXIT_REASON_OUTPUT: "wrote more than its limit",
};

/** The state of a process, in a few words. */
export function stateOf({ exit }: Process): State {
  if (!exit) return { text: "running", tone: "info" };
  const reason = reasons[exit.reason ?? ""];
  if (reason) return { text: reason, tone: exit.reason === "EXIT_REASON_KILLED" ? "plain" : "bad" };
  const code = exit.code ?? 0;
  const name = code > 128 ? signalName(code - 128) : undefined;
  if (name) return { text: `ended by ${name}`, tone: "bad" };
  return { text: `exited with ${String(code)}`, tone: code === 0 ? "good" : "bad" };
}

/** The signals that the console sends. */
export const signals: readonly { number: number; name: string; meaning: string }[] = [
  { number: 2, name: "SIGINT", meaning: "interrupt, as Ctrl-C does" },
  { number: 15, name: "SIGTERM", meaning: "ask it to end" },
  { number: 1, name: "SIGHUP", meaning: "hang up; many servers read their settings again" },
  { number: 10, name: "SIGUSR1", meaning: "for the program's own use" },
  { number: 12, name: "SIGUSR2", meaning: "for the program's own use" },
  { number: 3, name: "SIGQUIT", meaning: "quit, often with a report" },
  { number: 19, name: "SIGSTOP", meaning: "stop it" },
  { number: 18, name: "SIGCONT", meaning: "continue it" },
];

const otherSignals: Readonly<Record<number, string>> = { 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM" };

function signalName(number: number): string | undefined {
  return signals.find((signal) => signal.number === number)?.name ?? otherSignals[number];
}

/** What ctxfs shell and the console start as a shell: bash, or sh where there is none. */
export const shell = ["sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"];

/** The command as a person types it in a shell. */
export function commandText({ argv: text = [], rawArgv = [] }: Process): string {
  const argv = rawArgv.length > 0 ? rawArgv.map((word) => shownName(rawName(word))) : text;
  if (argv.join("\0") === shell.join("\0")) return "shell";
  return argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}

/** How long a process ran, or has run, in ms. */
export function ranMs({ startedNs, exit }: Process, nowMs: number): number {
  return Math.max(0, (exit?.endedNs ? num(exit.endedNs) / 1e6 : nowMs) - num(startedNs) / 1e6);
}

/** A duration, in its two largest units. */
export function duration(ms: number): string {
  if (ms < 1000) return `${String(Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const units: [number, string][] = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]];
  const first = units.findIndex(([length]) => ms >= length);
  const [large, small] = [units[first], units[first + 1]];
  if (!large) return "";
  const rest = small ? Math.floor((ms % large[0]) / small[0]) : 0;
  return `${String(Math.floor(ms / large[0]))} ${large[1]}${rest > 0 && small ? ` ${String(rest)} ${small[1]}` : ""}`;
}

const limitNames: Readonly<Record<string, string>> = {
  wall_ms: "time", cpu_ms: "CPU time", processes: "processes", open_files: "open files", file_bytes: "size of a file", memory_bytes: "memory",
  cpu_percent: "CPU", output_bytes: "output", tmp_bytes: "size of /tmp", network_bytes: "network traffic",
};

/** A limit of a process: its name, its value, and what enforces it. */
export function limitText({ name = "", value, enforcedBy }: EnforcedLimit): [name: string, value: string, enforcedBy: string] {
  const amount = num(value);
  const text = name.endsWith("_ms") ? duration(amount) : name.endsWith("_bytes") ? size(amount) : name.endsWith("_percent") ? `${String(amount)} % of a core` : amount.toLocaleString("en");
  return [limitNames[name] ?? name, amount === 0 ? "none" : text, enforcedBy || "nothing on this machine"];
}
