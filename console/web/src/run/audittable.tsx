// The audit log as a table, with filters.
import { useEffect, useMemo, useRef, useState, type SubmitEvent } from "react";
import { ApiError, isAbort, num } from "../api";
import type { AuditEntry } from "../gen/api";
import { href } from "../router";
import { Badge, Button, Empty, ErrorNote, Spinner, Table, announce, count, time, type Column } from "../ui";
import { emptyLog, followAudit, readOlder, subject, withOlder, type AuditFilter, type AuditLog } from "./audit";
import { seconds } from "./metrics";

type Result = "all" | "ok" | "failed";

const noFilter: AuditFilter = { contextId: "", panelId: "", op: "" };

export function AuditTable() {
  const [filter, setFilter] = useState(noFilter);
  const [result, setResult] = useState<Result>("all");
  const { log, lost, error, older } = useAudit(filter);
  const rows = useMemo(() => log.entries.filter((entry) => result === "all" || (entry.result === "ok") === (result === "ok")), [log, result]);
  return (
    <section className="stack" aria-label="Audit log">
      <div className="bar">
        <h2 className="grow">Audit log</h2>
        {lost && <span className="dim" role="status">connection lost, trying again</span>}
        {log.before !== undefined && <span className="dim">{count(rows.length, "entry", "entries")} shown</span>}
      </div>
      {isOff(error) ? <NoLog /> : (
        <>
          <FilterForm onFilter={setFilter} result={result} onResult={setResult} entries={log.entries} />
          {error !== undefined && <ErrorNote error={error} />}
          {log.before === undefined && error === undefined && <Spinner label="Reading the audit log" />}
          {log.before !== undefined && rows.length === 0 && <Empty title="No entries"><p>No call that changes something matches.</p></Empty>}
          {rows.length > 0 && <Table caption="Calls that change something, newest first" columns={columns} rows={rows} keyOf={({ cursor }) => cursor ?? ""} />}
          {log.before && <OlderButton read={older} />}
        </>
      )}
    </section>
  );
}

function isOff(error: unknown): boolean {
  return error instanceof ApiError && error.reason === "EOPNOTSUPP";
}

function NoLog() {
  return <Empty title="This server keeps no audit log"><p>Start it with one: <code>ctxfs serve --audit-log FILE</code></p></Empty>;
}

function useAudit(filter: AuditFilter) {
  const [log, setLog] = useState<AuditLog>(emptyLog);
  const [lost, setLost] = useState(false);
  const [error, setError] = useState<unknown>();
  const ending = useRef(new AbortController());
  useEffect(() => {
    const abort = new AbortController();
    ending.current = abort;
    setLog(emptyLog);
    setError(undefined);
    const update = (change: (was: AuditLog) => AuditLog): void => {
      setLost(false);
      setLog(change);
    };
    followAudit(filter, update, () => { setLost(true); }, abort.signal).catch((failed: unknown) => { if (!abort.signal.aborted) setError(failed); });
    return () => { abort.abort(); };
  }, [filter]);
  const older = async (): Promise<void> => {
    const { signal } = ending.current;
    const page = await readOlder(filter, log.before ?? "", signal);
    if (signal.aborted) return;
    setLog((now) => withOlder(now, page));
    announce(count(page.entries.length, "older entry", "older entries"));
  };
  return { log, lost, error, older };
}

function OlderButton({ read }: { read: () => Promise<void> }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const click = (): void => {
    setBusy(true);
    setError(undefined);
    read().catch((failed: unknown) => { if (!isAbort(failed)) setError(failed); }).finally(() => { setBusy(false); });
  };
  return (
    <div className="bar">
      <Button disabled={busy} onClick={click}>Older entries</Button>
      {error !== undefined && <ErrorNote error={error} />}
    </div>
  );
}

interface FormProps {
  onFilter: (filter: AuditFilter) => void;
  result: Result;
  onResult: (result: Result) => void;
  /** Their contexts, panels and operations are suggested. */
  entries: readonly AuditEntry[];
}

function FilterForm({ onFilter, result, onResult, entries }: FormProps) {
  const [draft, setDraft] = useState(noFilter);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    onFilter({ contextId: draft.contextId.trim(), panelId: draft.panelId.trim(), op: draft.op.trim() });
  };
  const clear = (): void => {
    setDraft(noFilter);
    onFilter(noFilter);
    onResult("all");
  };
  const field = (name: keyof AuditFilter, label: string) => (
    <FilterField name={name} label={label} value={draft[name]} known={entries.map((entry) => entry[name] ?? "")} onChange={(value) => { setDraft({ ...draft, [name]: value }); }} />
  );
  return (
    <form className="bar" role="search" aria-label="Filters of the audit log" onSubmit={submit}>
      {field("contextId", "Context")}
      {field("panelId", "Panel")}
      {field("op", "Operation")}
      <label className="field">
        <span className="label">Result</span>
        <select value={result} onChange={(event) => { onResult(event.target.value as Result); }}>
          <option value="all">all</option>
          <option value="ok">ok</option>
          <option value="failed">failed</option>
        </select>
      </label>
      <span className="row audit-actions">
        <Button type="submit">Filter</Button>
        <Button kind="quiet" onClick={clear}>Clear</Button>
      </span>
    </form>
  );
}

function FilterField({ name, label, value, known, onChange }: { name: string; label: string; value: string; known: readonly string[]; onChange: (value: string) => void }) {
  const suggestions = [...new Set(known)].filter((text) => text !== "").sort().slice(0, 100);
  return (
    <div className="field">
      <label htmlFor={`audit-${name}`}>{label}</label>
      <input id={`audit-${name}`} type="text" list={`audit-${name}-list`} autoComplete="off" spellCheck={false} value={value} onChange={(event) => { onChange(event.target.value); }} />
      <datalist id={`audit-${name}-list`}>{suggestions.map((text) => <option key={text} value={text} />)}</datalist>
    </div>
  );
}

const columns: readonly Column<AuditEntry>[] = [
  { id: "time", title: "Time", className: "nowrap", cell: ({ timeNs }) => time(timeNs) },
  { id: "op", title: "Operation", className: "mono", cell: ({ op }) => op },
  { id: "result", title: "Result", cell: ({ result = "" }) => <Badge tone={result === "ok" ? "good" : "bad"}>{result}</Badge> },
  { id: "context", title: "Context", cell: ({ contextId }) => (contextId ? <a href={href("contexts", contextId)}>{contextId}</a> : "") },
  { id: "by", title: "Caller", cell: ({ role = "", panelId, right }) => [panelId ?? role, panelId && role !== "panel" ? `by ${role}` : "", right ? `right to ${right}` : ""].filter((text) => text).join(", ") },
  { id: "subject", title: "Subject", className: "mono audit-subject", cell: subject },
  { id: "took", title: "Took", numeric: true, cell: ({ durationMs }) => seconds(num(durationMs) / 1000) },
];
