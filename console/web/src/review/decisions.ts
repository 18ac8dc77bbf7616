import type { Change, Decision, Hunk, SelectedChange } from "../gen/api";

/** What was decided on a hunk or on a whole change, with the reviewer's remark. */
export interface Verdict {
  decision: Decision;
  comment: string;
}

export const pending: Verdict = { decision: "DECISION_UNSPECIFIED", comment: "" };

/** What was decided on a change. */
export interface Decided {
  changeId: string;
  /** On the whole change; it counts for each hunk. */
  whole: Verdict;
  /** By hunk ID, in the order of the file; undefined until the diff of the change is loaded. */
  hunks: ReadonlyMap<string, Verdict> | undefined;
  /** Counts of the list, until the hunks are loaded. */
  counts: { hunks: number; approved: number; rejected: number };
}

/** One step of a person, which takes one or more calls to do and to undo. */
export interface Step {
  id: number;
  path: string;
  /** What it was about, for people. */
  title: string;
  /** What brings back what was before. */
  back: Ask[];
}

/** A decision to send: on hunks, or on the whole change if there are none. */
export interface Ask {
  path: string;
  hunkIds: string[];
  verdict: Verdict;
}

export interface State {
  files: ReadonlyMap<string, Decided>;
  /** What can be undone, the last one last. */
  steps: readonly Step[];
}

export const empty: State = { files: new Map(), steps: [] };

export type Action =
  | { type: "listed"; changes: readonly Change[] }
  | { type: "loaded"; change: Change; hunks: readonly Hunk[] }
  | { type: "decided"; id: number; ask: Ask; title: string }
  | { type: "undone" }
  /** The server did not take the step. */
  | { type: "refused"; id: number };

/** The key of a change: its path, or the base64 of one that is not UTF-8. */
export function keyOf(named: { path?: string; rawPath?: string }): string {
  return named.rawPath ? `raw:${named.rawPath}` : (named.path ?? "");
}

/** Names a change by its key. */
export function named(key: string): SelectedChange {
  return key.startsWith("raw:") ? { rawPath: key.slice(4) } : { path: key };
}

export function reduce(state: State, action: Action): State {
  switch (action.type) {
    case "listed":
      return listed(state, action.changes);
    case "loaded":
      return loaded(state, action.change, action.hunks);
    case "decided": {
      const file = state.files.get(action.ask.path);
      if (file === undefined) return state;
      const step = { id: action.id, path: action.ask.path, title: action.title, back: backOf(action.ask, file) };
      return { files: withFile(state, action.ask.path, decide(file, action.ask)), steps: [...state.steps.slice(-99), step] };
    }
    case "undone":
      return without(state, state.steps.at(-1));
    case "refused":
      return without(state, state.steps.find((step) => step.id === action.id));
  }
}

// Brings back what was before a step.
function without(state: State, step: Step | undefined): State {
  if (step === undefined) return state;
  let files: ReadonlyMap<string, Decided> = state.files;
  for (const ask of step.back) {
    const file = files.get(ask.path);
    if (file !== undefined) files = withFile({ ...state, files }, ask.path, decide(file, ask));
  }
  return { files, steps: state.steps.filter((other) => other !== step) };
}

// A list says how many hunks are decided. What is known of the hunks stays as long as the change is the same and the counts agree.
function listed(state: State, changes: readonly Change[]): State {
  const files = new Map<string, Decided>();
  for (const change of changes) {
    const key = keyOf(change);
    const fresh = ofChange(change);
    const old = state.files.get(key);
    const agrees = old !== undefined && old.changeId === fresh.changeId && sameCounts(countsOf(old), countsOf(fresh));
    files.set(key, agrees ? { ...fresh, hunks: old.hunks } : fresh);
  }
  // A step about something that is not there any more cannot be undone.
  const steps = state.steps.filter((s) => state.files.get(s.path)?.changeId === files.get(s.path)?.changeId);
  return { files, steps };
}

// A diff may be of a newer change than the list. A step about the older one cannot be undone.
function loaded(state: State, change: Change, hunks: readonly Hunk[]): State {
  const key = keyOf(change);
  const old = state.files.get(key);
  const file = ofDiff(change, hunks);
  const steps = old === undefined || old.changeId === file.changeId ? state.steps : state.steps.filter((step) => step.path !== key);
  return { files: withFile(state, key, file), steps };
}

