// Reads changes and their content.
import { bytesOf, call, collect, joined, stream } from "../api";
import type { Change, ChangesSummary, Hunk, Version } from "../gen/api";
import { keyOf, named, type Ask } from "./decisions";
import { textDiff, type TextDiff } from "./rows";
import { decode } from "./text";

export interface Listing {
  changes: Change[];
  summary: ChangesSummary;
}

/** Lists what a context changed against its base. */
export async function listChanges(contextId: string, signal: AbortSignal): Promise<Listing> {
  const changes: Change[] = [];
  let summary: ChangesSummary = {};
  for await (const event of stream("ReviewService/ListChanges", { contextId }, { signal })) {
    if (event.change) changes.push(event.change);
    if (event.summary) summary = event.summary;
  }
  return { changes, summary };
}

/** What the page shows of a change. */
export type Content =
  | { kind: "text"; change: Change; hunks: Hunk[]; diff: TextDiff; lossy: boolean }
  | { kind: "link"; change: Change; before: string | undefined; after: string | undefined }
  | { kind: "facts"; change: Change }
  /** The file changed with each try. */
  | { kind: "moving"; change: Change }
  | { kind: "gone" };

const tries = 3;

/** Reads the content of a change as it is now, which may be another one than was listed. */
export async function loadContent(contextId: string, listed: Change, signal: AbortSignal): Promise<Content> {
  if (listed.rawPath || listed.content === "CONTENT_KIND_TREE" || listed.barred) return { kind: "facts", change: listed };
  for (let i = 0; ; i++) {
    const { change, hunks } = await readHunks(contextId, listed, signal);
    if (!change) return { kind: "gone" };
    if (change.content === "CONTENT_KIND_SYMLINK") return link(contextId, change, signal);
    if (change.content !== "CONTENT_KIND_TEXT") return { kind: "facts", change };
    const [before, after] = await Promise.all([
      change.before ? readVersion(contextId, change, "VERSION_BASE", signal) : undefined,
      change.after ? readVersion(contextId, change, "VERSION_CONTEXT", signal) : undefined,
    ]);
    const a = decode(before ?? new Uint8Array());
    const b = decode(after ?? new Uint8Array());
    const diff = textDiff(change, hunks, a.text, b.text);
    if (diff) return { kind: "text", change, hunks, diff, lossy: a.lossy || b.lossy };
    if (i + 1 === tries) return { kind: "moving", change };
  }
}

async function readHunks(contextId: string, listed: Change, signal: AbortSignal): Promise<{ change: Change | undefined; hunks: Hunk[] }> {
  let change: Change | undefined;
  let mine = false;
  const hunks: Hunk[] = [];
  for (const event of await collect("ReviewService/GetDiff", { contextId, paths: [listed.path ?? ""], lines: -1, ignored: listed.ignored }, { signal })) {
    if (event.change) {
      mine = keyOf(event.change) === keyOf(listed);
      if (mine) change = event.change;
    }
    if (event.hunk && mine) hunks.push(event.hunk);
  }
  return { change, hunks };
}

async function link(contextId: string, change: Change, signal: AbortSignal): Promise<Content> {
  const read = async (version: Version) => decode(await readVersion(contextId, change, version, signal)).text;
  const [before, after] = await Promise.all([
    change.before?.type === "FILE_TYPE_SYMLINK" ? read("VERSION_BASE") : undefined,
    change.after?.type === "FILE_TYPE_SYMLINK" ? read("VERSION_CONTEXT") : undefined,
  ]);
  return { kind: "link", change, before, after };
}

/** Reads one version of a file as a whole. */
export async function readVersion(contextId: string, of: { path?: string; rawPath?: string }, version: Version, signal: AbortSignal): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const { data } of stream("ReviewService/ReadVersion", { contextId, ...named(keyOf(of)), version }, { signal })) if (data) parts.push(bytesOf(data));
  return joined(parts);
}

/** Sends a decision on hunks of a change, or on all of it. */
export function sendDecision(contextId: string, { path, hunkIds, verdict }: Ask, changeId: string) {
  // A hunk's ID covers what was seen of it; other hunks of the file may change meanwhile. For the whole change its own ID does that.
  const selected = { ...named(path), ...(hunkIds.length > 0 ? { hunkIds } : { changeId }) };
  return call("ReviewService/Decide", { contextId, selection: { changes: { changes: [selected] } }, ...verdict });
}
