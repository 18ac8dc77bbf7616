import { requireKnown } from "../errors/options.js";
import { asBuffer } from "../fs/bytes.js";
import { DiffForm } from "../gen/ctxfs/v1/review_pb.js";
import type { Caller } from "../session/operations.js";
import { appliedOf, changeOf, countsOf, decisionNumbers, entryOf, hunkOf, selectionOf, statusOf, stepOf, versions } from "./convert.js";
import type { Applied, ChangeCounts, Changes, Decision, FileDiff, JournalEntry, ReviewStatus, ReviewStep, Selection } from "./types.js";

/** Options of changes. */
export interface ListOptions {
  /** Only these paths and what is below them. */
  paths?: readonly string[] | undefined;
  /** Lists what new ignored directories hold, file by file. */
  ignored?: boolean | undefined;
}

/** Options of diff and patch. */
export interface DiffOptions extends ListOptions {
  /** Lines of context around a hunk, at most 1,000; 3 unless told. */
  lines?: number | undefined;
}

/** Options of calls that name a revision. */
export interface RevisionOptions {
  /** Rejects with STALE_REVISION if the context's revision is another one. */
  ifRevision?: string | undefined;
}

/** Options of decide, approve and reject. */
export interface DecideOptions extends RevisionOptions {
  /** A remark that the panel can read. */
  comment?: string | undefined;
}

/** Options of apply. */
export interface ApplyOptions extends RevisionOptions {
  /** What to apply; what is approved unless told. */
  selection?: Selection | undefined;
  /** Approves the selection as well. */
  approve?: boolean | undefined;
  /** Refuses files that the workspace has changed since, instead of merging them. */
  refuseMerge?: boolean | undefined;
  /** Does nothing, and returns what would be done. */
  dryRun?: boolean | undefined;
  /** A second apply with the same ID returns what the first one did: for repeating after a lost connection. */
  requestId?: string | undefined;
}

/** Options of journal. */
export interface JournalOptions {
  /** Only entries that touched this path or something below it. */
  path?: string | undefined;
  /** At most so many entries; 100 unless told. */
  limit?: number | undefined;
}

/** What decide did. */
export interface Decided {
  /** The changes and hunks that were decided on. */
  changes: number;
  hunks: number;
  /** Changes that "all" left out, because they are barred, sensitive or ignored. */
  leftOut: string[];
}

/** The changes of a context, as a panel sees its own. Its calls reject with a CtxfsError, or as those of files do. */
export class Review {
  /** Makes one of a context; "" is the caller's own. Programs get theirs from a panel, an fs or a server. */
  constructor(protected readonly caller: Caller, protected readonly contextId: string) {}

  /** Lists what the context changed. */
  async changes(options: ListOptions = {}): Promise<Changes> {
    requireKnown(options, ["paths", "ignored"]);
    const { paths = [], ignored = false } = options;
    const out: Changes = { ...countsOf(undefined), changes: [] };
    for await (const { event } of this.caller.parts("listChanges", { contextId: this.contextId, paths: [...paths], ignored })) {
      if (event.case === "change") out.changes.push(changeOf(event.value));
      else Object.assign(out, countsOf(event.value));
    }
    return out;
  }

