// The output of a process, as it comes. A terminal shows it, so that escape sequences are colours and never markup.
import { useEffect, useRef, useState } from "react";
import { joined, num } from "../api";
import type { Process } from "../gen/api";
import { ErrorNote, size } from "../ui";
import { followOutput, type Offsets, type Part } from "./output";
import { LinkState, ReaderMode, useReaderMode, useScreen, type Link } from "./screenparts";

/** How much of a long output is read: its end. */
const tail = 2 << 20;

type Shown = "both" | "stdout" | "stderr";

/** Shows the output of a process without a terminal of its own. */
export function OutputView({ process, onExit }: { process: Process; onExit: () => void }) {
  const [shown, setShown] = useState<Shown>("both");
  const [from, setFrom] = useState<"end" | "start">("end");
  const { place, link, error } = useOutput(process, shown, from, onExit);
  const skipped = num(process.stdoutBytes) > tail || num(process.stderrBytes) > tail;
  return (
    <div className="output">
      <div className="bar">
        <label className="row">
          Show
          <select value={shown} onChange={(event) => { setShown(event.target.value as Shown); }}>
            <option value="both">both streams</option>
            <option value="stdout">standard output ({size(process.stdoutBytes)})</option>
            <option value="stderr">standard error ({size(process.stderrBytes)})</option>
          </select>
        </label>
        {skipped && (
          <label className="row">
            From
            <select value={from} onChange={(event) => { setFrom(event.target.value as typeof from); }}>
              <option value="end">the last {size(tail)}</option>
              <option value="start">the start</option>
            </select>
          </label>
        )}
        <ReaderMode />
        <LinkState link={link} />
      </div>
      {error !== undefined && <ErrorNote error={error} />}
      <div className="screen" ref={place} role="region" aria-label="Output" />
    </div>
  );
}

function useOutput(process: Process, shown: Shown, from: "end" | "start", onExit: () => void) {
  const [link, setLink] = useState<Link>("live");
  const [error, setError] = useState<unknown>();
  const known = useRef({ process, onExit });
  useEffect(() => { known.current = { process, onExit }; });
  const [reader] = useReaderMode();
  const processId = process.processId ?? "";
  const place = useScreen({ disableStdin: true, convertEol: true, cursorStyle: "bar", cursorInactiveStyle: "none", screenReaderMode: reader }, (screen, signal) => {
    const { stdoutBytes, stderrBytes } = known.current.process;
    setError(undefined);
    followOutput(processId, startOf({ stdout: num(stdoutBytes), stderr: num(stderrBytes) }, shown, from), {
      part: (part) => (shown === "both" || shown === part.stream ? screen.write(shownPart(part, shown)) : Promise.resolve()),
      state: setLink,
      exited: () => {
        setLink("ended");
        known.current.onExit();
      },
    }, signal).catch((failed: unknown) => { if (!signal.aborted) setError(failed); });
  }, [processId, shown, from]);
  return { place, link, error };
}

function startOf(written: Offsets, shown: Shown, from: "end" | "start"): Offsets {
  const at = (name: keyof Offsets): number => {
    if (shown !== "both" && shown !== name) return written[name];
    return from === "end" ? Math.max(0, written[name] - tail) : 0;
  };
  return { stdout: at("stdout"), stderr: at("stderr") };
}

const red = "\x1b[31m";
const plain = "\x1b[0m";

/** A part as it is written to the terminal: standard error in red, if both streams are shown. */
function shownPart({ stream, bytes, dropped }: Part, shown: Shown): Uint8Array {
  const before = dropped > 0 ? `${plain}\r\n[${size(dropped)} are not kept]\r\n` : "";
  const [head, foot] = stream === "stdout" || shown !== "both" ? [before, ""] : [before + red, plain];
  const encoder = new TextEncoder();
  return joined([encoder.encode(head), bytes, encoder.encode(foot)]);
}
