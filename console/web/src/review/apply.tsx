// Applies what is approved to the workspace: what, where to, and after which checks.
import { useRef, useState } from "react";
import { ApiError, asApiError, call } from "../api";
import type { ApplyRequest, ApplyResponse, ApplyTarget, Change } from "../gen/api";
import { href } from "../router";
import { announce, Button, count, Dialog, Note } from "../ui";
import { CheckFields, CheckRuns, requestChecks, useChecks, type CheckLine } from "./checks";
import { countsOf, keyOf, named, undecidable } from "./decisions";
import { nameOf } from "./filelist";
import { AppliedFiles, Commits, Refusal } from "./outcome";
import type { Reviewing, Seen } from "./usereview";

type Scope = "approved" | "file" | "all";

interface Fields {
  scope: Scope;
  target: ApplyTarget;
  branch: string;
  message: string;
  author: string;
  noMerge: boolean;
  checks: CheckLine[];
}

// What was typed stays when the dialog is closed.
const drafts = new Map<string, Fields>();

interface Props {
  contextId: string;
  /** The change that was shown when the dialog opened, if there was one. */
  change: Change | undefined;
  seen: Seen;
  review: Reviewing;
  onClose: () => void;
}

export function ApplyDialog({ contextId, change, seen, review, onClose }: Props) {
  const approved = [...review.state.files.values()].reduce((n, file) => n + countsOf(file).approved, 0);
  const [fields, setFields] = useState<Fields>(() => drafts.get(contextId) ?? { scope: approved > 0 || !change ? "approved" : "file", target: "APPLY_TARGET_UNSPECIFIED", branch: "", message: "", author: "", noMerge: false, checks: [] });
  const [done, setDone] = useState<{ response: ApplyResponse; dry: boolean }>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState<"call" | "checks">();
  const running = useRef<AbortController>(null);
  const checks = useChecks();
  const set = (some: Partial<Fields>) => {
    const next = { ...fields, ...some };
    drafts.set(contextId, next);
    setFields(next);
    setDone(undefined);
  };
  const run = async (dryRun: boolean) => {
    const request = requestOf(contextId, change, seen, fields, dryRun);
    const list = dryRun ? [] : requestChecks(fields.checks);
    const { signal } = (running.current = new AbortController());
    setBusy(list.length > 0 ? "checks" : "call");
    setError(undefined);
    setDone(undefined);
    try {
      await review.settled(seen);
      signal.throwIfAborted();
      const response = list.length > 0 ? await checks.run({ apply: request, checks: list }, signal) : await call("ReviewService/Apply", request);
      setDone({ response, dry: dryRun });
      announce(dryRun ? "Dry run: nothing was done" : `Applied ${count(response.files?.length, "file")}`);
      if (!dryRun) {
        drafts.delete(contextId);
        review.reload();
      }
    } catch (failed) {
      setError(signal.aborted ? new ApiError("You stopped it", 0, "", "If it had begun to apply, the journal has an entry") : failed);
      if (asApiError(failed).reason === "STALE_REVISION") review.reload();
    } finally {
      setBusy(undefined);
    }
  };
  // While checks run, all ways to close the dialog stop them. The dialog stays, to show how it ended.
  const close = () => {
    if (busy === "checks") running.current?.abort(new DOMException("stopped", "AbortError"));
    else onClose();
  };
  const missing = problem(fields, approved, change);
  const finished = done && !done.dry;
  return (
    <Dialog wide title="Apply to the workspace" onClose={close} busy={busy === "call"} foot={finished ? <Button kind="primary" autoFocus onClick={close}>Close</Button> : <>
      {missing && <span className="dim grow">{missing}</span>}
      <Button disabled={busy === "call"} onClick={close}>{busy === "checks" ? "Stop" : "Cancel"}</Button>
      <Button disabled={busy !== undefined || missing !== ""} onClick={() => void run(true)}>Dry run</Button>
      <Button kind="primary" type="submit" form="apply" disabled={busy !== undefined || missing !== ""}>Apply</Button>
    </>}>
      {!finished && (
        <form id="apply" className="stack" onSubmit={(event) => { event.preventDefault(); void run(false); }}>
          <ScopeField fields={fields} set={set} approved={approved} change={change} />
          <TargetFields fields={fields} set={set} />
          <CheckFields checks={fields.checks} disabled={fields.target === "APPLY_TARGET_BRANCH"} onChange={(list) => set({ checks: list })} />
          <label className="check"><input type="checkbox" checked={fields.noMerge} onChange={(event) => set({ noMerge: event.target.checked })} />Apply nothing if the workspace has changed one of the files since</label>
        </form>
      )}
      <CheckRuns runs={checks.runs} />
      {error !== undefined && <Refusal error={error} />}
      {done && <Result contextId={contextId} {...done} />}
    </Dialog>
  );
}

