// Commits that a panel staged: what they hold, and the push of exactly this commit.
import { useState } from "react";
import { bytesOf, call, joined, num, stream } from "../api";
import { LineCounts } from "../contexts/review";
import type { GitFile, StagedCommit } from "../gen/api";
import { go } from "../router";
import { Badge, Button, Confirm, count, Empty, ErrorNote, Spinner, Split, time, toast, useAsync } from "../ui";
import type { ContextViewProps } from "../views";
import { keyOf } from "./decisions";
import { nameOf } from "./filelist";
import { PatchView } from "./patchview";
import { PushDialog } from "./push";
import { decode } from "./text";
import { repositoryWord, short } from "./words";
import "./review.css";

export default function Staged({ contextId, rest }: ContextViewProps) {
  const { data, error, reload } = useAsync(async (signal) => (await call("GitService/ListStaged", { contextId, withPushed: true }, { signal })).staged ?? [], [contextId]);
  if (!data) return <div className="page">{error === undefined ? <Spinner /> : <ErrorNote error={error} retry={reload} />}</div>;
  const current = data.find((s) => s.id === rest[0]) ?? data[0];
  return (
    <div className="rv">
      <div className="bar rv-bar"><span className="grow dim">A staged commit does not change any more, whatever the panel does. No branch moves before you push.</span><Button small onClick={reload}>Reload</Button></div>
      {error !== undefined && <ErrorNote error={error} retry={reload} />}
      {current ? (
        <Split label="Width of the list of commits" name="staged" initial={300} side={
          <nav className="rv-files" aria-label="Staged commits">
            {data.map((s) => (
              <button type="button" key={s.id} className="rv-conflict" aria-current={s === current ? "true" : undefined} onClick={() => go(["contexts", contextId, "staged", s.id ?? ""], { replace: true })}>
                <span className="truncate">{titleOf(s)}</span>
                <span className="dim rv-sub truncate">{short(s.commit)} → {s.branch} · {count(s.fileCount, "file")}{s.pushed ? " · pushed" : ""}</span>
              </button>
            ))}
          </nav>
        }>
          <OneCommit key={current.id} contextId={contextId} id={current.id ?? ""} onDone={reload} />
        </Split>
      ) : <Empty title="No staged commits"><p>A panel stages with <code>ctxfs git stage</code>; you look at the commit here, and push it.</p></Empty>}
    </div>
  );
}

function titleOf(s: StagedCommit): string {
  return (s.message ?? "").split("\n", 1)[0] ?? "";
}

/** A staged commit with the whole patch, if it is not too long for the page. */
const maxPatch = 8 << 20;
/** How many files of a staged commit are listed. */
const maxFiles = 500;

async function load(contextId: string, id: string, signal: AbortSignal): Promise<{ staged: StagedCommit; patch: string; cut: boolean }> {
  const { staged = {} } = await call("GitService/GetStaged", { id }, { signal });
  const files = staged.files ?? [];
  // GetStaged leaves out files of a large commit, and lines of a long diff: only GitDiff gives all of the patch then.
  if (files.length === num(staged.fileCount) && !files.some((f) => f.diffTruncated)) return { staged, patch: files.map((f) => f.diff ?? "").join(""), cut: false };
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const { data } of stream("GitService/GitDiff", { contextId, stagedId: id }, { signal })) {
    const part = bytesOf(data);
    parts.push(part);
    size += part.length;
    if (size > maxPatch) break;
  }
  return { staged, patch: decode(joined(parts)).text, cut: size > maxPatch };
}

function OneCommit({ contextId, id, onDone }: { contextId: string; id: string; onDone: () => void }) {
  const { data, error, reload } = useAsync((signal) => load(contextId, id, signal), [contextId, id]);
  const [open, setOpen] = useState<"push" | "discard">();
  if (!data) return <div className="page">{error === undefined ? <Spinner /> : <ErrorNote error={error} retry={reload} />}</div>;
  const { staged, patch, cut } = data;
  const { pushed } = staged;
  const files = (staged.files ?? []).slice(0, maxFiles);
  return (
    <div className="rv-one">
      <div className="rv-head">
        <div className="row wrap grow"><h2 className="rv-path">{titleOf(staged)}</h2>{pushed && <Badge tone="good">pushed</Badge>}</div>
        {!pushed && <div className="row"><Button small onClick={() => setOpen("discard")}>Discard…</Button><Button small kind="primary" onClick={() => setOpen("push")}>Push…</Button></div>}
      </div>
      <div className="rv-commit">
        <pre>{staged.message}</pre>
        <dl className="rv-facts">
          <dt>Commit</dt><dd className="mono rv-break">{staged.commit}</dd>
          <dt>Parent</dt><dd className="mono rv-break">{staged.parent || "none: the first commit"}</dd>
          <dt>Branch</dt><dd><code>{staged.branch}</code> of {repositoryWord(staged.repo)}</dd>
          <dt>Author</dt><dd>{staged.author}</dd>
          <dt>Staged</dt><dd>{time(staged.createdNs)}{staged.panelId && ` by ${staged.panelId}`}</dd>
          {pushed && <><dt>Pushed</dt><dd>{time(pushed.pushedNs)} as <code>{short(pushed.commit)}</code> to <code>{pushed.branch}</code>{pushed.url && ` of ${pushed.url}`}</dd></>}
        </dl>
        <details>
          <summary>{count(staged.fileCount, "file")}</summary>
          <ul className="rv-list">
            {files.map((f) => <FileLine key={keyOf(f)} file={f} />)}
            {num(staged.fileCount) > files.length && <li className="dim">and {count(num(staged.fileCount) - files.length, "more file", "more files")}</li>}
          </ul>
        </details>
      </div>
      {cut && <p className="rv-note">The patch is longer than 8 MiB: this is its begin. ‘ctxfs git show’ prints all of it.</p>}
      <PatchView text={patch} label={`Patch of ${titleOf(staged)}`} />
      {open === "push" && <PushDialog staged={staged} onClose={() => setOpen(undefined)} onDone={() => { reload(); onDone(); }} />}
      {open === "discard" && (
        <Confirm title="Discard the staged commit" action="Discard" danger onClose={() => setOpen(undefined)} onConfirm={async () => {
          await call("GitService/DiscardStaged", { id });
          toast("Discarded the staged commit. The context keeps its changes.", "good");
          onDone();
        }}>
          <p>The commit <code>{short(staged.commit)}</code> is forgotten, and cannot be brought back. The context keeps its changes, so the panel can stage them again.</p>
        </Confirm>
      )}
    </div>
  );
}

const operations: Readonly<Record<string, string>> = { GIT_OPERATION_CREATE: "A", GIT_OPERATION_UPDATE: "M", GIT_OPERATION_DELETE: "D" };

function FileLine({ file }: { file: GitFile }) {
  return (
    <li>
      <code>{operations[file.operation ?? ""] ?? "?"}</code> <span className="mono rv-break"><bdi>{nameOf(file)}</bdi></span>{" "}
      {file.binary ? <span className="dim">binary</span> : <LineCounts added={num(file.additions)} removed={num(file.deletions)} />}
      {file.renameFrom && <span className="dim"> was {file.renameFrom}</span>}
    </li>
  );
}

