// Conflicts that a rebase recorded: their three sides, and the result that resolves them.
import { useCallback, useEffect, useRef, useState } from "react";
import { asApiError, base64Of, call, num } from "../api";
import Viewer from "../editor/viewer";
import type { RecordedConflict, Resolution } from "../gen/api";
import { go } from "../router";
import { announce, Badge, Button, count, Empty, ErrorNote, Note, Spinner, Split, Tabs, toast, useAsync, useNarrow } from "../ui";
import type { ContextViewProps } from "../views";
import { readVersion } from "./data";
import { keyOf, named } from "./decisions";
import { nameOf } from "./filelist";
import { findMarked } from "./markers";
import { Refusal } from "./outcome";
import { RebaseDialog } from "./rebase";
import { showResult, type ResultEditor } from "./resulteditor";
import { sha256 } from "./sha256";
import { decode } from "./text";
import { conflictWord } from "./words";
import "./review.css";

export default function Conflicts({ contextId, rest }: ContextViewProps) {
  const { data, error, reload } = useAsync(async (signal) => (await call("ReviewService/ListConflicts", { contextId }, { signal })).conflicts ?? [], [contextId]);
  const [rebasing, setRebasing] = useState(false);
  if (!data) return <div className="page">{error === undefined ? <Spinner /> : <ErrorNote error={error} retry={reload} />}</div>;
  const current = data.find((c) => keyOf(c) === rest[0]) ?? data[0];
  return (
    <div className="rv">
      <div className="bar rv-bar">
        <span className="grow">{data.length > 0 ? `${count(data.length, "conflict")} to resolve. Apply refuses these files until then.` : "A rebase brings into the context what the workspace changed since."}</span>
        <Button small onClick={reload}>Reload</Button>
        <Button small kind={data.length === 0 ? "primary" : undefined} onClick={() => setRebasing(true)}>Rebase…</Button>
      </div>
      {error !== undefined && <ErrorNote error={error} retry={reload} />}
      {current ? (
        <Split label="Width of the list of conflicts" name="conflicts" initial={260} side={
          <nav className="rv-files" aria-label="Conflicts">
            {data.map((c) => (
              <button type="button" key={keyOf(c)} className="rv-conflict" aria-current={c === current ? "true" : undefined} onClick={() => go(["contexts", contextId, "conflicts", keyOf(c)], { replace: true })}>
                <span className="rv-break"><bdi>{nameOf(c)}</bdi></span>
                <span className="dim rv-sub">{conflictWord(c.kind)}</span>
              </button>
            ))}
          </nav>
        }>
          <OneConflict key={`${keyOf(current)} ${current.recordedNs ?? ""}`} contextId={contextId} conflict={current} onDone={reload} />
        </Split>
      ) : <Empty title="No conflicts"><p>Rebase with “record” or “markers” lists here what it cannot merge.</p></Empty>}
      {rebasing && <RebaseDialog contextId={contextId} onClose={() => setRebasing(false)} onDone={reload} />}
    </div>
  );
}

interface Sides {
  /** Undefined where that side has no file. */
  base: string | undefined;
  context: string | undefined;
  workspace: string | undefined;
  /** With markers; undefined if the versions are no texts. */
  merged: string | undefined;
  /** What the context holds now. */
  now: { text: string | undefined; sha256: string };
  binary: boolean;
}

async function readSides(contextId: string, conflict: RecordedConflict, signal: AbortSignal): Promise<Sides> {
  const read = (there: unknown, version: Parameters<typeof readVersion>[2]) => (there ? readVersion(contextId, conflict, version, signal) : Promise.resolve(undefined));
  const [base, context, workspace, merged, now] = await Promise.all([
    read(conflict.base, "VERSION_BASE"), read(conflict.context, "VERSION_CONFLICT_CONTEXT"), read(conflict.workspace, "VERSION_CONFLICT_WORKSPACE"),
    // Versions that are no texts have no merge.
    readVersion(contextId, conflict, "VERSION_MERGED", signal).catch(ignore("EINVAL")),
    readNow(contextId, conflict, signal),
  ]);
  const all = [base, context, workspace].filter((v) => v !== undefined);
  const binary = all.some((v) => v.subarray(0, 8000).includes(0) || decode(v).lossy);
  const text = (v: Uint8Array | undefined) => v && decode(v).text;
  return { base: text(base), context: text(context), workspace: text(workspace), merged: text(merged), now, binary };
}

