import type { GoneDecision } from "../gen/api";
import { Button, count } from "../ui";
import { keyOf } from "./decisions";
import { nameOf } from "./filelist";
import type { Reviewing } from "./usereview";
import { goneWord } from "./words";

/** Decisions on changes that the context does not have any more, or has changed since. */
export function GoneNote({ review }: { review: Reviewing }) {
  const { gone = [], goneCount = 0 } = review.list.data?.summary ?? {};
  if (gone.length === 0) return null;
  return (
    <details className="rv-submitted" open>
      <summary><strong>{count(goneCount, "decision")} on changes that are gone, or changed since</strong></summary>
      <ul className="rv-gone">
        {gone.map((g) => <Gone key={keyOf(g)} decision={g} onWithdraw={() => void review.withdraw(g)} />)}
        {goneCount > gone.length && <li className="dim">and {goneCount - gone.length} more</li>}
      </ul>
    </details>
  );
}

function Gone({ decision, onWithdraw }: { decision: GoneDecision; onWithdraw: () => void }) {
  const name = nameOf(decision);
  const action = decision.replaced ? "Reset file" : "Withdraw";
  return (
    <li className="row">
      <span className="grow rv-break"><bdi>{name}</bdi> <span className="dim">{goneWord(decision)}{decision.comment ? `: “${decision.comment}”` : ""}</span></span>
      <Button small aria-label={`${action}: ${name}`} onClick={onWithdraw}>{action}</Button>
    </li>
  );
}
