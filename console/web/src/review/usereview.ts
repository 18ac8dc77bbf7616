// The decisions of a person on a context: shown at once, sent one after the other, and taken back when the server refuses them.
import { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "react";
import { ApiError, asApiError, call, stream } from "../api";
import { follow } from "../follow";
import type { Change, GoneDecision, Hunk } from "../gen/api";
import { announce, toast, useAsync, type Async } from "../ui";
import { listChanges, sendDecision, type Listing } from "./data";
import { empty, keyOf, pending, reduce, type Ask, type State, type Verdict } from "./decisions";
import { approvedAllText } from "./words";

/** What a person saw when a dialog opened. The changes may be read again while it is open. */
export interface Seen {
  revision: string | undefined;
  /** How many decisions the server had refused. */
  refused: number;
}

export interface Reviewing {
  list: Async<Listing>;
  state: State;
  /** Rises when contents have to be read again. */
  round: number;
  loaded: (change: Change, hunks: readonly Hunk[]) => void;
  /** Decides on hunks, or on the whole change if none are named. It returns whether the server took the decision. */
  decide: (change: Change, hunkIds: readonly string[], verdict: Verdict, title: string) => Promise<boolean>;
  /** Takes back what was decided on a path whose change is gone, or another one by now. */
  withdraw: (gone: GoneDecision) => Promise<void>;
  /** Approves all changes of the revision that the person saw. */
  approveAll: (seen: Seen) => Promise<void>;
  /** What the person sees now, for a dialog that opens. */
  seen: () => Seen;
  /** Waits until all decisions are sent. It fails if the server refused one since. */
  settled: (seen: Seen) => Promise<void>;
  undo: () => void;
  reload: () => void;
  /** Why all was read again, to show above the changes. */
  notice: string;
  dismiss: () => void;
  /** The server is away: what others do does not show. */
  lost: boolean;
}

export function useReview(contextId: string): Reviewing {
  const [state, dispatch] = useReducer(reduce, empty);
  const [round, setRound] = useState(0);
  const [notice, setNotice] = useState("");
  const list = useAsync((signal) => listChanges(contextId, signal), [contextId]);
  const queue = useRef<Promise<unknown>>(Promise.resolve());
  const waiting = useRef(0);
  const lastSent = useRef(0);
  const steps = useRef(0);
  const refused = useRef(0);
  const known = useRef(state);
  useEffect(() => { known.current = state; });
  useEffect(() => {
    if (list.data) dispatch({ type: "listed", changes: list.data.changes });
  }, [list.data]);
  const reloadList = list.reload;
  const reload = useCallback(() => {
    reloadList();
    setRound((n) => n + 1);
  }, [reloadList]);

  const send = useCallback((asks: readonly (Ask & { changeId: string })[]): Promise<boolean> => {
    waiting.current++;
    const sent = queue.current.then(async () => {
      try {
        for (const { changeId, ...ask } of asks) await sendDecision(contextId, ask, changeId);
        return true;
      } catch (error) {
        refused.current++;
        const { message, hint, reason } = asApiError(error);
        const text = reason === "STALE_REVISION" ? "The context changed while you looked at it. What you see is read again; please decide on it anew." : `Not decided: ${message}${hint ? ` (${hint})` : ""}`;
        setNotice(text);
        announce(text);
        reload();
        return false;
      } finally {
        waiting.current--;
        lastSent.current = Date.now();
      }
    });
    queue.current = sent;
    return sent;
  }, [contextId, reload]);

  const gone = list.data?.summary.gone;
  const decide = useCallback(async (change: Change, hunkIds: readonly string[], verdict: Verdict, title: string) => {
    const ask = { path: keyOf(change), hunkIds: [...hunkIds], verdict };
    const id = steps.current++;
    dispatch({ type: "decided", id, ask, title });
    announce(title);
    const taken = await send([{ ...ask, changeId: change.changeId ?? "" }]);
    if (!taken) dispatch({ type: "refused", id });
    else if (gone?.some((g) => keyOf(g) === ask.path)) reloadList(); // the new decision took the place of that one
    return taken;
  }, [send, gone, reloadList]);

  const withdraw = useCallback(async (of: GoneDecision) => {
    if (!await send([{ path: keyOf(of), hunkIds: [], verdict: pending, changeId: "" }])) return;
    announce("Decision taken back");
    reload();
  }, [send, reload]);

  const undo = useCallback(() => {
    const step = known.current.steps.at(-1);
    if (!step) {
      announce("There is no decision to undo");
      return;
    }
    dispatch({ type: "undone" });
    announce(`Undone: ${step.title}`);
    void send(step.back.map((ask) => ({ ...ask, changeId: known.current.files.get(ask.path)?.changeId ?? "" })));
  }, [send]);

  const revision = list.data?.summary.revision;
  const seen = useCallback((): Seen => ({ revision, refused: refused.current }), [revision]);
  const settled = useCallback(async (since: Seen) => {
    await queue.current;
    if (refused.current !== since.refused) throw new ApiError("The server did not take one of your decisions, so nothing was done", 0, "", "Close this and look at the changes again");
  }, []);

  const approveAll = useCallback(async (what: Seen) => {
    await settled(what);
    try {
      const { leftOut = [], leftOutCount = 0 } = await call("ReviewService/Decide", { contextId, selection: { all: true }, decision: "DECISION_APPROVED", ifRevision: what.revision });
      toast(approvedAllText(leftOut, leftOutCount), "good");
    } finally {
      reload();
    }
  }, [contextId, reload, settled]);

  const [lost, setLost] = useState(false);
  useWatch(contextId, useMemo(() => ({
    changed: reload,
    lost: setLost,
    failed: (error: unknown) => setNotice(`What others do does not show by itself any more: ${asApiError(error).message}`),
    // A decision that this page sent is its own.
    isOwn: () => waiting.current > 0 || Date.now() - lastSent.current < 1000,
  }), [reload]));

  const loaded = useCallback((change: Change, hunks: readonly Hunk[]) => {
    // What was decided meanwhile is newer than what was read.
    if (waiting.current === 0) dispatch({ type: "loaded", change, hunks });
    else void queue.current.then(() => dispatch({ type: "loaded", change, hunks }));
  }, []);
  return { list, state, round, loaded, decide, withdraw, approveAll, seen, settled, undo, reload, notice, dismiss: () => setNotice(""), lost };
}

interface Watcher {
  changed: () => void;
  lost: (lost: boolean) => void;
  failed: (error: unknown) => void;
  isOwn: () => boolean;
}

/** Follows what others do with the review. */
function useWatch(contextId: string, { changed, lost, failed, isOwn }: Watcher): void {
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let begun = false;
    const read = async (signal: AbortSignal, answered: () => void) => {
      for await (const { event = "REVIEW_EVENT_UNSPECIFIED" } of stream("ReviewService/WatchReview", { contextId }, { signal })) {
        answered();
        lost(false);
        // Between two watches anything may have happened.
        const matters = event === "REVIEW_EVENT_UNSPECIFIED" ? begun : event !== "REVIEW_EVENT_DECIDED" || !isOwn();
        begun = true;
        if (!matters) continue;
        clearTimeout(timer);
        timer = setTimeout(changed, 300);
      }
      throw new ApiError("The server ended the watch", 0, "", ""); // it stops: retry
    };
    follow(abort.signal, () => lost(true), read).catch((error: unknown) => { if (!abort.signal.aborted) failed(error); });
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [contextId, changed, lost, failed, isOwn]);
}
