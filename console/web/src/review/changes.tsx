// What a context changed: the files, the diff of one of them, and the decisions.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { num } from "../api";
import { LineCounts } from "../contexts/review";
import type { Change } from "../gen/api";
import { go } from "../router";
import { announce, Badge, Button, Confirm, count, Empty, ErrorNote, Note, Spinner, Split, toast, useAsync, useHotkeys, useNarrow } from "../ui";
import type { ContextViewProps } from "../views";
import { ApplyDialog } from "./apply";
import { ChangeContent } from "./content";
import { loadContent } from "./data";
import { countsOf, keyOf, pending, stateOf, undecidable, verdictOf, type Verdict } from "./decisions";
import type { Act, PartState } from "./diffmodel";
import type { DiffHandle } from "./diffview";
import { FileHead, FileList } from "./filelist";
import { GoneNote } from "./gone";
import { bindings, move, type Command } from "./keys";
import { RemarkDialog } from "./remark";
import { partLines, type Form, type Part } from "./rows";
import { SubmittedNote } from "./submitted";
import { shownPath } from "./text";
import { useReview, type Reviewing, type Seen } from "./usereview";
import "./review.css";

export default function Changes({ contextId, rest }: ContextViewProps) {
  const review = useReview(contextId);
  const { list } = review;
  if (!list.data) return <div className="page">{list.error === undefined ? <Spinner label="Comparing the context with its base" /> : <ErrorNote error={list.error} retry={list.reload} />}</div>;
  return <Loaded contextId={contextId} review={review} changes={list.data.changes} wanted={rest[0] ?? ""} />;
}

const formKey = "ctxfs-console-diff-form";

interface LoadedProps {
  contextId: string;
  review: Reviewing;
  changes: readonly Change[];
  wanted: string;
}

/** What a decision is about. A hunk's ID and the change's ID cover what the person saw of them. */
interface Target {
  change: Change;
  /** None for the whole change. */
  hunkIds: string[];
  /** In words: short beside the hunk, and in full for a dialog. */
  name: string;
  title: string;
  verdict: Verdict;
}

/** An open dialog, with what it is about as it was when the dialog opened. */
type Open = { kind: "apply"; change: Change | undefined; seen: Seen } | { kind: "approveAll"; seen: Seen } | { kind: "remark"; target: Target };