function ignore(...reasons: string[]): (error: unknown) => undefined {
  return (error) => {
    if (!reasons.includes(asApiError(error).reason)) throw error;
    return undefined;
  };
}

async function readNow(contextId: string, conflict: RecordedConflict, signal: AbortSignal): Promise<Sides["now"]> {
  try {
    const bytes = await readVersion(contextId, conflict, "VERSION_CONTEXT", signal);
    return { text: decode(bytes).text, sha256: sha256(bytes) };
  } catch (error) {
    ignore("ENOENT", "EINVAL")(error);
    return { text: undefined, sha256: "" };
  }
}

// What was merged by hand stays when another conflict is looked at, or when the context changes.
const drafts = new Map<string, string>();

interface OneProps {
  contextId: string;
  conflict: RecordedConflict;
  onDone: () => void;
}

function OneConflict({ contextId, conflict, onDone }: OneProps) {
  const sides = useAsync((signal) => readSides(contextId, conflict, signal), [contextId, keyOf(conflict), conflict.recordedNs]);
  if (!sides.data) return <div className="page">{sides.error === undefined ? <Spinner /> : <ErrorNote error={sides.error} retry={sides.reload} />}</div>;
  return <LoadedConflict contextId={contextId} conflict={conflict} onDone={onDone} data={sides.data} reload={sides.reload} />;
}

function LoadedConflict({ contextId, conflict, onDone, data, reload }: OneProps & { data: Sides; reload: () => void }) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const draft = `${contextId} ${keyOf(conflict)} ${conflict.recordedNs ?? ""}`;
  const editor = useRef<ResultEditor>(null);
  // The editor starts with this text and reports each change: it is always what the editor shows.
  const [text, setText] = useState(() => drafts.get(draft) ?? data.merged ?? data.now.text ?? data.workspace ?? "");
  const type = useCallback((to: string) => {
    drafts.set(draft, to);
    setText(to);
  }, [draft]);
  const resolve = async (resolution: Resolution) => {
    setBusy(true);
    setError(undefined);
    try {
      const content = resolution === "RESOLUTION_CONTENT" ? { content: base64Of(new TextEncoder().encode(text)) } : {};
      const { journalId } = await call("ReviewService/ResolveConflict", { contextId, ...named(keyOf(conflict)), resolution, ifSha256: data.now.sha256, ...content });
      drafts.delete(draft);
      toast(`Resolved ${nameOf(conflict)}. Undo of entry ${journalId ?? ""} in the journal brings the conflict back.`, "good");
      onDone();
    } catch (failed) {
      setError(failed);
      if (asApiError(failed).reason === "STALE_REVISION") reload();
    } finally {
      setBusy(false);
    }
  };
  const left = findMarked(text).length;
  const moved = !conflict.markers && (conflict.context?.sha256 ?? "") !== data.now.sha256;
  const path = nameOf(conflict);
  return (
    <div className="rv-one">
      <div className="rv-head">
        <div className="row wrap grow"><h2 className="rv-path"><bdi>{path}</bdi></h2><Badge tone="bad">conflict</Badge><span className="dim">{conflictWord(conflict.kind)}</span></div>
        <div className="row wrap" role="group" aria-label="Resolve with a whole version">
          <Button small disabled={busy} onClick={() => void resolve("RESOLUTION_CONTEXT")}>Keep the context’s</Button>
          <Button small disabled={busy} onClick={() => void resolve("RESOLUTION_WORKSPACE")}>Take the workspace’s</Button>
          <Button small disabled={busy} onClick={() => void resolve("RESOLUTION_BASE")}>Back to the base</Button>
        </div>
      </div>
      {moved && <p className="rv-note">The panel changed the file since the conflict was recorded. “Context” is what was recorded; start from “context now” to see the newer one.</p>}
      {error !== undefined && <Refusal error={error} />}
      {data.binary ? <BinarySides conflict={conflict} /> : <>
        <ThreeSides sides={data} path={path} />
        <div className="rv-result-head">
          <h3 className="grow">Result {left > 0 ? <Badge tone="warn">{count(left, "conflict")} left</Badge> : <Badge tone="good">no markers left</Badge>}</h3>
          <label className="row nowrap">Start from
            <select value="" onChange={(event) => { editor.current?.replace(startOf(data, event.target.value)); announce(`The result starts from ${event.target.value}`); }}>
              <option value="" disabled>…</option>
              {data.merged !== undefined && <option value="merge">the merge</option>}
              {data.now.text !== undefined && <option value="now">context now</option>}
              {data.workspace !== undefined && <option value="workspace">workspace</option>}
              {data.base !== undefined && <option value="base">base</option>}
            </select>
          </label>
          <Button small kind="primary" disabled={busy || left > 0} title={left > 0 ? "Decide on each conflict first" : undefined} onClick={() => void resolve("RESOLUTION_CONTENT")}>Resolve with the result</Button>
        </div>
        <Result start={text} path={path} editor={editor} onChange={type} />
      </>}
    </div>
  );
}

