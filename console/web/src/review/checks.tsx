// Commands that must succeed on the result before it is applied.
import { useState } from "react";
import { bytesOf, stream } from "../api";
import type { ApplyCheckedRequest, ApplyResponse, Check, Exit } from "../gen/api";
import { announce, Button } from "../ui";

export interface CheckLine {
  line: string;
  optional: boolean;
}

/** One check that was started. */
export interface Run {
  line: string;
  output: string;
  state: "running" | "passed" | "failed";
  exit?: Exit;
}

const maxOutput = 200_000;
// eslint-disable-next-line no-control-regex -- escape sequences of terminals
const escapes = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\r(?!\n)/g;

/** Names the checks of a request. A shell reads each line. */
export function requestChecks(lines: readonly CheckLine[]): Check[] {
  return lines.filter((c) => c.line.trim() !== "").map((c) => ({ argv: ["sh", "-c", c.line], optional: c.optional }));
}

/** Runs the checks and applies, and shows what the checks print. */
export function useChecks() {
  const [runs, setRuns] = useState<readonly Run[]>([]);
  const run = async (request: ApplyCheckedRequest, signal: AbortSignal): Promise<ApplyResponse> => {
    setRuns([]);
    const decoder = new TextDecoder();
    const last = (change: (run: Run) => Run) => setRuns((was) => was.map((one, i) => (i === was.length - 1 ? change(one) : one)));
    for await (const event of stream("ReviewService/ApplyChecked", request, { signal })) {
      if (event.started) {
        const line = request.checks?.[event.started.check ?? 0]?.argv?.at(-1) ?? "";
        setRuns((was) => [...was, { line, output: "", state: "running" }]);
        announce(`Check started: ${line}`);
      }
      if (event.output?.data) {
        const text = decoder.decode(bytesOf(event.output.data), { stream: true }).replace(escapes, "");
        last((one) => ({ ...one, output: (one.output + text).slice(-maxOutput) }));
      }
      if (event.ended) {
        const { passed, exit } = event.ended;
        last((one) => ({ ...one, state: passed ? "passed" : "failed", exit }));
        announce(passed ? "The check passed" : "The check failed");
      }
      if (event.applied) return event.applied;
    }
    throw new Error("The server ended the checks without a result");
  };
  return { runs, run };
}

export function CheckFields({ checks, disabled, onChange }: { checks: readonly CheckLine[]; disabled: boolean; onChange: (checks: CheckLine[]) => void }) {
  const set = (at: number, some: Partial<CheckLine>) => onChange(checks.map((check, i) => (i === at ? { ...check, ...some } : check)));
  return (
    <fieldset className="rv-choice">
      <legend>Checks</legend>
      <p className="dim">{disabled ? "Checks look at files: they do not run for a commit to another branch." : "They run one after the other on the result, in a fork of the context. If one fails, nothing is applied."}</p>
      {checks.map((check, i) => (
        <div key={i} className="row">
          <input type="text" className="mono grow" aria-label={`Check ${i + 1}`} placeholder="npm test" spellCheck={false} value={check.line} onChange={(event) => set(i, { line: event.target.value })} />
          <label className="check nowrap"><input type="checkbox" checked={check.optional} onChange={(event) => set(i, { optional: event.target.checked })} />may fail</label>
          <Button small icon kind="quiet" aria-label={`Remove check ${i + 1}`} onClick={() => onChange(checks.filter((_, j) => j !== i))}>✕</Button>
        </div>
      ))}
      {checks.length < 16 && <div><Button small disabled={disabled} onClick={() => onChange([...checks, { line: "", optional: false }])}>Add a check</Button></div>}
    </fieldset>
  );
}

const words = { running: "… running", passed: "✓ passed", failed: "✕ failed" } as const;

export function CheckRuns({ runs }: { runs: readonly Run[] }) {
  return runs.map((run, i) => (
    <section key={i} className="rv-run" aria-label={`Check ${run.line}`}>
      <div className="row"><code className="grow">{run.line}</code><span className={`rv-run-${run.state}`}>{words[run.state]}{run.state === "failed" && run.exit ? ` (exit ${run.exit.code ?? 0})` : ""}</span></div>
      {run.output && <pre tabIndex={0} role="region" aria-label={`Output of ${run.line}`}>{run.output}</pre>}
    </section>
  ));
}