function Loaded({ contextId, review, changes, wanted }: LoadedProps) {
  const narrow = useNarrow();
  const [chosen, setChosen] = useState<Form>(() => (sessionStorage.getItem(formKey) === "unified" ? "unified" : "split"));
  const form = narrow ? "unified" : chosen;
  const [open, setOpen] = useState<Open | undefined>();
  const [part, setPart] = useState(0);
  const diff = useRef<DiffHandle>(null);
  // A file that is gone gives its place to no other: a decision would be about a file that the person did not choose.
  const [first, setFirst] = useState("");
  if (first === "" && changes[0]) setFirst(keyOf(changes[0]));
  const index = changes.findIndex((c) => keyOf(c) === (wanted || first));
  const change = changes[index];
  const key = change ? keyOf(change) : "";
  const content = useAsync(async (signal) => (change ? loadContent(contextId, change, signal) : undefined), [contextId, key, change?.changeId]);
  // Another file's content is there until this one's begins to load.
  const inSight = content.data && (!("change" in content.data) || keyOf(content.data.change) === key) ? content.data : undefined;
  const shown = inSight && "change" in inSight ? inSight.change : change;
  const parts = useMemo<readonly Part[]>(() => (inSight?.kind === "text" ? inSight.diff.parts : [{ id: "", before: 0, beforeLines: 0, after: 0, afterLines: 0 }]), [inSight]);
  const { loaded, round } = review;
  const reloadContent = content.reload;
  useEffect(() => {
    if (round > 0) reloadContent();
  }, [round, reloadContent]);
  useEffect(() => {
    if (content.data?.kind === "text") loaded(content.data.change, content.data.hunks);
    if (content.data?.kind === "link" || content.data?.kind === "facts") loaded(content.data.change, []);
  }, [content.data, loaded]);
  const current = Math.min(part, parts.length - 1);

  const goTo = useCallback((file: number, to: number) => {
    const target = changes[file];
    if (!target) return;
    setPart(to);
    if (keyOf(target) !== key) {
      go(["contexts", contextId, "changes", keyOf(target)], { replace: true });
      announce(`${shownPath(target.path ?? "")}, file ${file + 1} of ${changes.length}`);
    } else diff.current?.scrollTo(to);
  }, [changes, contextId, key]);

  const decided = review.state.files.get(key);
  const partsOf = (file: number) => (file === index ? parts.length : Math.max(1, num(changes[file]?.hunks)));
  const step = (command: Command) => {
    const at = { file: index, part: current };
    const to = move(at, command, changes.length, partsOf);
    if (to === at) announce("There is no further change");
    else {
      goTo(to.file, to.part);
      if (to.file === index) announce(said(parts, to.part, stateFor(to.part)));
    }
  };
  const stateFor = (i: number): PartState["state"] => {
    const id = parts[i]?.id ?? "";
    if (id === "") return stateOf(decided);
    const { decision } = verdictOf(decided, id);
    return decision === "DECISION_APPROVED" ? "approved" : decision === "DECISION_REJECTED" ? "rejected" : "pending";
  };

  /** Names what a decision is about, or says why there can be none. Only `whole` decides on a file whose content is not in sight. */
  const targetOf = (whole: boolean, i: number): Target | undefined => {
    const part = parts[i];
    const barred = shown && undecidable(shown);
    if (barred !== undefined) toast(barred, "bad");
    else if (!shown || inSight?.kind === "gone") announce("The file is no longer changed.");
    else if (inSight?.kind === "moving") announce("The file changes while it is read. Reload first.");
    else if (!whole && !inSight) announce("The content is not shown yet: nothing was decided.");
    else if (!whole && !part) announce("The hunk is no longer there: nothing was decided.");
    else {
      const path = shownPath(shown.path ?? "the file");
      if (whole || !part || part.id === "") return { change: shown, hunkIds: [], name: path, title: path, verdict: whole ? pending : verdictOf(decided, "") };
      return { change: shown, hunkIds: [part.id], name: `hunk ${i + 1} of ${parts.length}`, title: `hunk ${i + 1}, ${partLines(part)}, of ${path}`, verdict: verdictOf(decided, part.id) };
    }
    return undefined;
  };
  const send = ({ change: on, hunkIds, name }: Target, verdict: Verdict): Promise<boolean> => {
    const word = { DECISION_APPROVED: "Approved", DECISION_REJECTED: "Rejected", DECISION_UNSPECIFIED: "Decision taken back:" }[verdict.decision];
    return review.decide(on, hunkIds, verdict, `${word} ${name}`);
  };
  const decide = (whole: boolean, i: number, verdict: Verdict): Promise<boolean> | undefined => {
    const target = targetOf(whole, i);
    return target && send(target, verdict);
  };
  const openRemark = (whole: boolean, i: number) => {
    const target = targetOf(whole, i);
    if (target) setOpen({ kind: "remark", target });
  };
  const openApply = () => setOpen({ kind: "apply", change: shown, seen: review.seen() });
  const act = (i: number, what: Act) => {
    setPart(i);
    if (what === "remark") openRemark(false, i);
    else if (what === "reset") void decide(false, i, pending);
    else void decide(false, i, { decision: what === "approve" ? "DECISION_APPROVED" : "DECISION_REJECTED", comment: "" });
  };
  const decideAndStep = (decision: Verdict["decision"]) => {
    if (!decide(false, current, { decision, comment: "" })) return;
    const to = move({ file: index, part: current }, "nextHunk", changes.length, partsOf);
    if (to.file === index) goTo(to.file, to.part);
    else if (to.part === 0) toast("That was the last hunk of the file: n goes to the next one");
  };
  const setForm = (to: Form) => {
    sessionStorage.setItem(formKey, to);
    setChosen(to);
    announce(`${to} diff`);
  };
  const commands: Record<Command, () => void> = {
    nextHunk: () => step("nextHunk"), previousHunk: () => step("previousHunk"), nextFile: () => step("nextFile"), previousFile: () => step("previousFile"),
    approve: () => decideAndStep("DECISION_APPROVED"),
    reject: () => decideAndStep("DECISION_REJECTED"),
    remark: () => openRemark(false, current),
    undo: review.undo,
    approveFile: () => void decide(true, 0, { decision: "DECISION_APPROVED", comment: "" }),
    rejectFile: () => void decide(true, 0, { decision: "DECISION_REJECTED", comment: "" }),
    form: () => setForm(chosen === "split" ? "unified" : "split"),
    apply: openApply,
  };
  useHotkeys("Changes", bindings.map(({ key: k, command, label }) => ({ key: k, label, run: () => commands[command]() })));

  const states: PartState[] = parts.map((p, i) => ({ state: stateFor(i), comment: verdictOf(decided, p.id).comment }));
  const page = changes.length === 0 ? (
    <div className="page">
      {review.notice && <Note tone="warn">{review.notice}</Note>}
      <GoneNote review={review} />
      <Empty title="No changes"><p>The context is as its base: what it was seeded with, and what was applied since.</p></Empty>
    </div>
  ) : (
    <div className="rv">
      <Bar review={review} form={form} narrow={narrow} onForm={setForm} onApply={openApply} onApproveAll={() => setOpen({ kind: "approveAll", seen: review.seen() })} />
      <SubmittedNote contextId={contextId} round={review.round} />
      <GoneNote review={review} />
      {review.notice && <div className="rv-notice" role="alert"><span className="grow">{review.notice}</span><Button small onClick={review.dismiss}>Close</Button></div>}
      {review.list.error !== undefined && <ErrorNote error={review.list.error} retry={review.reload} />}
      <Split label="Width of the file list" name="changes" initial={320} side={
        <Files narrow={narrow} changes={changes} review={review} index={index} onSelect={(i) => goTo(i, 0)} />
      }>
        {shown ? <>
          <FileHead change={shown} state={stateOf(decided)} parts={parts.length} current={current} onStep={step}
            onApprove={commands.approveFile} onReject={commands.rejectFile} onReset={() => void decide(true, 0, pending)} onRemark={() => openRemark(parts.length > 1 || !inSight, 0)} />
          <ChangeContent content={content} form={form} wrap={narrow} states={states} current={current} start={part} handle={diff} onAct={act} onSelect={setPart} onReload={review.reload} />
        </> : <Empty title="The file is no longer changed"><p>Choose another one from the list.</p></Empty>}
      </Split>
    </div>
  );
  const close = () => setOpen(undefined);
  // A dialog stays when the last change goes: it shows what was applied.
  return (
    <>
      {page}
      {open?.kind === "apply" && <ApplyDialog contextId={contextId} change={open.change} seen={open.seen} review={review} onClose={close} />}
      {open?.kind === "approveAll" && (
        <Confirm title="Approve all changes" action="Approve all" onConfirm={() => review.approveAll(open.seen)} onClose={close}>
          <p>All changes become approved, but for files and hunks that are rejected now. Sensitive and ignored files are left out too: decide on them one by one. Nothing is applied yet.</p>
        </Confirm>
      )}
      {open?.kind === "remark" && (
        <RemarkDialog draftKey={`${contextId} ${keyOf(open.target.change)}`} what={open.target.title} verdict={open.target.verdict} onClose={close} onSend={(verdict) => send(open.target, verdict)} />
      )}
    </>
  );
}

