import { requireKnown } from "../errors/options.js";
import type { FeedChange } from "../gen/ctxfs/v1/fs_feed_pb.js";
import { nameOf } from "./bytes.js";
import type { Core } from "./core.js";
import { pathFields, pathOf, type PathLike } from "./paths.js";
import { requireBoolean, requireSignal, requireString } from "./validate.js";

/** Options of watchChanges. */
export interface FeedOptions {
  /** The cursor of the last notice that was dealt with. Without it the feed begins at its present end. */
  cursor?: string | undefined;
  /** Only changes of this path and of what is below it. */
  path?: PathLike | undefined;
  /** Whether the loop continues after "ready"; true by default. */
  follow?: boolean | undefined;
  /** Ends the loop: it rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** A step of a batch in the feed. */
export interface ChangedStep { operation: string; path: string; dest: string }

/** A call that changed something, or may have. */
export interface Changed {
  type: "change";
  /** Continues behind this change. */
  cursor: string;
  /** The number of the change in its context, without gaps. */
  sequence: number;
  time: Date;
  /** "server" is what no call did. */
  role: "panel" | "host" | "server";
  /** The panel; "" when a host acted for none. */
  panel: string;
  /** The RPC: "WriteFile", "Rename", "Batch", "Restore". */
  operation: string;
  /** Absolute in the context. */
  path: string;
  /** The second path of a rename or a copy; "" otherwise. */
  dest: string;
  /** What is below path and dest may have changed too. */
  below: boolean;
  /** The steps of a batch. */
  steps: ChangedStep[];
  /** Where the paths lead through links. */
  also: string[];
  /** The errno of a call that failed and may have made a part of its change; "" when it succeeded. */
  failed: string;
}

/** What a feed reports. The cursor continues behind it. */
export type FeedNotice =
  | Changed
  | { /** All changes up to now were reported. It comes once. */ type: "ready"; cursor: string }
  | { /** Changes are missing: read everything again. The feed continues. */ type: "reset"; cursor: string; reason: string }
  | { /** Nothing was reported for 30 s. */ type: "idle"; cursor: string };

/**
 * Reports the calls that change the context, in order. A consumer that keeps the cursor of each notice gets every change once, over restarts
 * of itself and of the server: when the loop rejects because the connection is gone, it begins another with that cursor.
 */
export type WatchChanges = (options?: FeedOptions) => AsyncGenerator<FeedNotice, void, undefined>;

/** Makes watchChanges over what calls the server. */
export function feedFunction({ caller }: Core): WatchChanges {
  return async function* watchChanges(options = {}) {
    requireKnown(options, ["cursor", "path", "follow", "signal"]);
    const request = {
      ...(options.path === undefined ? {} : pathFields(pathOf(options.path))),
      cursor: requireString(options.cursor ?? "", "options.cursor"), follow: requireBoolean(options.follow ?? true, "options.follow"),
    };
    for await (const { notice } of caller.parts("watchChanges", request, { signal: requireSignal(options.signal, "options.signal") })) {
      switch (notice.case) {
        case "change": yield changeOf(notice.value); break;
        case "ready": yield { type: "ready", cursor: notice.value.cursor }; break;
        case "reset": yield { type: "reset", cursor: notice.value.cursor, reason: notice.value.reason }; break;
        case "keepalive": yield { type: "idle", cursor: notice.value.cursor }; break;
      }
    }
  };
}

function changeOf(c: FeedChange): Changed {
  return {
    type: "change", cursor: c.cursor, sequence: Number(c.sequence), time: new Date(Number(c.timeNs / 1_000_000n)), role: c.role as Changed["role"], panel: c.panelId,
    operation: c.operation, path: textOf(c.path, c.rawPath), dest: textOf(c.dest, c.rawDest), below: c.below,
    steps: c.steps.map((s) => ({ operation: s.operation, path: textOf(s.path, s.rawPath), dest: textOf(s.dest, s.rawDest) })),
    also: c.also.map((p) => textOf(p.path, p.rawPath)), failed: c.failed,
  };
}

function textOf(text: string, raw: Uint8Array): string {
  return nameOf(text, raw, undefined) as string;
}