  /** Shows the changes with their hunks, one file after the other. */
  async *diff(options: DiffOptions = {}): AsyncGenerator<FileDiff, void, undefined> {
    let file: FileDiff | undefined;
    for await (const { event } of this.caller.parts("getDiff", this.#diff(options, DiffForm.UNSPECIFIED))) {
      if (event.case === "hunk") file?.hunks.push(hunkOf(event.value));
      else {
        if (file) yield file;
        file = event.case === "change" ? { change: changeOf(event.value), hunks: [] } : undefined;
      }
    }
  }

  /** Returns the changes as text that git apply accepts, binary files included. */
  async patch(options: DiffOptions = {}): Promise<Buffer> {
    const pieces: Uint8Array[] = [];
    for await (const { event } of this.caller.parts("getDiff", this.#diff(options, DiffForm.UNIFIED))) {
      if (event.case === "text") pieces.push(event.value);
    }
    return joined(pieces);
  }

  #diff(options: DiffOptions, form: DiffForm) {
    requireKnown(options, ["paths", "ignored", "lines"]);
    const { paths = [], ignored = false, lines = 3 } = options;
    return { contextId: this.contextId, paths: [...paths], ignored, form, lines: lines === 0 ? -1 : lines };
  }

  /** Reads one version of a file. "approved" is the base with what is approved; "workspace" is for reviewers. */
  async readVersion(path: string | Uint8Array, version: keyof typeof versions): Promise<Buffer> {
    requireOne("version", version, versions);
    const named = typeof path === "string" ? { path } : { rawPath: path };
    const pieces: Uint8Array[] = [];
    for await (const { data } of this.caller.parts("readVersion", { contextId: this.contextId, ...named, version: versions[version] })) pieces.push(data);
    return joined(pieces);
  }

  /** Returns how far the review is. */
  async state(): Promise<ReviewStatus> {
    return statusOf(await this.caller.call("getReview", { contextId: this.contextId }));
  }

  /** Reports each step of the review, until the loop ends or the signal fires. The first is "started". */
  async *watch({ signal }: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<ReviewStep, void, undefined> {
    for await (const step of this.caller.parts("watchReview", { contextId: this.contextId }, { signal })) yield stepOf(step);
  }

  /** Says that the changes are ready to be reviewed. The review is submitted until they change. */
  async submit(options: { title?: string | undefined; message?: string | undefined } = {}): Promise<ChangeCounts> {
    requireKnown(options, ["title", "message"]);
    const { title = "", message = "" } = options;
    const { summary } = await this.caller.call("submitReview", { contextId: this.contextId, title, message });
    return countsOf(summary);
  }

  /** Puts the base's content back into the context. Undo of the journal entry takes that back. */
  async discard(selection: Selection, options: RevisionOptions = {}): Promise<{ journalId: number; paths: string[] }> {
    requireKnown(options, ["ifRevision"]);
    const request = { contextId: this.contextId, selection: selectionOf(selection), ifRevision: options.ifRevision ?? "" };
    const { journalId, paths } = await this.caller.call("discard", request);
    return { journalId: Number(journalId), paths };
  }
}

/** The changes of a context, as a reviewer decides on them: a host, or a panel with the right to review, which never reviews its own work. */
export class Reviewer extends Review {
  /** Approves or rejects changes, or takes earlier decisions back ("pending"). The server keeps the bytes that were approved. */
  async decide(selection: Selection, decision: Decision, options: DecideOptions = {}): Promise<Decided> {
    requireKnown(options, ["comment", "ifRevision"]);
    requireOne("decision", decision, decisionNumbers);
    const { comment = "", ifRevision = "" } = options;
    const request = { contextId: this.contextId, selection: selectionOf(selection), decision: decisionNumbers[decision], comment, ifRevision };
    const { changes, hunks, leftOut } = await this.caller.call("decide", request);
    return { changes, hunks, leftOut };
  }

  /** Approves changes, for apply. */
  approve(selection: Selection, options: DecideOptions = {}): Promise<Decided> {
    return this.decide(selection, "approved", options);
  }

  /** Rejects changes, with a comment for the panel. */
  reject(selection: Selection, options: DecideOptions = {}): Promise<Decided> {
    return this.decide(selection, "rejected", options);
  }

  /** Merges what is approved into the workspace: all of it, or none. A CtxfsError of code CONFLICT has each conflict. */
  async apply(options: ApplyOptions = {}): Promise<Applied> {
    requireKnown(options, ["selection", "approve", "ifRevision", "refuseMerge", "dryRun", "requestId"]);
    const { selection, approve = false, ifRevision = "", refuseMerge = false, dryRun = false, requestId = "" } = options;
    const chosen = selection === undefined ? undefined : selectionOf(selection);
    return appliedOf(await this.caller.call("apply", { contextId: this.contextId, selection: chosen, approve, ifRevision, refuseMerge, dryRun, requestId }));
  }

  /** Lists what was applied, discarded and undone, newest first. */
  async journal(options: JournalOptions = {}): Promise<JournalEntry[]> {
    requireKnown(options, ["path", "limit"]);
    const { path = "", limit = 100 } = options;
    const out: JournalEntry[] = [];
    let pageToken = "";
    do {
      const page = await this.caller.call("listJournal", { contextId: this.contextId, path, pageToken });
      out.push(...page.entries.map(entryOf));
      pageToken = page.nextPageToken;
    } while (pageToken !== "" && out.length < limit);
    return out.slice(0, limit);
  }

  /** Takes a journal entry back; what was done to the files since stays. Undo of the new entry does it again. */
  async undo(journalId: number, options: { dryRun?: boolean | undefined } = {}): Promise<Applied> {
    requireKnown(options, ["dryRun"]);
    return appliedOf(await this.caller.call("undo", { journalId: BigInt(journalId), dryRun: options.dryRun ?? false }));
  }
}

/** Throws when a word is none of those that there are. */
function requireOne(what: string, given: string, words: object): void {
  if (!Object.hasOwn(words, given)) throw new TypeError(`unknown ${what} ${JSON.stringify(given)}: the ${what}s are ${Object.keys(words).join(", ")}`);
}

function joined(pieces: readonly Uint8Array[]): Buffer {
  const out = new Uint8Array(pieces.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.length;
  }
  return asBuffer(out);
}
