// The terminal of a process, to type in.
import type { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState, type RefObject } from "react";
import { ApiError, base64Of, call, num } from "../api";
import type { Process } from "../gen/api";
import { announce, ErrorNote, size, toast } from "../ui";
import { inputQueue } from "./input";
import { followOutput } from "./output";
import { LinkState, ReaderMode, useReaderMode, useScreen, type Link } from "./screenparts";
import type { Screen } from "./screen";

/** How much earlier output is shown when the page comes back to a terminal. */
const earlier = 512 * 1024;
/** The key that leaves a terminal. Programs in terminals do not use it, and browsers neither. */
const leaveKey = "Ctrl+F6";

/** Shows the terminal of a process, and types into it while the process runs. */
export function TerminalView({ process, onExit }: { process: Process; onExit: () => void }) {
  const leave = useRef<HTMLButtonElement>(null);
  const { place, link, error, lostInput } = useTerminal(process, leave, onExit);
  return (
    <div className="output">
      <div className="bar">
        {link !== "ended" && <span>In the terminal, <kbd>{leaveKey}</kbd> moves the focus out of it.</span>}
        <ReaderMode ref={leave} />
        <LinkState link={link} />
      </div>
      {error !== undefined && <ErrorNote error={error} />}
      {lostInput !== undefined && <ErrorNote error={lostInput} />}
      <div className="screen interactive" ref={place} role="group" aria-label="Terminal" />
    </div>
  );
}

function useTerminal(process: Process, leave: RefObject<HTMLElement | null>, onExit: () => void) {
  const [link, setLink] = useState<Link>("live");
  const [error, setError] = useState<unknown>();
  const [lostInput, setLostInput] = useState<unknown>();
  const known = useRef({ process, onExit });
  useEffect(() => { known.current = { process, onExit }; });
  const processId = process.processId ?? "";
  const [reader] = useReaderMode();
  const place = useScreen({ cursorBlink: true, screenReaderMode: reader }, (screen, signal) => {
    const { terminal } = screen;
    const started = known.current.process;
    const session = connect(screen, started, setLostInput, signal);
    terminal.attachCustomKeyEventHandler((event) => keyIsTerminals(event, terminal, leave.current));
    terminal.options.disableStdin = started.exit !== undefined;
    if (!started.exit) terminal.focus();
    setError(undefined);
    followOutput(processId, { stdout: session.from, stderr: 0 }, {
      part: async ({ bytes, dropped }) => {
        if (dropped > 0) await screen.write(`\r\n[${size(dropped)} are not kept]\r\n`);
        await screen.write(bytes);
        session.read(bytes.length + dropped);
      },
      state: setLink,
      exited: () => {
        Object.assign(terminal.options, { disableStdin: true, cursorBlink: false });
        setLink("ended");
        if (!started.exit) announce("The command in the terminal has ended");
        known.current.onExit();
      },
    }, signal).catch((failed: unknown) => { if (!signal.aborted) setError(failed); });
  }, [processId]);
  return { place, link, error, lostInput };
}

/** Sends what is typed and the size of a terminal. */
function connect(screen: Screen, process: Process, failed: (error: unknown) => void, signal: AbortSignal) {
  const { terminal } = screen;
  const processId = process.processId ?? "";
  const written = num(process.stdoutBytes);
  const from = Math.max(0, written - earlier);
  let at = from;
  const report = (error: unknown): void => {
    if (!signal.aborted && !hasEnded(error)) failed(error);
  };
  const input = inputQueue(async (bytes) => {
    await call("ExecService/SendInput", { processId, data: base64Of(bytes) }, { signal });
    failed(undefined);
  }, report);
  // Earlier output may query the terminal, for its kind for instance. The program had its answers, and must not get them again.
  const live = (): boolean => at >= written;
  terminal.onData((text) => { if (live()) input.push(text); });
  terminal.onBinary((text) => { if (live()) input.pushBytes(Uint8Array.from(text, (character) => character.charCodeAt(0))); });
  if (!process.exit) resizing(screen, process, report, signal);
  return { from, read: (bytes: number) => { at += bytes; } };
}

/** Sends the process the size of its terminal: at most one request at a time, and always the last size. */
function resizing({ terminal }: Screen, { processId = "", pty }: Process, report: (error: unknown) => void, signal: AbortSignal): void {
  let known = `${String(pty?.cols ?? 0)}x${String(pty?.rows ?? 0)}`;
  let busy = false;
  const send = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    try {
      for (;;) {
        const { cols, rows } = terminal;
        const size = `${String(cols)}x${String(rows)}`;
        if (size === known) return;
        await call("ExecService/Resize", { processId, cols, rows }, { signal });
        known = size;
      }
    } catch (error) {
      report(error);
    } finally {
      busy = false;
    }
  };
  terminal.onResize(() => void send());
  void send();
}

/** Says whether a call failed because the process has ended, which its output says too. */
function hasEnded(error: unknown): boolean {
  return error instanceof ApiError && (error.reason === "EBADF" || error.reason === "EINVAL" || error.reason === "ENOENT");
}

/** Says whether a key goes to the terminal. The key that leaves it and the one that copies do not. */
function keyIsTerminals(event: KeyboardEvent, terminal: Terminal, leave: HTMLElement | null): boolean {
  const leaves = event.ctrlKey && event.key === "F6";
  const copies = event.ctrlKey && event.shiftKey && event.key === "C";
  if (!leaves && !copies) return true;
  event.preventDefault();
  if (event.type === "keydown" && leaves) leave?.focus();
  if (event.type === "keydown" && copies) copy(terminal.getSelection());
  return false;
}

function copy(text: string): void {
  if (text === "") return;
  navigator.clipboard.writeText(text).then(() => { announce("Copied"); }, (error: unknown) => { toast(`The browser did not copy: ${String(error)}`, "bad"); });
}