function problem(f: Fields, approved: number, change: Change | undefined): string {
  if (f.scope === "approved" && approved === 0) return "Nothing is approved yet.";
  if (f.scope === "file" && (!change || undecidable(change))) return "The file cannot be applied.";
  if (f.target !== "APPLY_TARGET_UNSPECIFIED" && f.message.trim() === "") return "A commit needs a message.";
  if (f.target === "APPLY_TARGET_BRANCH" && f.branch.trim() === "") return "Name the branch.";
  if (f.author.trim() !== "" && !authorOf(f.author)) return "Write the author as: Name <email>";
  return "";
}

function authorOf(text: string): { authorName: string; authorEmail: string } | undefined {
  const [, name, email] = /^\s*(.+?)\s*<([^<>\s]+)>\s*$/.exec(text) ?? [];
  return name === undefined || email === undefined ? undefined : { authorName: name, authorEmail: email };
}

function requestOf(contextId: string, change: Change | undefined, seen: Seen, f: Fields, dryRun: boolean): ApplyRequest {
  const commits = f.target !== "APPLY_TARGET_UNSPECIFIED";
  const request: ApplyRequest = { contextId, target: f.target, refuseMerge: f.noMerge, dryRun };
  if (f.scope === "approved") request.selection = { approved: true };
  if (f.scope === "file" && change) Object.assign(request, { selection: { changes: { changes: [{ ...named(keyOf(change)), changeId: change.changeId }] } }, approve: true });
  if (f.scope === "all") Object.assign(request, { selection: { all: true }, approve: true, ifRevision: seen.revision });
  if (commits) {
    request.commit = { message: f.message, ...authorOf(f.author) };
    if (f.target === "APPLY_TARGET_BRANCH") request.commit.branch = f.branch.trim();
  }
  return request;
}

function ScopeField({ fields, set, approved, change }: { fields: Fields; set: (some: Partial<Fields>) => void; approved: number; change: Change | undefined }) {
  const option = (scope: Scope, label: string) => <label className="check"><input type="radio" name="scope" data-autofocus={fields.scope === scope || undefined} checked={fields.scope === scope} onChange={() => set({ scope })} />{label}</label>;
  return (
    <fieldset className="rv-choice">
      <legend>What</legend>
      {option("approved", `What is approved: ${count(approved, "hunk or file", "hunks and files")}`)}
      {change && option("file", `Approve and apply ${nameOf(change)}`)}
      {option("all", "Approve and apply all changes, except rejected, sensitive and ignored ones")}
    </fieldset>
  );
}

function TargetFields({ fields, set }: { fields: Fields; set: (some: Partial<Fields>) => void }) {
  const option = (target: ApplyTarget, label: string) => <label className="check"><input type="radio" name="target" checked={fields.target === target} onChange={() => set({ target, ...(target === "APPLY_TARGET_BRANCH" ? { checks: [] } : {}) })} />{label}</label>;
  const commits = fields.target !== "APPLY_TARGET_UNSPECIFIED";
  return (
    <>
      <fieldset className="rv-choice">
        <legend>Where to</legend>
        {option("APPLY_TARGET_UNSPECIFIED", "The files of the workspace")}
        {option("APPLY_TARGET_COMMIT", "The files, and a commit of the branch that is checked out")}
        {option("APPLY_TARGET_BRANCH", "Only a commit, to another branch: no file changes")}
      </fieldset>
      {fields.target === "APPLY_TARGET_BRANCH" && (
        <div className="field">
          <label htmlFor="apply-branch">Branch</label>
          <input id="apply-branch" type="text" className="mono" spellCheck={false} autoCapitalize="none" value={fields.branch} onChange={(event) => set({ branch: event.target.value })} />
          <span className="help">One that does not exist begins at HEAD. A branch that is checked out is refused.</span>
        </div>
      )}
      {commits && (
        <>
          <div className="field">
            <label htmlFor="apply-message">Commit message</label>
            <textarea id="apply-message" rows={3} value={fields.message} onChange={(event) => set({ message: event.target.value })} />
            <span className="help">The commit holds what is approved, and nothing else: neither your uncommitted lines nor what is staged.</span>
          </div>
          <div className="field">
            <label htmlFor="apply-author">Author</label>
            <input id="apply-author" type="text" placeholder="The repository's user.name and user.email" value={fields.author} onChange={(event) => set({ author: event.target.value })} />
          </div>
        </>
      )}
    </>
  );
}

function Result({ contextId, response, dry }: { contextId: string; response: ApplyResponse; dry: boolean }) {
  const { files = [], commits = [], journalId } = response;
  return (
    <Note tone={dry ? "info" : "good"}>
      <p><strong>{dry ? `Dry run: nothing was done. ${count(files.length, "file")} would change.` : `Applied ${count(files.length, "file")}.`}</strong></p>
      <AppliedFiles files={files} />
      <Commits commits={commits} />
      {!dry && journalId && <p>It is entry {journalId} of the <a href={href("contexts", contextId, "journal")}>journal</a>, where Undo takes it back; so does <code>ctxfs undo {journalId}</code>.</p>}
    </Note>
  );
}
