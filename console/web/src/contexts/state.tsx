import type { Context } from "../gen/api";
import { num } from "../api";
import { Badge } from "../ui";

/** Says where a context is in its life; while it is seeded, how far. */
export function StateBadge({ context }: { context: Context }) {
  switch (context.state) {
    case "CONTEXT_STATE_READY":
      return <Badge tone="good">Ready</Badge>;
    case "CONTEXT_STATE_SEEDING":
      return <Badge tone="info">Seeding{percent(context)}</Badge>;
    case "CONTEXT_STATE_FAILED":
      return <Badge tone="bad" title={context.lastError}>Failed</Badge>;
    case "CONTEXT_STATE_MISSING":
      return <Badge tone="warn">Missing</Badge>;
    default:
      return <Badge>Not known</Badge>;
  }
}

function percent({ progress }: Context): string {
  const total = num(progress?.bytesTotal);
  return total > 0 ? ` ${String(Math.floor((100 * num(progress?.bytesDone)) / total))} %` : "";
}
