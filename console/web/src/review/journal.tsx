// What was applied, discarded, rebased and undone, with Undo.
import { useEffect, useState } from "react";
import { call } from "../api";
import type { JournalEntry, ListJournalResponse, UndoResponse } from "../gen/api";
import { announce, Badge, Button, count, Dialog, Empty, ErrorNote, Note, Spinner, Table, time, useAsync, type Column } from "../ui";
import type { ContextViewProps } from "../views";
import { nameOf } from "./filelist";
import { AppliedFiles, Commits, Refusal } from "./outcome";
import { entryWord, short } from "./words";
import "./review.css";

export default function Journal({ contextId }: ContextViewProps) {
  const [pages, setPages] = useState(1);
  const { data, error, loading, reload } = useAsync(async (signal) => {
    const entries: JournalEntry[] = [];
    let next: string | undefined;
    for (let i = 0; i < pages; i++) {
      const page: ListJournalResponse = await call("ReviewService/ListJournal", { contextId, pageToken: next }, { signal });
      entries.push(...(page.entries ?? []));
      next = page.nextPageToken;
      if (!next) break;
    }
    return { entries, more: !!next };
  }, [contextId]);
  // What is shown stays while older entries load.
  useEffect(() => { if (pages > 1) reload(); }, [pages, reload]);
  const [undoing, setUndoing] = useState<JournalEntry>();
  const columns: Column<JournalEntry>[] = [
    { id: "entry", title: "Entry", numeric: true, cell: (e) => e.journalId },
    { id: "done", title: "Done", className: "only-wide", cell: (e) => <span className="nowrap">{time(e.doneNs)}</span> },
    { id: "what", title: "What", cell: (e) => <><span className="nowrap">{entryWord(e)}</span>{isUndone(e) && <> <Badge>undone by {e.undoneBy}</Badge></>}{e.command && <code className="sub rv-command">{e.command}</code>}<span className="dim sub only-narrow">{time(e.doneNs)}</span></> },
    { id: "files", title: "Files", cell: (e) => <Files entry={e} /> },
    { id: "commits", title: "Commits", className: "only-wide", cell: (e) => (e.commits ?? []).map((c) => <code key={c.repository} className="sub">{short(c.commitId)} {(c.ref ?? "").replace("refs/heads/", "")}</code>) },
    { id: "by", title: "By", className: "only-wide", cell: (e) => e.actor },
    { id: "undo", title: "", cell: (e) => <Button small disabled={isUndone(e)} aria-label={`Undo entry ${e.journalId ?? ""}`} onClick={() => setUndoing(e)}>Undo…</Button> },
  ];
  if (!data) return <div className="page">{error === undefined ? <Spinner /> : <ErrorNote error={error} retry={reload} />}</div>;
  return (
    <div className="page">
      <div className="bar"><span className="grow dim">Newest first. Undo is an entry itself, so undoing it does the thing again.</span><Button small onClick={reload} disabled={loading}>Reload</Button></div>
      {error !== undefined && <ErrorNote error={error} retry={reload} />}
      {data.entries.length === 0 ? <Empty title="Nothing was applied or undone yet" /> : <Table caption="Journal of the context" columns={columns} rows={data.entries} keyOf={(e) => e.journalId ?? ""} />}
      {data.more && <div><Button onClick={() => setPages((n) => n + 1)}>Older entries</Button></div>}
      {undoing && <UndoDialog entry={undoing} onClose={() => setUndoing(undefined)} onDone={reload} />}
    </div>
  );
}

function isUndone(e: JournalEntry): boolean {
  return Number(e.undoneBy ?? 0) > 0;
}

function Files({ entry }: { entry: JournalEntry }) {
  const files = entry.files ?? [];
  const [first] = files;
  if (!first) return <span className="dim">none</span>;
  if (files.length === 1) return <span className="rv-break"><bdi>{nameOf(first)}</bdi></span>;
  return <details><summary>{count(files.length, "file")}</summary><AppliedFiles files={files} /></details>;
}

function UndoDialog({ entry, onClose, onDone }: { entry: JournalEntry; onClose: () => void; onDone: () => void }) {
  const journalId = entry.journalId ?? "0";
  const hasCommits = (entry.commits?.length ?? 0) > 0;
  const [commit, setCommit] = useState(false);
  const [done, setDone] = useState<UndoResponse>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const options = commit ? { commit: { message: "" } } : {};
  const plan = useAsync((signal) => call("ReviewService/Undo", { journalId, dryRun: true, ...options }, { signal }), [journalId, commit]);
  const undo = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const response = await call("ReviewService/Undo", { journalId, ...options });
      setDone(response);
      announce(`Undone entry ${journalId}`);
      onDone();
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Undo entry ${journalId}: ${entryWord(entry)}`} onClose={onClose} busy={busy} foot={done ? <Button kind="primary" autoFocus onClick={onClose}>Close</Button> : <>
      <Button disabled={busy} onClick={onClose}>Cancel</Button>
      <Button kind="danger" disabled={busy || !plan.data || plan.loading} onClick={() => void undo()}>Undo</Button>
    </>}>
      {done ? <Note tone="good"><p>Undone, as entry {done.journalId}. Undo that entry to do it again.</p><AppliedFiles files={done.files ?? []} /><Commits commits={done.commits ?? []} /></Note> : <>
        <p>Each file gets what it held before, merged with what was done to it since. If one of them conflicts, nothing is done.</p>
        {hasCommits && <label className="check"><input type="checkbox" checked={commit} onChange={(event) => setCommit(event.target.checked)} />Also take its commits back, by a further commit on the same branch. Without this the commits stay.</label>}
        {plan.error !== undefined && <Refusal error={plan.error} />}
        {plan.loading && <Spinner label="Looking what it will do" />}
        {plan.data && !plan.loading && <section aria-label="What it will do"><h3>What it will do</h3><AppliedFiles files={plan.data.files ?? []} /><Commits commits={plan.data.commits ?? []} />{!plan.data.files?.length && !plan.data.commits?.length && <p className="dim">No file changes.</p>}</section>}
      </>}
      {error !== undefined && <Refusal error={error} />}
    </Dialog>
  );
}
