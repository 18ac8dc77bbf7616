// All contexts: a table that can be filtered, sorted and moved in by keys. It refreshes while the page is visible.
import { Fragment, startTransition, useEffect, useMemo, useRef, useState } from "react";
import { call } from "../api";
import type { Context } from "../gen/api";
import { href } from "../router";
import { ago, announce, Button, count, Empty, ErrorNote, size, sortRows, Spinner, Table, useAsync, useHotkeys, useInSight, useNow, useTitle, type Column, type Sorting } from "../ui";
import { useDetails, type Details } from "./details";
import { Drift, ReviewCounts } from "./review";
import { StateBadge } from "./state";
import "./contexts.css";

interface Row {
  context: Context;
  details: Details | undefined;
}

// So many rows are shown at first. A page of more is slow to lay out. The first frame has those that fill a window.
const pageSize = 250;
const windowSize = 50;

export default function ContextList() {
  useTitle("Contexts");
  const { data, error, reload } = useAsync((signal) => call("ContextService/ListContexts", {}, { signal }), [], { every: 5000 });
  if (!data) return <div className="page"><h1>Contexts</h1>{error === undefined ? <Spinner /> : <ErrorNote error={error} retry={reload} />}</div>;
  return <List contexts={data.contexts ?? []} error={error} reload={reload} />;
}