/** The list of files; on a phone it opens when it is asked for. */
function Files({ narrow, changes, review, index, onSelect }: { narrow: boolean; changes: readonly Change[]; review: Reviewing; index: number; onSelect: (index: number) => void }) {
  const [open, setOpen] = useState(false);
  const list = <FileList changes={changes} state={review.state} current={index} onSelect={(i) => { setOpen(false); onSelect(i); }} />;
  if (!narrow) return list;
  return (
    <>
      <div className="row rv-bar">
        <Button small className="grow" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "▾" : "▸"} {index < 0 ? count(changes.length, "file") : `File ${index + 1} of ${changes.length}`}</Button>
        <Button small disabled={index <= 0} onClick={() => onSelect(index - 1)}>Previous</Button>
        <Button small disabled={index + 1 >= changes.length} onClick={() => onSelect(index + 1)}>Next</Button>
      </div>
      {open && <div className="rv-open">{list}</div>}
    </>
  );
}

function said(parts: readonly Part[], i: number, state: string): string {
  const part = parts[i];
  return part === undefined || part.id === "" ? `Whole file, ${state}` : `Hunk ${i + 1} of ${parts.length}, ${partLines(part)}, ${state}`;
}

interface BarProps {
  review: Reviewing;
  form: Form;
  narrow: boolean;
  onForm: (form: Form) => void;
  onApply: () => void;
  onApproveAll: () => void;
}

function Bar({ review, form, narrow, onForm, onApply, onApproveAll }: BarProps) {
  const { summary = {}, changes = [] } = review.list.data ?? {};
  const total = { hunks: 0, approved: 0, rejected: 0 };
  for (const file of review.state.files.values()) {
    const counts = countsOf(file);
    total.hunks += counts.hunks;
    total.approved += counts.approved;
    total.rejected += counts.rejected;
  }
  const others = summary.otherContexts ?? [];
  return (
    <div className="bar rv-bar">
      <span>{count(changes.length, "file")}</span>
      <LineCounts added={num(summary.addedLines)} removed={num(summary.removedLines)} />
      <span className="dim nowrap">✓ {total.approved} approved · ✕ {total.rejected} rejected · ○ {total.hunks - total.approved - total.rejected} pending</span>
      {num(summary.drifted) > 0 && <Badge tone="warn" title="Apply merges, line by line">{count(summary.drifted, "file")} also changed in the workspace</Badge>}
      {others.length > 0 && <Badge tone="warn" title={others.map((o) => o.contextId).join(", ")}>also changed in {others[0]?.contextId}{others.length > 1 ? ` and ${others.length - 1} more` : ""}</Badge>}
      {review.lost && <span className="dim" role="status">connection lost, trying again</span>}
      <span className="grow" />
      {!narrow && (
        <span className="segments" role="group" aria-label="Form of the diff">
          <Button small aria-pressed={form === "split"} onClick={() => onForm("split")}>Split</Button>
          <Button small aria-pressed={form === "unified"} onClick={() => onForm("unified")}>Unified</Button>
        </span>
      )}
      <Button small onClick={review.undo} disabled={review.state.steps.length === 0}>Undo</Button>
      <Button small onClick={review.reload}>Reload</Button>
      <Button small onClick={onApproveAll}>Approve all…</Button>
      <Button small kind="primary" onClick={onApply}>Apply…</Button>
    </div>
  );
}
