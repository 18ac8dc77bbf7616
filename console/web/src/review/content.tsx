// The content of a change: a diff of lines, or words for what has none.
import { useEffect, useMemo, useRef, type RefObject } from "react";
import type { Change } from "../gen/api";
import { languageOf } from "../editor/languages";
import { Button, count, Empty, ErrorNote, Note, size, Spinner, type Async } from "../ui";
import type { Content } from "./data";
import { undecidable } from "./decisions";
import type { Act, PartState } from "./diffmodel";
import { showDiff, type DiffHandle } from "./diffview";
import type { Form, TextDiff } from "./rows";
import { shownPath } from "./text";
import { modeOf } from "./words";

interface ContentProps {
  content: Async<Content | undefined>;
  form: Form;
  wrap: boolean;
  states: readonly PartState[];
  current: number;
  /** The part that is scrolled to when the diff is shown first. */
  start: number;
  handle: RefObject<DiffHandle | null>;
  onAct: (part: number, act: Act) => void;
  onSelect: (part: number) => void;
  onReload: () => void;
}

export function ChangeContent(props: ContentProps) {
  const { content, onReload } = props;
  if (!content.data) return <div className="page">{content.error === undefined ? <Spinner /> : <ErrorNote error={content.error} retry={onReload} />}</div>;
  switch (content.data.kind) {
    case "text": return <TextChange {...props} change={content.data.change} diff={content.data.diff} lossy={content.data.lossy} />;
    case "link": return <LinkChange before={content.data.before} after={content.data.after} change={content.data.change} />;
    case "facts": return <Facts change={content.data.change} />;
    case "moving": return <div className="page"><Note tone="warn"><p>The file changes while it is read, so there is nothing that a decision could be about.</p><p><Button small onClick={onReload}>Try again</Button></p></Note></div>;
    case "gone": return <Empty title="The file is no longer changed"><Button onClick={onReload}>Reload the list</Button></Empty>;
  }
}

function TextChange({ change, diff: read, lossy, form, wrap, states, current, start, handle, onAct, onSelect }: ContentProps & { change: Change; diff: TextDiff; lossy: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef({ onAct, onSelect, states, current, start });
  useEffect(() => { latest.current = { onAct, onSelect, states, current, start }; });
  const path = change.path ?? "";
  const decidable = undecidable(change) === undefined;
  const { changeId } = change;
  // The ID covers both versions: as long as it is the same, what is shown stays, with where it is scrolled to.
  // eslint-disable-next-line react-hooks/exhaustive-deps
  const diff = useMemo(() => read, [changeId]);
  useEffect(() => {
    if (!place.current) return;
    const made = showDiff(place.current, diff, {
      form, wrap, path: shownPath(path), decidable, language: languageOf(path),
      onAct: (part, act) => latest.current.onAct(part, act),
      onSelect: (part) => latest.current.onSelect(part),
    });
    handle.current = made;
    made.show(latest.current.states, latest.current.current);
    if (latest.current.start > 0) made.scrollTo(latest.current.start);
    else place.current.scrollTop = 0;
    return () => {
      handle.current = null;
      made.destroy();
    };
  }, [diff, form, wrap, path, decidable, handle]);
  const shape = useMemo(() => JSON.stringify(states), [states]);
  useEffect(() => {
    handle.current?.show(latest.current.states, current);
  }, [shape, current, handle]);
  const empty = diff.before.length + diff.after.length === 0;
  return (
    <>
      {lossy && <p className="rv-note">The file is not UTF-8: bytes that are no characters are shown as �. A decision covers the bytes.</p>}
      {modeChange(change) && <p className="rv-note">{modeChange(change)}</p>}
      {empty && <p className="rv-note">The file is empty.</p>}
      <EndNote diff={diff} />
      <div className={`rv-diff rv-form-${form}`} ref={place} role="region" aria-label={`Diff of ${shownPath(path)}`} />
    </>
  );
}

function EndNote({ diff }: { diff: TextDiff }) {
  if (diff.before.length === 0 || diff.after.length === 0 || diff.beforeOpen === diff.afterOpen) return null;
  return <p className="rv-note">{diff.afterOpen ? "The last line loses its newline." : "The last line gets a newline."}</p>;
}

function modeChange(change: Change): string {
  if (!change.before || !change.after) return "";
  const [before, after] = [change.before.mode ?? 0, change.after.mode ?? 0];
  if ((before & 0o111) === (after & 0o111)) return "";
  return `The file ${after & 0o111 ? "becomes executable" : "is no longer executable"}: mode ${modeOf(change.before)} → ${modeOf(change.after)}. Deciding on the whole file decides on the mode too.`;
}

function LinkChange({ change, before, after }: { change: Change; before: string | undefined; after: string | undefined }) {
  return (
    <div className="page">
      <dl className="rv-facts">
        <dt>Before</dt><dd>{before === undefined ? what(change.before) : <>a link to <code className="rv-removed-text">− {before}</code></>}</dd>
        <dt>After</dt><dd>{after === undefined ? what(change.after) : <>a link to <code className="rv-added-text">+ {after}</code></>}</dd>
      </dl>
      <p className="dim">A link is decided on as a whole. Nothing follows it.</p>
    </div>
  );
}

function what(version: Change["before"]): string {
  if (!version) return "nothing";
  const type = version.type === "FILE_TYPE_SYMLINK" ? "a link" : version.type === "FILE_TYPE_FILE" || !version.type ? "a file" : (version.type.replace("FILE_TYPE_", "a ").toLowerCase());
  return `${type} of ${size(version.size)}, mode ${modeOf(version)}`;
}

function Facts({ change }: { change: Change }) {
  return (
    <div className="page">
      {change.content === "CONTENT_KIND_BINARY" && <Note>The file is binary: it has no lines to compare.</Note>}
      {change.content === "CONTENT_KIND_TOO_LARGE" && <Note>The file is larger than 4 MiB, so it is not compared line by line.</Note>}
      {change.content === "CONTENT_KIND_TREE" && <Note>A new directory that the workspace ignores, with {count(change.treeEntries, "file")} of {size(change.treeBytes)}. “Approve all” leaves it out.</Note>}
      {change.rawPath && <Note>The path is not UTF-8. ‘ctxfs diff’ shows its content.</Note>}
      {change.barred && <Note tone="bad">This is never applied: {change.barred}.</Note>}
      {modeChange(change) && <Note>{modeChange(change)}</Note>}
      <dl className="rv-facts">
        <dt>Before</dt><dd>{what(change.before)}{change.before?.sha256 && <span className="dim mono rv-hash">{change.before.sha256}</span>}</dd>
        <dt>After</dt><dd>{what(change.after)}{change.after?.sha256 && <span className="dim mono rv-hash">{change.after.sha256}</span>}</dd>
      </dl>
    </div>
  );
}
