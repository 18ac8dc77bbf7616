// The list of changed files, and the head of the one that is shown.
import { useEffect } from "react";
import { num } from "../api";
import { rawName, shownName } from "../files/names";
import type { Change } from "../gen/api";
import { Badge, Button, useVirtual } from "../ui";
import { keyOf, stateOf, undecidable, type FileState, type State } from "./decisions";
import type { Command } from "./keys";
import { shownPath } from "./text";
import { kindOf, remarksOf, stateWords } from "./words";

const rowHeight = 46;

interface ListProps {
  changes: readonly Change[];
  state: State;
  current: number;
  onSelect: (index: number) => void;
}

export function FileList({ changes, state, current, onSelect }: ListProps) {
  const { scroller, from, to, reveal } = useVirtual(changes.length, rowHeight);
  useEffect(() => reveal(current), [current, reveal]);
  return (
    <nav className="rv-files" aria-label="Changed files" ref={scroller}>
      <div className="rv-files-all" style={{ height: changes.length * rowHeight }}>
        {changes.slice(from, to).map((change, i) => (
          <FileRow key={keyOf(change)} change={change} state={stateOf(state.files.get(keyOf(change)))} top={(from + i) * rowHeight} current={from + i === current} onSelect={() => onSelect(from + i)} />
        ))}
      </div>
    </nav>
  );
}

function FileRow({ change, state, top, current, onSelect }: { change: Change; state: FileState; top: number; current: boolean; onSelect: () => void }) {
  const path = nameOf(change);
  const cut = path.lastIndexOf("/") + 1;
  const { letter, word } = kindOf(change);
  const remarks = remarksOf(change);
  return (
    <button type="button" className="rv-file" style={{ top, height: rowHeight }} aria-current={current ? "true" : undefined} onClick={onSelect} title={[path, ...remarks].join("\n")}>
      <span className={`rv-sign rv-is-${state}`} aria-label={stateWords[state].word}>{stateWords[state].sign}</span>
      <span className="rv-kind" aria-label={word}>{letter}</span>
      <span className="rv-name">
        <span className="rv-line">
          <span className="truncate grow"><bdi>{path.slice(cut)}</bdi></span>
          <span className="lines rv-counts">
            {num(change.addedLines) > 0 && <span className="added">+{change.addedLines}</span>} {num(change.removedLines) > 0 && <span className="removed">−{change.removedLines}</span>}
          </span>
        </span>
        <span className="rv-line dim rv-sub">
          {cut > 0 && <span className="truncate rv-folder"><bdi>{path.slice(0, cut)}</bdi></span>}
          {remarks.length > 0 && <span className="truncate"><bdi>{`${cut > 0 ? "· " : ""}${remarks.join(" · ")}`}</bdi></span>}
        </span>
      </span>
    </button>
  );
}

/** The path of a change for people. */
export function nameOf(change: { path?: string; rawPath?: string }): string {
  return change.rawPath ? shownName(rawName(change.rawPath)).replace(/^\//, "") : shownPath(change.path ?? "");
}

interface HeadProps {
  change: Change;
  state: FileState;
  parts: number;
  current: number;
  onStep: (command: Command) => void;
  onApprove: () => void;
  onReject: () => void;
  onReset: () => void;
  onRemark: () => void;
}

export function FileHead({ change, state, parts, current, onStep, onApprove, onReject, onReset, onRemark }: HeadProps) {
  const why = undecidable(change);
  const { sign, word } = stateWords[state];
  return (
    <div className="rv-head">
      <div className="row wrap grow">
        <h2 className="rv-path"><bdi>{nameOf(change)}</bdi></h2>
        <Badge>{kindOf(change).word}</Badge>
        {remarksOf(change).map((remark) => <Badge key={remark} tone={remark === "conflict" || change.barred ? "bad" : "warn"}>{remark}</Badge>)}
        <span className={`rv-state rv-is-${state}`}>{sign} {word}</span>
        {change.comment && <span className="dim rv-remark" title={change.comment}>“{change.comment}”</span>}
      </div>
      <div className="row">
        {parts > 1 && (
          <span className="row nowrap">
            <Button small icon aria-label="Previous hunk" title="Previous hunk (k)" onClick={() => onStep("previousHunk")}>↑</Button>
            <span className="dim num">{current + 1}/{parts}</span>
            <Button small icon aria-label="Next hunk" title="Next hunk (j)" onClick={() => onStep("nextHunk")}>↓</Button>
          </span>
        )}
        {why === undefined ? (
          <span className="row" role="group" aria-label="Decide on the whole file">
            <Button small aria-pressed={state === "approved"} title="Approve the file (Shift+A)" onClick={state === "approved" ? onReset : onApprove}>Approve file</Button>
            <Button small aria-pressed={state === "rejected"} title="Reject the file (Shift+R)" onClick={state === "rejected" ? onReset : onReject}>Reject file</Button>
            <Button small onClick={onRemark}>Remark</Button>
          </span>
        ) : <span className="dim">{why}</span>}
      </div>
    </div>
  );
}