function startOf(sides: Sides, name: string): string {
  return { merge: sides.merged, now: sides.now.text, workspace: sides.workspace, base: sides.base }[name] ?? "";
}

function Result({ start, path, editor, onChange }: { start: string; path: string; editor: { current: ResultEditor | null }; onChange: (text: string) => void }) {
  const place = useRef<HTMLDivElement>(null);
  const first = useRef(start);
  useEffect(() => {
    if (!place.current) return;
    const made = showResult(place.current, first.current, path, onChange);
    editor.current = made;
    return () => {
      editor.current = null;
      made.destroy();
    };
  }, [path, onChange, editor]);
  return <div className="rv-result" ref={place} />;
}

const sideNames = [["workspace", "Workspace"], ["base", "Base"], ["context", "Context"]] as const;

function ThreeSides({ sides, path }: { sides: Sides; path: string }) {
  const narrow = useNarrow();
  const [shown, setShown] = useState<string>("workspace");
  const view = (side: "workspace" | "base" | "context", title: string) => sides[side] === undefined ? <p className="rv-none dim">No file</p> : <Viewer text={sides[side]} path={path} label={`${title}: ${path}`} />;
  if (narrow) {
    return (
      <div className="rv-sides-narrow">
        <Tabs label="Sides of the conflict" tabs={sideNames.map(([id, label]) => ({ id, label }))} current={shown} onSelect={setShown}>
          {sideNames.filter(([id]) => id === shown).map(([id, title]) => <div key={id} className="rv-side-view">{view(id, title)}</div>)}
        </Tabs>
      </div>
    );
  }
  return <div className="rv-sides">{sideNames.map(([id, title]) => <section key={id} className={`rv-side rv-title-${id}`} aria-label={title}><h3>{title}</h3><div className="rv-side-view">{view(id, title)}</div></section>)}</div>;
}

function BinarySides({ conflict }: { conflict: RecordedConflict }) {
  return (
    <div className="page">
      <Note>The versions are no texts that can be merged by hand: choose one of them.</Note>
      <dl className="rv-facts">
        {sideNames.map(([id, title]) => <div key={id} className="rv-fact"><dt>{title}</dt><dd>{conflict[id] ? `${num(conflict[id].size).toLocaleString("en")} bytes` : "no file"}{conflict[id]?.sha256 && <span className="dim mono rv-hash">{conflict[id].sha256}</span>}</dd></div>)}
      </dl>
    </div>
  );
}
