// One process: what it is, its output or its terminal, and what ends it.
import { useState, type ReactNode } from "react";
import { ApiError, call, num } from "../api";
import { rawName, shownName } from "../files/names";
import type { Process } from "../gen/api";
import { go, href } from "../router";
import { Button, Confirm, count, ErrorNote, size, Spinner, time, toast, useAsync, useNow, useTitle } from "../ui";
import { OutputView } from "./outputview";
import { commandText, duration, limitText, ranMs, signals } from "./process";
import { StateBadge } from "./processes";
import { TerminalView } from "./terminal";

interface Props {
  processId: string;
  /** The route of the list. */
  route: string[];
  withContext: boolean;
}

export function ProcessDetail({ processId, route, withContext }: Props) {
  const { data: process, error, reload } = useAsync(async (signal) => (await call("ExecService/GetProcess", { processId }, { signal })).process, [processId], { every: 5000 });
  useTitle(process ? commandText(process) : "Process");
  return (
    <div className="page process">
      <a href={href(...route)}>← All processes</a>
      {error !== undefined && <ProcessError error={error} retry={reload} />}
      {!process && error === undefined && <Spinner label="Reading the process" />}
      {process && <Shown process={process} route={route} withContext={withContext} reload={reload} />}
    </div>
  );
}

function ProcessError({ error, retry }: { error: unknown; retry: () => void }) {
  if (error instanceof ApiError && error.reason === "ENOENT") return <ErrorNote error={new ApiError("There is no such process", error.status, error.reason, "The server forgets ended processes after an hour")} />;
  return <ErrorNote error={error} retry={retry} />;
}

function Shown({ process, route, withContext, reload }: { process: Process; route: string[]; withContext: boolean; reload: () => void }) {
  const now = useNow(1000);
  return (
    <>
      <div className="bar">
        <h2 className="mono grow process-title">{commandText(process)}</h2>
        <Actions process={process} route={route} reload={reload} />
      </div>
      <div className="bar dim">
        <StateBadge process={process} />
        {withContext && <a href={href("contexts", process.contextId ?? "", "processes")}>{process.contextId}</a>}
        <span>{process.exit ? "ran" : "for"} {duration(ranMs(process, now))}</span>
        <span>{process.processId}</span>
      </div>
      {process.exit?.detail && <p>{process.exit.detail}</p>}
      {process.pty ? <TerminalView process={process} onExit={reload} /> : <OutputView process={process} onExit={reload} />}
      <Facts process={process} />
    </>
  );
}

type Asked = "kill" | "remove" | undefined;

function Actions({ process, route, reload }: { process: Process; route: string[]; reload: () => void }) {
  const [asked, setAsked] = useState<Asked>();
  const { processId } = process;
  const close = (): void => { setAsked(undefined); };
  const kill = async (): Promise<void> => {
    await call("ExecService/Kill", { processId });
    toast("The process has ended", "good");
    reload();
  };
  const remove = async (): Promise<void> => {
    await call("ExecService/RemoveProcess", { processId });
    toast("The process and its output were removed", "good");
    go(route);
  };
  if (process.exit) {
    return (
      <>
        <Button onClick={() => { setAsked("remove"); }}>Remove…</Button>
        {asked === "remove" && (
          <Confirm title="Remove the process" action="Remove" danger onConfirm={remove} onClose={close}>
            <p>The server forgets the process and deletes its output. What it changed in the context stays.</p>
          </Confirm>
        )}
      </>
    );
  }
  return (
    <>
      <SignalForm processId={processId ?? ""} />
      <Button kind="danger" onClick={() => { setAsked("kill"); }}>Kill…</Button>
      {asked === "kill" && (
        <Confirm title="Kill the process" action="Kill" danger onConfirm={kill} onClose={close}>
          <p className="mono">{commandText(process)}</p>
          <p>The server sends SIGTERM, and after 5 seconds kills the command and everything that it started.</p>
        </Confirm>
      )}
    </>
  );
}

function SignalForm({ processId }: { processId: string }) {
  const [signal, setSignal] = useState(2);
  const [asked, setAsked] = useState(false);
  const chosen = signals.find(({ number }) => number === signal);
  const send = async (): Promise<void> => {
    await call("ExecService/SendSignal", { processId, signal });
    toast(`Sent ${chosen?.name ?? String(signal)}`, "good");
  };
  return (
    <span className="row">
      <select aria-label="Signal" value={signal} onChange={(event) => { setSignal(Number(event.target.value)); }}>
        {signals.map(({ number, name, meaning }) => <option key={number} value={number} title={meaning}>{name}</option>)}
      </select>
      <Button onClick={() => { setAsked(true); }}>Send…</Button>
      {asked && (
        <Confirm title={`Send ${chosen?.name ?? ""}`} action="Send" onConfirm={send} onClose={() => { setAsked(false); }}>
          <p>The command and its process group get the signal: {chosen?.meaning}.</p>
        </Confirm>
      )}
    </span>
  );
}

function Facts({ process }: { process: Process }) {
  const { exit, limits = [], refusals = [], labels = {} } = process;
  const facts: [string, ReactNode][] = [
    ["Directory", `/${(process.rawCwd ? shownName(rawName(process.rawCwd)) : (process.cwd ?? "")).replace(/^\/+/, "")}`],
    ["Started", time(process.startedNs)],
    ["Ended", time(exit?.endedNs)],
    ["Profile", process.profile],
    ["Sandbox", process.sandbox],
    ["CPU time", num(exit?.cpuMs) > 0 ? duration(num(exit?.cpuMs)) : ""],
    ["Most memory", num(exit?.peakMemoryBytes) > 0 ? size(exit?.peakMemoryBytes) : ""],
    ["Output", process.pty ? size(process.stdoutBytes) : `${size(process.stdoutBytes)}, and ${size(process.stderrBytes)} of errors`],
    ["Labels", Object.entries(labels).map(([key, value]) => `${key}=${value}`).join(" ")],
    ["Changes", num(exit?.journalId) > 0 ? <a href={href("contexts", process.contextId ?? "", "journal")}>entry {exit?.journalId} of the journal</a> : exit?.checkpointError],
  ];
  return (
    <details className="facts">
      <summary>Details and limits</summary>
      <dl>{facts.filter(([, value]) => value !== undefined && value !== "").map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {refusals.length > 0 && (
        <>
          <h3>Refused connections</h3>
          <ul>{refusals.map(({ name, port, reason, count: times }) => <li key={`${name ?? ""}:${String(port)}`}>{name} port {port}: {reason} ({count(times, "time")})</li>)}</ul>
        </>
      )}
      {limits.length > 0 && (
        <table className="table">
          <caption className="visually-hidden">Limits</caption>
          <thead><tr><th scope="col">Limit</th><th scope="col">Value</th><th scope="col">Enforced by</th></tr></thead>
          <tbody>{limits.map(limitText).map(([name, value, by]) => <tr key={name}><th scope="row">{name}</th><td>{value}</td><td>{by}</td></tr>)}</tbody>
        </table>
      )}
    </details>
  );
}
