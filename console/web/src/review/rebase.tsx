// Brings into the context what the workspace changed since.
import { useState } from "react";
import { call } from "../api";
import type { OnConflict, RebaseResponse } from "../gen/api";
import { announce, Button, count, Dialog, Note } from "../ui";
import { keyOf } from "./decisions";
import { nameOf } from "./filelist";
import { AppliedFiles, ConflictList, Refusal } from "./outcome";

const policies: readonly [OnConflict, string][] = [
  ["ON_CONFLICT_UNSPECIFIED", "Do nothing, and name each conflict"],
  ["ON_CONFLICT_RECORD", "Record them: the context keeps its files, and they are resolved here"],
  ["ON_CONFLICT_MARKERS", "Record them, and write conflict markers into the context’s files"],
  ["ON_CONFLICT_KEEP_CONTEXT", "The context’s lines win"],
  ["ON_CONFLICT_TAKE_WORKSPACE", "The workspace’s lines win"],
];

export function RebaseDialog({ contextId, onClose, onDone }: { contextId: string; onClose: () => void; onDone: () => void }) {
  const [policy, setPolicy] = useState<OnConflict>("ON_CONFLICT_RECORD");
  const [below, setBelow] = useState("");
  const [done, setDone] = useState<{ response: RebaseResponse; dry: boolean }>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const run = async (dryRun: boolean) => {
    setBusy(true);
    setError(undefined);
    setDone(undefined);
    try {
      const response = await call("ReviewService/Rebase", { contextId, onConflict: policy, dryRun, paths: below.split("\n").map((p) => p.trim()).filter((p) => p !== "") });
      setDone({ response, dry: dryRun });
      announce(dryRun ? "Dry run: nothing was done" : "Rebased");
      if (!dryRun) onDone();
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  };
  const finished = done && !done.dry;
  return (
    <Dialog title="Rebase the context" onClose={onClose} busy={busy} foot={finished ? <Button kind="primary" autoFocus onClick={onClose}>Close</Button> : <>
      <Button disabled={busy} onClick={onClose}>Cancel</Button>
      <Button disabled={busy} onClick={() => void run(true)}>Dry run</Button>
      <Button kind="primary" type="submit" form="rebase" disabled={busy}>Rebase</Button>
    </>}>
      {!finished && (
        <form id="rebase" className="stack" onSubmit={(event) => { event.preventDefault(); void run(false); }}>
          <p>The context gets what the workspace changed since. Where both changed a file, it gets the merge of both, line by line.</p>
          <fieldset className="rv-choice">
            <legend>Files that cannot be merged</legend>
            {policies.map(([value, label]) => <label key={value} className="check"><input type="radio" name="policy" data-autofocus={policy === value || undefined} checked={policy === value} onChange={() => setPolicy(value)} />{label}</label>)}
          </fieldset>
          <div className="field">
            <label htmlFor="rebase-paths">Only these paths</label>
            <textarea id="rebase-paths" className="mono" rows={2} placeholder="/app/src, one on each line; empty for all" value={below} onChange={(event) => setBelow(event.target.value)} />
          </div>
        </form>
      )}
      {error !== undefined && <Refusal error={error} />}
      {done && <Result {...done} />}
    </Dialog>
  );
}

function Result({ response, dry }: { response: RebaseResponse; dry: boolean }) {
  const { files = [], conflicts = [], stale = [], journalId } = response;
  const nothing = files.length + conflicts.length === 0;
  return (
    <Note tone={conflicts.length > 0 ? "warn" : dry ? "info" : "good"}>
      <p><strong>{nothing ? "The workspace changed nothing that the context does not have." : dry ? "Dry run: nothing was done." : `${count(files.length, "file")} brought in.`}</strong></p>
      <AppliedFiles files={files} />
      {conflicts.length > 0 && <><p>{count(conflicts.length, "conflict")}:</p><ConflictList conflicts={conflicts} /></>}
      {stale.length > 0 && <p>Decide again on: {stale.slice(0, 20).map((s) => <code key={keyOf(s)}>{nameOf(s)} </code>)}</p>}
      {!dry && journalId && <p>It is entry {journalId} of the journal, where Undo takes it back.</p>}
    </Note>
  );
}
