import type { GetReviewResponse } from "../gen/api";
import { asApiError, num } from "../api";
import { Badge, count } from "../ui";
import type { Details } from "./details";

/** Says what a context changes and how far its review is. */
export function ReviewCounts({ details }: { details: Details | undefined }) {
  if (!details) return null;
  if (!details.review) return <Badge tone="warn" title={asApiError(details.error).message}>not known</Badge>;
  const { summary } = details.review;
  const changes = num(summary?.changes);
  if (changes === 0) return <span className="dim">none</span>;
  return (
    <span className="row wrap">
      <span className="nowrap">{count(changes, "change")}</span>
      <LineCounts added={num(summary?.addedLines)} removed={num(summary?.removedLines)} />
      <ReviewBadge review={details.review} />
    </span>
  );
}

/** Says how many of the changed paths the workspace has changed too. */
export function Drift({ details }: { details: Details | undefined }) {
  if (!details?.review) return null;
  const { drifted, unresolved } = details.review.summary ?? {};
  return (
    <span className="row wrap">
      {num(drifted) > 0 ? <Badge tone="warn" title="Paths that the workspace has changed since">{count(drifted, "path")}</Badge> : <span className="dim">none</span>}
      {num(unresolved) > 0 && <Badge tone="bad">{count(unresolved, "conflict")}</Badge>}
    </span>
  );
}

export function LineCounts({ added, removed }: { added: number; removed: number }) {
  return (
    <span className="nowrap lines">
      <span className="added"><span className="visually-hidden">lines added: </span>+{added.toLocaleString("en")}</span>{" "}
      <span className="removed"><span className="visually-hidden">lines removed: </span>−{removed.toLocaleString("en")}</span>
    </span>
  );
}

export function ReviewBadge({ review }: { review: GetReviewResponse }) {
  switch (review.state) {
    case "REVIEW_STATE_SUBMITTED":
      return <Badge tone="info" title={review.title}>Submitted</Badge>;
    case "REVIEW_STATE_PARTLY_DECIDED":
      return <Badge tone="info">Partly decided</Badge>;
    case "REVIEW_STATE_DECIDED":
      return <Badge tone="good">Decided</Badge>;
    default:
      return null;
  }
}