function ofChange(change: Change): Decided {
  return {
    changeId: change.changeId ?? "",
    whole: { decision: change.decision ?? "DECISION_UNSPECIFIED", comment: change.comment ?? "" },
    hunks: undefined,
    counts: { hunks: change.hunks ?? 0, approved: change.approvedHunks ?? 0, rejected: change.rejectedHunks ?? 0 },
  };
}

function ofDiff(change: Change, hunks: readonly Hunk[]): Decided {
  const verdicts = new Map<string, Verdict>();
  for (const h of hunks) verdicts.set(h.hunkId ?? "", { decision: h.decision ?? "DECISION_UNSPECIFIED", comment: h.comment ?? "" });
  return { ...ofChange(change), hunks: verdicts };
}

function withFile(state: State, key: string, file: Decided): ReadonlyMap<string, Decided> {
  return new Map(state.files).set(key, file);
}

function decide(file: Decided, ask: Ask): Decided {
  if (ask.hunkIds.length === 0) {
    const hunks = file.hunks && new Map([...file.hunks.keys()].map((id) => [id, ask.verdict] as const));
    const n = file.counts.hunks;
    const is = (d: Decision) => (ask.verdict.decision === d ? n : 0);
    return { ...file, whole: ask.verdict, hunks, counts: { hunks: n, approved: is("DECISION_APPROVED"), rejected: is("DECISION_REJECTED") } };
  }
  const hunks = new Map(file.hunks);
  for (const id of ask.hunkIds) if (hunks.has(id)) hunks.set(id, ask.verdict);
  return { ...file, whole: pending, hunks };
}

// What was before is asked for hunk by hunk, since the hunks may have had different decisions.
function backOf(ask: Ask, file: Decided): Ask[] {
  const hunks = file.hunks;
  if (hunks === undefined || hunks.size === 0) return [{ path: ask.path, hunkIds: [], verdict: file.whole }];
  const ids = ask.hunkIds.length === 0 ? [...hunks.keys()] : ask.hunkIds;
  const groups = new Map<string, Ask>();
  for (const id of ids) {
    const verdict = hunks.get(id) ?? pending;
    const key = `${verdict.decision} ${verdict.comment}`;
    const group = groups.get(key) ?? { path: ask.path, hunkIds: [], verdict };
    group.hunkIds.push(id);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Counts the hunks of a change; one without hunks counts as one. */
export function countsOf(file: Decided): { hunks: number; approved: number; rejected: number } {
  const total = file.hunks?.size ?? file.counts.hunks;
  if (total === 0) {
    const is = (d: Decision) => (file.whole.decision === d ? 1 : 0);
    return { hunks: 1, approved: is("DECISION_APPROVED"), rejected: is("DECISION_REJECTED") };
  }
  if (file.hunks !== undefined) {
    const of = (d: Decision) => [...(file.hunks?.values() ?? [])].filter((v) => v.decision === d).length;
    return { hunks: total, approved: of("DECISION_APPROVED"), rejected: of("DECISION_REJECTED") };
  }
  if (file.whole.decision === "DECISION_APPROVED") return { hunks: total, approved: total, rejected: 0 };
  if (file.whole.decision === "DECISION_REJECTED") return { hunks: total, approved: 0, rejected: total };
  return file.counts;
}

function sameCounts(a: ReturnType<typeof countsOf>, b: ReturnType<typeof countsOf>): boolean {
  return a.hunks === b.hunks && a.approved === b.approved && a.rejected === b.rejected;
}

export type FileState = "pending" | "approved" | "rejected" | "partly";

export function stateOf(file: Decided | undefined): FileState {
  if (file === undefined) return "pending";
  const { hunks, approved, rejected } = countsOf(file);
  if (approved === hunks) return "approved";
  if (rejected === hunks) return "rejected";
  return approved + rejected > 0 ? "partly" : "pending";
}

/** The verdict on a part of a change; the ID "" is the whole change. */
export function verdictOf(file: Decided | undefined, id: string): Verdict {
  if (file === undefined) return pending;
  return id === "" ? file.whole : (file.hunks?.get(id) ?? file.whole);
}

/** Why a change cannot be decided on, or undefined if it can. */
export function undecidable(change: Change): string | undefined {
  if (change.barred) return `It is never applied (${change.barred}).`;
  if (change.unstable) return "Another program is writing it. Reload when it has finished.";
  return undefined;
}
