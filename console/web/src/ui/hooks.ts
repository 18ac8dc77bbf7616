// Loading and refreshing. Each ends what it started when its component goes or its inputs change.
import { useCallback, useEffect, useRef, useState, type DependencyList } from "react";
import { isAbort } from "../api";
import { announce } from "./toast";

export interface Async<T> {
  /** The last value; it stays while a newer one loads. */
  data: T | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
}

/** Loads a value now and when an input changes. With `every`, again after that many milliseconds while the page is visible. */
export function useAsync<T>(load: (signal: AbortSignal) => Promise<T>, deps: DependencyList, { every }: { every?: number } = {}): Async<T> {
  const [state, setState] = useState<{ data: T | undefined; error: unknown; loading: boolean }>({ data: undefined, error: undefined, loading: true });
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  const known = useRef<DependencyList>(deps);
  useEffect(() => {
    const fresh = known.current.some((value, i) => value !== deps[i]);
    known.current = deps;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    setState((was) => ({ data: fresh ? undefined : was.data, error: fresh ? undefined : was.error, loading: true }));
    const again = () => {
      if (every !== undefined) timer = setTimeout(() => { if (document.hidden) again(); else reload(); }, every);
    };
    load(abort.signal).then(
      (data) => {
        if (abort.signal.aborted) return;
        setState({ data, error: undefined, loading: false });
        again();
      },
      (error: unknown) => {
        if (abort.signal.aborted || isAbort(error)) return;
        setState((was) => ({ ...was, error, loading: false }));
        again();
      },
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
    // The caller's inputs decide when to load again.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [...deps, round, every]);
  return { ...state, reload };
}

/** Gives the time, anew every `every` milliseconds, so that ages grow. */
export function useNow(every = 30_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** Says whether the page is as narrow as a phone. */
export function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => phone.matches);
  useEffect(() => {
    const change = () => setNarrow(phone.matches);
    phone.addEventListener("change", change);
    return () => phone.removeEventListener("change", change);
  }, []);
  return narrow;
}

const phone = matchMedia("(max-width: 640px)");

/** Sets the document's title, and says it to screen readers: a page of views has no other sign that one opened. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · ctxfs`;
    announce(title);
  }, [title]);
}
