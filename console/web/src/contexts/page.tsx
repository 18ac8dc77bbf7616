// One context: its head, the list of its views, and the view that the route names.
import { lazy, Suspense, useEffect, useRef, type ComponentType } from "react";
import { call, num } from "../api";
import type { Context, GetReviewResponse } from "../gen/api";
import { go, href } from "../router";
import { Badge, count, Empty, ErrorNote, size, Spinner, useAsync, useHotkeys, useTitle } from "../ui";
import { views, type ContextViewProps } from "../views";
import { ReviewBadge } from "./review";
import { StateBadge } from "./state";
import "./contexts.css";

const shown = views.filter((view) => view.of === "context");
const components = new Map<string, ComponentType<ContextViewProps>>(shown.map((view) => [view.name, lazy(view.load)]));

export function ContextPage({ id, view, rest }: { id: string; view: string; rest: string[] }) {
  const { data, error, reload } = useAsync((signal) => call("ContextService/GetContext", { contextId: id }, { signal }), [id], { every: 5000 });
  useTitle(`${shown.find((one) => one.name === view)?.title ?? view} · ${id}`);
  useHotkeys("Context", shown.map((one, i) => ({ key: String(i + 1), label: one.title, run: () => go(["contexts", id, one.name]) })));
  const context = data?.context;
  const review = useReview(id, context);
  const tabs = useRef<HTMLElement>(null);
  const isCounted = review !== undefined; // the counts move the names
  // On a phone the views do not all fit.
  useEffect(() => {
    tabs.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [view, isCounted]);
  return (
    <div className="context-page">
      <ContextHead id={id} context={context} review={review} />
      <nav className="views" ref={tabs} aria-label="Views of the context">
        {shown.map((one) => <a key={one.name} href={href("contexts", id, one.name)} aria-current={one.name === view ? "page" : undefined}>{one.title}<Count of={one.name} review={review} /></a>)}
      </nav>
      {error !== undefined && !context && <div className="page"><ErrorNote error={error} retry={reload} /></div>}
      {!context && error === undefined && <div className="page"><Spinner /></div>}
      {context?.state === "CONTEXT_STATE_MISSING" && <Empty title="There is no such context"><a href={href("contexts")}>All contexts</a></Empty>}
      {context && context.state !== "CONTEXT_STATE_MISSING" && <ContextView context={context} id={id} view={view} rest={rest} />}
    </div>
  );
}

function ContextView({ context, id, view, rest }: { context: Context; id: string; view: string; rest: string[] }) {
  const View = components.get(view);
  if (!View) return <Empty title="There is no such view"><a href={href("contexts", id, "files")}>Files</a></Empty>;
  return (
    <Suspense fallback={<div className="page"><Spinner /></div>}>
      <View contextId={id} context={context} rest={rest} />
    </Suspense>
  );
}

/** Reads the counts of the context's review, and again when the context was used since. */
function useReview(id: string, context: Context | undefined): GetReviewResponse | undefined {
  const { data, reload } = useAsync((signal) => call("ReviewService/GetReview", { contextId: id }, { signal }), [id]);
  const used = context?.usedNs;
  useEffect(() => {
    if (used !== undefined) reload();
  }, [used, reload]);
  return data;
}

/** Shows how many things wait in a view. */
function Count({ of, review }: { of: string; review: GetReviewResponse | undefined }) {
  const { changes, unresolved } = review?.summary ?? {};
  const n = { changes, conflicts: unresolved }[of] ?? 0;
  return n > 0 ? <span className="count">{n}</span> : null;
}

function ContextHead({ id, context, review }: { id: string; context: Context | undefined; review: GetReviewResponse | undefined }) {
  const panels = context?.panels ?? [];
  return (
    <div className="context-head">
      <div className="row crumbs">
        <a href={href("contexts")} className="button quiet small">‹ Contexts</a>
        <h1 className="truncate" title={id}>{id}</h1>
      </div>
      {context && <div className="row wrap dim">
        <StateBadge context={context} />
        {review && <ReviewBadge review={review} />}
        {num(review?.summary?.drifted) > 0 && <Badge tone="warn" title="Paths that the workspace has changed since">drift: {count(review?.summary?.drifted, "path")}</Badge>}
        <span>{panels.length > 0 ? panels.join(", ") : "no panel"}</span>
        <span className="only-wide">{context.driver}</span>
        <span className="only-wide">{count(context.files, "file")}, {size(context.bytes)} seeded</span>
      </div>}
    </div>
  );
}