function List({ contexts, error, reload }: { contexts: Context[]; error: unknown; reload: () => void }) {
  const [sorting, setSorting] = useState<Sorting>({ column: "used", descending: true });
  const [filter, setFilter] = useState("");
  const [shown, setShown] = useState(windowSize);
  const { details, want, refresh } = useDetails(contexts);
  const watch = useInSight<HTMLElement>((row) => want(row.dataset.id ?? ""));
  const now = useNow();
  const columns = useMemo(() => columnsAt(now), [now]);
  const rows = useMemo(() => {
    const matching = contexts.filter((context) => matches(context, filter)).map((context) => ({ context, details: details.get(context.contextId ?? "") }));
    return sortRows(matching, columns, sorting);
  }, [contexts, details, filter, columns, sorting]);
  useEffect(() => {
    // The frame that paints the rows comes first, and the task after it: the mark says when the list was in sight.
    const frame = requestAnimationFrame(() => setTimeout(() => {
      performance.mark("contexts-painted");
      startTransition(() => setShown(pageSize));
    }, 0));
    return () => cancelAnimationFrame(frame);
  }, []);
  const { field, table } = useListKeys(() => { reload(); refresh(); });
  useEffect(() => {
    if (filter !== "") announce(`${count(rows.length, "context")} found`);
    // Only a new filter is said, not each refresh.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [filter]);
  return (
    <div className="page contexts" ref={table}>
      <div className="bar">
        <h1>Contexts <span className="dim">{filter === "" ? contexts.length : `${String(rows.length)} of ${String(contexts.length)}`}</span></h1>
        <span className="grow" />
        <input ref={field} type="search" aria-label="Filter contexts" placeholder="Filter by name, panel, state or label" value={filter} onChange={(event) => setFilter(event.target.value)} />
      </div>
      {error !== undefined && <ErrorNote error={error} retry={reload} />}
      {contexts.length === 0 && <Empty title="There are no contexts yet"><p>A context appears here when a panel opens. <code>ctxfs panel open NAME</code> opens one.</p></Empty>}
      {contexts.length > 0 && rows.length === 0 && <Empty title="No context matches"><Button onClick={() => setFilter("")}>Clear the filter</Button></Empty>}
      {rows.length > 0 && <Table caption="Contexts" columns={columns} rows={rows.slice(0, shown)} keyOf={(row) => row.context.contextId ?? ""} sorting={sorting} onSort={setSorting}
        rowProps={(row) => ({ ref: watch, "data-id": row.context.contextId })} />}
      {shown >= pageSize && rows.length > shown && <Button onClick={() => setShown(shown + pageSize)}>Show {Math.min(pageSize, rows.length - shown)} more</Button>}
    </div>
  );
}

/** Moves the focus between the rows' links, and to the filter. */
function useListKeys(reload: () => void) {
  const field = useRef<HTMLInputElement>(null);
  const table = useRef<HTMLDivElement>(null);
  const move = (by: number) => {
    const links = [...(table.current?.querySelectorAll<HTMLElement>("tbody a.context-link") ?? [])];
    const at = links.findIndex((link) => link === document.activeElement);
    const to = at < 0 ? links[0] : links[Math.min(links.length - 1, Math.max(0, at + by))];
    to?.focus();
    to?.scrollIntoView({ block: "nearest" });
  };
  useHotkeys("Contexts", [
    { key: "j", label: "Next context", run: () => move(1) },
    { key: "k", label: "Previous context", run: () => move(-1) },
    { key: "ArrowDown", label: "Next context", run: () => move(1) },
    { key: "ArrowUp", label: "Previous context", run: () => move(-1) },
    { key: "/", label: "Filter", run: () => field.current?.focus() },
    { key: "r", label: "Refresh", run: reload },
  ]);
  return { field, table };
}

function matches(context: Context, filter: string): boolean {
  const text = [context.contextId, ...(context.panels ?? []), context.state?.replace("CONTEXT_STATE_", ""), context.driver, ...labelTexts(context)].join(" ").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function columnsAt(now: number): Column<Row>[] {
  return [
    { id: "id", title: "Context", sort: ({ context }) => context.contextId ?? "", cell: (row) => <Name row={row} now={now} /> },
    { id: "panel", title: "Panels", className: "only-wide", sort: ({ context }) => context.panels?.[0] ?? "", cell: ({ context }) => <Panels context={context} /> },
    { id: "state", title: "State", className: "only-wide", sort: ({ context }) => context.state ?? "", cell: ({ context }) => <StateBadge context={context} /> },
    { id: "changes", title: "Changes", sort: ({ details }) => details?.review?.summary?.changes ?? -1, cell: ({ details }) => <Changes details={details} /> },
    { id: "drift", title: "Drift", className: "only-wide", sort: ({ details }) => details?.review?.summary?.drifted ?? -1, cell: ({ details }) => <Drift details={details} /> },
    { id: "size", title: "On disk", className: "only-wide", numeric: true, sort: ({ details }) => details?.ownBytes ?? -1, cell: ({ details }) => (details?.ownBytes === undefined ? "" : size(details.ownBytes)) },
    { id: "created", title: "Age", className: "only-wide", numeric: true, sort: ({ context }) => Number(context.createdNs ?? 0), cell: ({ context }) => ago(context.createdNs, now) },
    { id: "used", title: "Last used", className: "only-wide", numeric: true, sort: ({ context }) => Number(context.usedNs ?? 0), cell: ({ context }) => ago(context.usedNs, now) },
  ];
}

function Name({ row: { context, details }, now }: { row: Row; now: number }) {
  const id = context.contextId ?? "";
  const facts = [...(context.panels ?? []), details?.ownBytes === undefined ? "" : size(details.ownBytes), ago(context.createdNs, now)];
  return (
    <>
      <a className="context-link" href={href("contexts", id)}>{id.split(/(?<=[_~-])/).map((part, i) => <Fragment key={i}>{i > 0 && <wbr />}{part}</Fragment>)}</a>
      {context.forkedFrom && <span className="dim sub">fork of {context.forkedFrom}</span>}
      <Labels context={context} />
      {context.state !== "CONTEXT_STATE_READY" && <span className="sub only-narrow"><StateBadge context={context} /></span>}
      <span className="dim sub only-narrow">{facts.filter(Boolean).map((fact) => fact.replaceAll(" ", "\u00a0")).join("\u00a0· ")}</span>
    </>
  );
}

/** The labels of a context as text, by key: "task=1204". */
function labelTexts(context: Context): string[] {
  return Object.entries(context.labels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => (value === "" ? key : `${key}=${value}`));
}

function Labels({ context }: { context: Context }) {
  const texts = labelTexts(context);
  return texts.length === 0 ? null : <ul className="labels" aria-label="Labels">{texts.map((text) => <li key={text}>{text}</li>)}</ul>;
}

function Changes({ details }: { details: Details | undefined }) {
  const drifted = (details?.review?.summary?.drifted ?? 0) > 0;
  return (
    <>
      <ReviewCounts details={details} />
      {drifted && <span className="only-narrow">drift: <Drift details={details} /></span>}
    </>
  );
}

function Panels({ context }: { context: Context }) {
  const panels = context.panels ?? [];
  return panels.length === 0 ? <span className="dim">none</span> : <>{panels.join(", ")}</>;
}
