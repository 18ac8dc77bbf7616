// Pushes a staged commit: exactly the one that was looked at.
import { useState } from "react";
import { call, stream } from "../api";
import type { PushPhase, PushRequest, PushResult, PushTarget, StagedCommit } from "../gen/api";
import { announce, Button, Dialog, Note, useAsync } from "../ui";
import { Refusal } from "./outcome";
import { short } from "./words";

const phases: Readonly<Record<PushPhase, string>> = {
  PUSH_PHASE_UNSPECIFIED: "Starting",
  PUSH_PHASE_CHECKING: "Looking at the target",
  PUSH_PHASE_MERGING: "Merging the branch and the commit",
  PUSH_PHASE_PUSHING: "Bringing the objects there, and moving the branch",
  PUSH_PHASE_ADVANCING: "Making the context’s base what was pushed",
};

interface Props {
  staged: StagedCommit;
  onClose: () => void;
  onDone: () => void;
}

export function PushDialog({ staged, onClose, onDone }: Props) {
  const [target, setTarget] = useState<PushTarget>("PUSH_TARGET_UNSPECIFIED");
  const [branch, setBranch] = useState(staged.branch ?? "");
  const [remote, setRemote] = useState("");
  const [create, setCreate] = useState(false);
  const [merge, setMerge] = useState(false);
  const [phase, setPhase] = useState<PushPhase>();
  const [done, setDone] = useState<{ result: PushResult; dry: boolean }>();
  const [error, setError] = useState<unknown>();
  const { data: repository } = useAsync(async (signal) => (await call("GitService/ListRepositories", { contextId: staged.contextId }, { signal })).repositories?.find((r) => r.path === staged.repo), [staged.contextId, staged.repo]);
  const remotes = repository?.remotes ?? [];
  const push = async (dryRun: boolean) => {
    setError(undefined);
    setDone(undefined);
    setPhase("PUSH_PHASE_UNSPECIFIED");
    const request: PushRequest = { id: staged.id, expectedCommit: staged.commit, target, branch, createBranch: create, dryRun };
    if (target === "PUSH_TARGET_REMOTE") request.remote = remote || remotes[0] || "";
    if (merge) request.onMoved = "PUSH_MOVED_MERGE";
    try {
      for await (const part of stream("GitService/Push", request)) {
        if (part.phase) {
          setPhase(part.phase);
          announce(phases[part.phase]);
        }
        if (part.result) setDone({ result: part.result, dry: dryRun });
      }
      if (!dryRun) onDone();
    } catch (failed) {
      setError(failed);
    } finally {
      setPhase(undefined);
    }
  };
  const option = (value: PushTarget, label: string) => <label className="check"><input type="radio" name="push-target" data-autofocus={target === value || undefined} checked={target === value} onChange={() => setTarget(value)} />{label}</label>;
  const busy = phase !== undefined;
  const finished = done && !done.dry;
  return (
    <Dialog title="Push the staged commit" onClose={onClose} busy={busy} foot={finished ? <Button kind="primary" autoFocus onClick={onClose}>Close</Button> : <>
      <Button disabled={busy} onClick={onClose}>Cancel</Button>
      <Button disabled={busy || branch.trim() === ""} onClick={() => void push(true)}>Dry run</Button>
      <Button kind="primary" type="submit" form="push" disabled={busy || branch.trim() === ""}>Push</Button>
    </>}>
      {!finished && (
        <form id="push" className="stack" onSubmit={(event) => { event.preventDefault(); void push(false); }}>
          <p>What is pushed is the commit <code className="rv-break">{staged.commit}</code>, which you looked at. If the staged commit is another one, the server refuses.</p>
          <fieldset className="rv-choice">
            <legend>Where to</legend>
            {option("PUSH_TARGET_UNSPECIFIED", "A branch of the workspace’s repository that is not checked out: no file changes")}
            {option("PUSH_TARGET_WORKTREE", `The branch that is checked out${repository?.branch ? ` (${repository.branch} when the context was made)` : ""}, with its files`)}
            {option("PUSH_TARGET_REMOTE", "A branch of a remote")}
          </fieldset>
          {target === "PUSH_TARGET_REMOTE" && (
            <div className="field">
              <label htmlFor="push-remote">Remote</label>
              <select id="push-remote" value={remote || remotes[0] || ""} onChange={(event) => setRemote(event.target.value)}>{remotes.map((name) => <option key={name} value={name}>{name}</option>)}</select>
              <span className="help">{remotes.length === 0 ? "The repository has no remote that may be used." : "If the remote protects the branch, it refuses with its own words; push to another branch then, and open a pull request there."}</span>
            </div>
          )}
          <div className="field">
            <label htmlFor="push-branch">Branch</label>
            <input id="push-branch" type="text" className="mono" spellCheck={false} autoCapitalize="none" value={branch} onChange={(event) => setBranch(event.target.value)} />
          </div>
          <label className="check"><input type="checkbox" checked={create} onChange={(event) => setCreate(event.target.checked)} />Create the branch if it does not exist</label>
          <label className="check"><input type="checkbox" checked={merge} onChange={(event) => setMerge(event.target.checked)} />Merge if the branch got other commits meanwhile</label>
        </form>
      )}
      {phase && <p role="status" className="spinner">{phases[phase]}…</p>}
      {error !== undefined && <Refusal error={error} />}
      {done && (
        <Note tone={done.dry ? "info" : "good"}>
          <p><strong>{done.dry ? "Dry run: nothing was pushed." : "Pushed."}</strong> <code>{done.result.branch}</code>{done.result.url && ` of ${done.result.url}`} {done.dry ? "would move" : "moved"} from <code>{short(done.result.previous) || "nothing"}</code> to <code>{short(done.result.commit)}</code>.</p>
          {!done.dry && <p>The journal has it. Undo there takes back the files and the context’s base, not the commit.</p>}
        </Note>
      )}
    </Dialog>
  );
}
