// What a row of the list shows beyond the list itself: the review's counts and the size on disk. Both read the context's folder, so they are
// fetched for rows in sight only, a few at a time, and again when the context was used since.
import { useCallback, useEffect, useRef, useState } from "react";
import { call, num } from "../api";
import type { Context, GetReviewResponse } from "../gen/api";

export interface Details {
  review?: GetReviewResponse;
  ownBytes?: number;
  /** Why the counts could not be fetched. */
  error?: unknown;
}

const atOnce = 3;

export interface Loader {
  details: ReadonlyMap<string, Details>;
  /** Asks for the details of a context that came into sight. */
  want: (id: string) => void;
  /** Fetches all again that were asked for. */
  refresh: () => void;
}

export function useDetails(contexts: readonly Context[]): Loader {
  const [details, setDetails] = useState<ReadonlyMap<string, Details>>(new Map());
  const [queue] = useState(() => new Queue((id, found) => setDetails((was) => new Map(was).set(id, found))));
  const seen = useRef(new Set<string>());
  useEffect(() => {
    queue.open();
    return () => queue.close();
  }, [queue]);
  useEffect(() => {
    queue.know(contexts);
    for (const id of seen.current) queue.want(id);
  }, [queue, contexts]);
  const want = useCallback((id: string) => {
    seen.current.add(id);
    queue.want(id);
  }, [queue]);
  const refresh = useCallback(() => {
    queue.forget();
    for (const id of seen.current) queue.want(id);
  }, [queue]);
  return { details, want, refresh };
}

/** Fetches details with a bounded number of calls. */
class Queue {
  private abort = new AbortController();
  private contexts = new Map<string, Context>();
  // What a context's details were fetched for: its generation and the time it was used.
  private fetched = new Map<string, string>();
  private waiting: string[] = [];
  private running = 0;

  constructor(private readonly onFound: (id: string, details: Details) => void) {}

  open(): void {
    this.abort = new AbortController();
  }

  close(): void {
    this.abort.abort();
    this.forget();
  }

  forget(): void {
    this.waiting = [];
    this.fetched.clear();
  }

  know(contexts: readonly Context[]): void {
    this.contexts = new Map(contexts.map((context) => [context.contextId ?? "", context]));
  }

  want(id: string): void {
    const context = this.contexts.get(id);
    if (context?.state !== "CONTEXT_STATE_READY" || this.fetched.get(id) === version(context)) return;
    this.fetched.set(id, version(context));
    this.waiting.push(id);
    this.next();
  }

  private next(): void {
    while (this.running < atOnce) {
      const id = this.waiting.shift();
      if (id === undefined) return;
      this.running++;
      const { signal } = this.abort;
      void fetchDetails(id, signal).then(({ details, context }) => {
        this.running--;
        if (!signal.aborted) {
          // Reading the counts was a use too, and is no reason to read them again.
          if (context) this.fetched.set(id, version(context));
          this.onFound(id, details);
        }
        this.next();
      });
    }
  }
}

function version(context: Context): string {
  return `${context.generation ?? ""} ${context.usedNs ?? ""}`;
}

async function fetchDetails(id: string, signal: AbortSignal): Promise<{ details: Details; context?: Context }> {
  const [review] = await Promise.allSettled([call("ReviewService/GetReview", { contextId: id }, { signal })]);
  const [sized] = await Promise.allSettled([call("ContextService/GetContext", { contextId: id, sizes: true }, { signal })]);
  const details: Details = review.status === "fulfilled" ? { review: review.value } : { error: review.reason };
  const context = sized.status === "fulfilled" ? sized.value.context : undefined;
  if (context) details.ownBytes = num(context.ownBytes);
  return { details, context };
}
