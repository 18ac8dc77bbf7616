// The processes of a context, or of all contexts: a list, and the process that the route names.
import { useState } from "react";
import { call } from "../api";
import type { ListProcessesRequest, Process } from "../gen/api";
import { go, href } from "../router";
import { ago, Badge, Button, Empty, ErrorNote, Spinner, Table, useAsync, useNow, useTitle, type Column } from "../ui";
import { commandText, duration, ranMs, stateOf } from "./process";
import { ProcessDetail } from "./processdetail";
import { StartDialog, startShell } from "./start";
import "./run.css";

interface ListProps {
  /** The context; undefined for all contexts. */
  contextId?: string;
  /** The route of the list, which is followed by a process's ID. */
  route: string[];
}

/** Shows the list, or the process that the rest of the route names. */
export function Processes({ contextId, route, rest }: ListProps & { rest: string[] }) {
  const [processId] = rest;
  if (processId === undefined) return <ProcessList contextId={contextId} route={route} />;
  return <ProcessDetail key={processId} processId={processId} route={route} withContext={contextId === undefined} />;
}

/** Returns the processes of all pages. */
async function listed(request: ListProcessesRequest, signal: AbortSignal): Promise<Process[]> {
  const list: Process[] = [];
  let pageToken: string | undefined;
  do {
    const page = await call("ExecService/ListProcesses", { ...request, pageToken }, { signal });
    list.push(...page.processes ?? []);
    pageToken = page.nextPageToken;
  } while (pageToken !== undefined && pageToken !== "");
  return list;
}

function ProcessList({ contextId, route }: ListProps) {
  useTitle(contextId === undefined ? "Processes" : `Processes of ${contextId}`);
  const now = useNow(1000);
  const [running, setRunning] = useState(false);
  const { data, error, reload } = useAsync(
    (signal) => listed({ contextId, running }, signal),
    [contextId, running], { every: 2000 },
  );
  return (
    <div className="page">
      <div className="bar">
        <h2 className="grow">Processes</h2>
        <label className="check"><input type="checkbox" checked={running} onChange={(event) => { setRunning(event.target.checked); }} />Only running ones</label>
        {contextId !== undefined && <StartButtons contextId={contextId} route={route} />}
      </div>
      {error !== undefined && <ErrorNote error={error} retry={reload} />}
      {!data && error === undefined && <Spinner label="Reading the processes" />}
      {data?.length === 0 && <NoProcesses running={running} all={contextId === undefined} />}
      {data && data.length > 0 && <Table caption="Processes" columns={columnsOf(route, now, contextId === undefined)} rows={data} keyOf={({ processId }) => processId ?? ""} />}
    </div>
  );
}

function StartButtons({ contextId, route }: { contextId: string; route: string[] }) {
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const show = (process: Process | undefined): void => { go([...route, process?.processId ?? ""]); };
  const open = (): void => {
    setBusy(true);
    setError(undefined);
    startShell(contextId).then(show, (failed: unknown) => {
      setError(failed);
      setBusy(false);
    });
  };
  return (
    <>
      <Button onClick={() => { setAsking(true); }}>Run a command…</Button>
      <Button kind="primary" disabled={busy} onClick={open}>New terminal</Button>
      {error !== undefined && <ErrorNote error={error} />}
      {asking && <StartDialog contextId={contextId} onStarted={show} onClose={() => { setAsking(false); }} />}
    </>
  );
}

function NoProcesses({ running, all }: { running: boolean; all: boolean }) {
  if (running) return <Empty title="No process runs"><p>Ended ones are kept for an hour.</p></Empty>;
  const where = all ? "in any context" : "in this context";
  return <Empty title="No processes"><p>No command ran {where} in the last hour.</p></Empty>;
}

function columnsOf(route: string[], now: number, withContext: boolean): Column<Process>[] {
  const columns: Column<Process>[] = [
    { id: "state", title: "State", cell: (process) => <StateBadge process={process} /> },
    { id: "command", title: "Command", className: "process-command", cell: (process) => <CommandLink process={process} route={route} /> },
    { id: "time", title: "Time", numeric: true, cell: (process) => duration(ranMs(process, now)) },
    { id: "started", title: "Started", className: "nowrap", cell: (process) => ago(process.startedNs, now) },
  ];
  const context: Column<Process> = { id: "context", title: "Context", cell: ({ contextId = "" }) => <a href={href("contexts", contextId, "processes")}>{contextId}</a> };
  return withContext ? [columns[0], columns[1], context, columns[2], columns[3]].filter((column) => column !== undefined) : columns;
}

function CommandLink({ process, route }: { process: Process; route: string[] }) {
  return (
    <>
      <a className="mono" href={href(...route, process.processId ?? "")}>{commandText(process)}</a>
      {process.name && <> <Badge>{process.name}</Badge></>}
      {process.pty && <> <Badge tone="info">terminal</Badge></>}
    </>
  );
}

/** The state of a process, with a sign besides the colour. */
export function StateBadge({ process }: { process: Process }) {
  const { text, tone } = stateOf(process);
  const signs = { info: "●", good: "✓", bad: "✕", warn: "!", plain: "■" };
  return <Badge tone={tone}><span aria-hidden="true">{signs[tone]}</span>{text}</Badge>;
}
