import { call, num } from "../api";
import { time, useAsync } from "../ui";

/** What the panel said when it submitted its changes. */
export function SubmittedNote({ contextId, round }: { contextId: string; round: number }) {
  const { data } = useAsync((signal) => call("ReviewService/GetReview", { contextId }, { signal }), [contextId, round]);
  if (!data?.title && !data?.message) return null;
  return (
    <details className="rv-submitted">
      <summary><strong>{data.title || "Submitted"}</strong> {num(data.submittedNs) > 0 && <span className="dim">{time(data.submittedNs)}</span>}{data.state !== "REVIEW_STATE_SUBMITTED" && <span className="dim"> · something was changed or decided since</span>}</summary>
      {data.message && <pre>{data.message}</pre>}
    </details>
  );
}
