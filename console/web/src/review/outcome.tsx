// What a call did to files, or why it did nothing.
import { asApiError } from "../api";
import type { AppliedFile, Commit, ConflictKind } from "../gen/api";
import { Button, count } from "../ui";
import { keyOf } from "./decisions";
import { nameOf } from "./filelist";
import { appliedWord, conflictWord, repositoryWord, short } from "./words";

const most = 200;

/** A file that a refusal is about, in a detail of an error, or a recorded conflict. kind is missing if nothing was to be merged. */
interface Conflict {
  path?: string;
  rawPath?: string;
  kind?: ConflictKind;
}

export function AppliedFiles({ files }: { files: readonly AppliedFile[] }) {
  if (files.length === 0) return null;
  return (
    <ul className="rv-list">
      {files.slice(0, most).map((file) => <li key={keyOf(file)}><span className="mono"><bdi>{nameOf(file)}</bdi></span> <span className="dim">{appliedWord(file)}</span></li>)}
      {files.length > most && <li className="dim">and {count(files.length - most, "more file", "more files")}</li>}
    </ul>
  );
}

export function Commits({ commits }: { commits: readonly Commit[] }) {
  if (commits.length === 0) return null;
  return (
    <ul className="rv-list">
      {commits.map((c) => (
        <li key={`${c.repository ?? ""} ${c.ref ?? ""}`}>
          {c.commitId ? <>Commit <code>{short(c.commitId)}</code></> : "A commit"} on <code>{(c.ref ?? "").replace(/^refs\/heads\//, "")}</code> of {repositoryWord(c.repository)}
          {c.author && <span className="dim"> by {c.author}</span>}
          {(c.hooks?.length ?? 0) > 0 && <span className="dim"> after {c.hooks?.join(", ")}</span>}
        </li>
      ))}
    </ul>
  );
}

export function ConflictList({ conflicts }: { conflicts: readonly Conflict[] }) {
  if (conflicts.length === 0) return null;
  return (
    <ul className="rv-list">
      {conflicts.slice(0, most).map((c) => <li key={keyOf(c)}><span className="mono"><bdi>{nameOf(c)}</bdi></span> {c.kind && <span className="dim">{conflictWord(c.kind)}</span>}</li>)}
      {conflicts.length > most && <li className="dim">and {count(conflicts.length - most, "more file", "more files")}</li>}
    </ul>
  );
}

// What to do, in the words of this page. Other errors have their own hint.
const remedies: Readonly<Record<string, string>> = {
  CONFLICT: "Nothing was done. Rebase the context (Conflicts), resolve what conflicts there, and try again.",
  NOT_APPROVED: "Approve these changes first, or leave them out.",
  STALE_REVISION: "The context or the workspace moved meanwhile. Look at them again, and try again.",
  UNRESOLVED: "Resolve them in the view Conflicts.",
  DIRTY_COMMIT: "Commit or stash these lines first, or apply to the working tree without a commit.",
  REPOSITORY_BUSY: "End the git command that is in progress, or commit to a branch instead.",
  NO_REPOSITORY: "Apply to the working tree without a commit, or leave these files out.",
  HOOK_FAILED: "Nothing was applied. Fix what the hook reports, or apply without hooks.",
  CHECK_FAILED: "Nothing was applied. The output of the check says why.",
  GIT_STALE_BASE: "The staged commit is another one by now: close this and look at it again.",
  GIT_NON_FAST_FORWARD: "The branch got other commits. Choose to merge, or push to another branch.",
  GIT_CONFLICT: "The branch changed the same lines. Pull or rebase the context, and stage again.",
  GIT_WORKTREE_DIRTY: "You have changed the same files in the workspace: commit or stash them, or push to another branch.",
  GIT_AUTH: "Set up a credential helper or an ssh key for the server's user.",
  GIT_REJECTED: "The remote refused it: a hook, or a protected branch. Its words are above. Push to another branch and open a pull request there.",
  GIT_UNREACHABLE: "Check the network, and push again: the server asks the remote first whether the branch moved.",
  GIT_NO_REF: "Create the branch, or choose another one.",
  GIT_LOCKED: "Another git command has the repository: try again.",
};

/** Says why nothing was done, with the files, and what to do. */
export function Refusal({ error, retry }: { error: unknown; retry?: () => void }) {
  const { message, hint, reason, details } = asApiError(error);
  const refused = details.find((d) => String(d["@type"]).endsWith(".RefusedFiles")) as { files?: Conflict[] } | undefined;
  const remedy = Object.hasOwn(remedies, reason) ? remedies[reason] : hint;
  return (
    <div className="note bad" role="alert">
      <p className="rv-message">{message}</p>
      <ConflictList conflicts={refused?.files ?? []} />
      {remedy && <p>{remedy}</p>}
      {retry && <p><Button small onClick={retry}>Try again</Button></p>}
    </div>
  );
}
