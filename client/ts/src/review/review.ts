import { ConnectionError } from "../errors/connection.js";
import { requireKnown } from "../errors/options.js";
import { exitOf, type ProcessExit } from "../exec/process.js";
import { asBuffer } from "../fs/bytes.js";
import { OutputStream, type Exit } from "../gen/ctxfs/v1/exec_pb.js";
import { ApplyTarget, CommitHooks, DiffForm } from "../gen/ctxfs/v1/review_pb.js";
import type { Caller, RequestInit } from "../session/operations.js";
import {
  againstOf, appliedOf, changeOf, countsOf, decisionNumbers, entryOf, hunkOf, leftOutOf, onConflicts, rebasedOf, recordedOf, resolutions, selectionOf, statusOf, stepOf, versions,
} from "./convert.js";
import type {
  Against, Applied, Change, ChangeCounts, Changes, Decision, FileDiff, JournalEntry, LeftOut, Rebased, RecordedConflict, ReviewStatus, ReviewStep, Selection,
} from "./types.js";

/** Options of changes. */
export interface ListOptions {
  /** Only these paths and what is below them. */
  paths?: readonly string[] | undefined;
  /** Lists what new ignored directories hold, file by file. */
  ignored?: boolean | undefined;
  /** What to compare with; the base unless told. Changes against anything else have no IDs, and cannot be decided on. */
  against?: Against | undefined;
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
  /** The changes that were seen. Rejects with STALE_REVISION if the selection has another one; paths of directories and "all" may have any otherwise. */
  seen?: readonly Pick<Change, "changeId">[] | undefined;
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
  /** Commits what is applied: to what each repository has checked out or, with a branch, to that branch alone, without changing a file. */
  commit?: CommitOptions | undefined;
}

/** How apply commits. */
export interface CommitOptions {
  /** At most 64 KiB. */
  message: string;
  /** user.name and user.email of the repository unless told. */
  author?: { name: string; email: string } | undefined;
  /** Lines "Key: value" that are appended to the message. */
  trailers?: readonly string[] | undefined;
  /** A branch that is not checked out, without refs/heads/. One that does not exist begins at HEAD. */
  branch?: string | undefined;
  /** Runs the hooks of the repository, in the environment of the server: for hosts only, and not with branch. */
  runHooks?: boolean | undefined;
}

/** A command that must succeed on the result before applyChecked applies it. */
export interface Check {
  /** The program and its arguments. */
  argv: readonly string[];
  /** The working directory, from the context's root. */
  cwd?: string | undefined;
  /** Applies also if it fails. */
  optional?: boolean | undefined;
  /** How long it may run, in ms; 10 minutes unless told. */
  wallMs?: number | undefined;
}

/** What a check does. check is its place in the list, from 0. */
export type CheckEvent =
  | { kind: "started"; check: number }
  | { kind: "output"; check: number; stream: "stdout" | "stderr"; data: Uint8Array }
  | { kind: "ended"; check: number; passed: boolean; exit: ProcessExit };

/** Options of rebase. */
export interface RebaseOptions {
  /** Only these paths and what is below them. */
  paths?: readonly string[] | undefined;
  /** What happens to files that cannot be merged: nothing is done ("refuse", unless told), they stay and are listed ("record"), also with conflict
   * markers ("markers"), or one side wins. */
  onConflict?: keyof typeof onConflicts | undefined;
  /** Does nothing, and returns what would be done. */
  dryRun?: boolean | undefined;
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
  /** Changes that "all", or a directory, left out: the first 100. */
  leftOut: LeftOut[];
  /** How many were left out. */
  leftOutCount: number;
}

/** What discard did. */
export interface Discarded extends Omit<Decided, "changes" | "hunks"> {
  /** The journal entry, for undo. */
  journalId: number;
  paths: string[];
}

/** The changes of a context, as a panel sees its own. Its calls reject with a CtxfsError, or as those of files do. */
export class Review {
  /** Makes one of a context; "" is the caller's own. Programs get theirs from a panel, an fs or a server. */
  constructor(protected readonly caller: Caller, protected readonly contextId: string) {}

  /** Lists what the context changed. */
  async changes(options: ListOptions = {}): Promise<Changes> {
    requireKnown(options, ["paths", "ignored", "against"]);
    const { paths = [], ignored = false } = options;
    const request = { contextId: this.contextId, paths: [...paths], ignored, against: againstOf(options.against) };
    const out: Changes = { ...countsOf(undefined), changes: [] };
    for await (const { event } of this.caller.parts("listChanges", request)) {
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
    requireKnown(options, ["paths", "ignored", "lines", "against"]);
    const { paths = [], ignored = false, lines = 3, against } = options;
    return { contextId: this.contextId, paths: [...paths], ignored, form, lines: lines === 0 ? -1 : lines, against: againstOf(against) };
  }

  /** Reads one version of a file. "approved" is the base with what is approved. "workspace" and the versions of a recorded conflict are for reviewers. */
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
  async discard(selection: Selection, options: RevisionOptions = {}): Promise<Discarded> {
    requireKnown(options, ["ifRevision", "seen"]);
    const request = { contextId: this.contextId, selection: selectionOf(selection, options.seen), ifRevision: options.ifRevision ?? "" };
    const { journalId, paths, leftOut, leftOutCount } = await this.caller.call("discard", request);
    return { journalId: Number(journalId), paths, leftOut: leftOut.map(leftOutOf), leftOutCount };
  }
}

/** The changes of a context, as a reviewer decides on them: a host, or a panel with the right to review, which never reviews its own work. */
export class Reviewer extends Review {
  /** Approves or rejects changes, or takes earlier decisions back ("pending"). The server keeps the bytes that were approved. */
  async decide(selection: Selection, decision: Decision, options: DecideOptions = {}): Promise<Decided> {
    requireKnown(options, ["comment", "ifRevision", "seen"]);
    requireOne("decision", decision, decisionNumbers);
    const { comment = "", ifRevision = "", seen } = options;
    const request = { contextId: this.contextId, selection: selectionOf(selection, seen), decision: decisionNumbers[decision], comment, ifRevision };
    const { changes, hunks, leftOut, leftOutCount } = await this.caller.call("decide", request);
    return { changes, hunks, leftOut: leftOut.map(leftOutOf), leftOutCount };
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
    return appliedOf(await this.caller.call("apply", this.#apply(options)));
  }

  #apply(options: ApplyOptions): RequestInit<"apply"> {
    requireKnown(options, ["selection", "approve", "ifRevision", "seen", "refuseMerge", "dryRun", "requestId", "commit"]);
    const { selection, approve = false, ifRevision = "", seen, refuseMerge = false, dryRun = false, requestId = "" } = options;
    const chosen = selection === undefined ? undefined : selectionOf(selection, seen);
    return { contextId: this.contextId, selection: chosen, approve, ifRevision, refuseMerge, dryRun, requestId, ...targetOf(options.commit) };
  }

  /**
   * Runs commands on the result of an apply, in a throw-away copy of the context, and then applies. A CtxfsError of code CHECK_FAILED says
   * which check failed; nothing was applied then. report gets what the checks do.
   */
  async applyChecked(checks: readonly Check[], options: ApplyOptions = {}, report: (event: CheckEvent) => void = () => undefined): Promise<Applied> {
    const commands = checks.map((check) => {
      requireKnown(check, ["argv", "cwd", "optional", "wallMs"]);
      const { argv, cwd = "", optional = false, wallMs = 0 } = check;
      return { $typeName: "ctxfs.v1.Check" as const, argv: [...argv], rawArgv: [], cwd, rawCwd: new Uint8Array(0), optional, wallMs: BigInt(wallMs) };
    });
    const apply = { $typeName: "ctxfs.v1.ApplyRequest" as const, ...this.#apply(options) };
    let check = 0;
    for await (const { event } of this.caller.parts("applyChecked", { apply, checks: commands } as never)) {
      if (event.case === "applied") return appliedOf(event.value);
      if (event.case === "started") report({ kind: "started", check: check = event.value.check });
      else if (event.case === "output") report({ kind: "output", check, stream: event.value.stream === OutputStream.STDERR ? "stderr" : "stdout", data: event.value.data });
      else if (event.case === "ended") report({ kind: "ended", check, passed: event.value.passed, exit: exitOf(event.value.exit as Exit) });
    }
    throw new ConnectionError("ECONNRESET", "the server ended the call without saying what it applied", true);
  }

  /** Brings into the context what the workspace changed since: all of it, or nothing. A CtxfsError of code CONFLICT has each conflict. */
  async rebase(options: RebaseOptions = {}): Promise<Rebased> {
    requireKnown(options, ["paths", "onConflict", "dryRun"]);
    const { paths = [], onConflict = "refuse", dryRun = false } = options;
    requireOne("onConflict", onConflict, onConflicts);
    return rebasedOf(await this.caller.call("rebase", { contextId: this.contextId, paths: [...paths], onConflict: onConflicts[onConflict], dryRun }));
  }

  /** Lists the conflicts that rebase recorded and that are not resolved. apply refuses these files. */
  async conflicts(): Promise<RecordedConflict[]> {
    return (await this.caller.call("listConflicts", { contextId: this.contextId })).conflicts.map(recordedOf);
  }

  /** Resolves a conflict: the file becomes what it is in the context now, or the workspace's or the base's version. Returns the journal entry. */
  async resolve(path: string | Uint8Array, resolution: keyof typeof resolutions = "context"): Promise<number> {
    requireOne("resolution", resolution, resolutions);
    const named = typeof path === "string" ? { path } : { rawPath: path };
    const { journalId } = await this.caller.call("resolveConflict", { contextId: this.contextId, ...named, resolution: resolutions[resolution] });
    return Number(journalId);
  }

  /** Lists what was applied, discarded, undone, rebased and resolved, newest first. */
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

function targetOf(commit: CommitOptions | undefined) {
  if (!commit) return { target: ApplyTarget.UNSPECIFIED };
  requireKnown(commit, ["message", "author", "trailers", "branch", "runHooks"]);
  const { message, author, trailers = [], branch = "", runHooks = false } = commit;
  const hooks = runHooks ? CommitHooks.RUN : CommitHooks.UNSPECIFIED;
  return {
    target: branch === "" ? ApplyTarget.COMMIT : ApplyTarget.BRANCH,
    commit: {
      $typeName: "ctxfs.v1.CommitOptions" as const, message, authorName: author?.name ?? "", authorEmail: author?.email ?? "", trailers: [...trailers], branch, hooks,
    },
  };
}

/** Throws when a word is none of those that there are. */
export function requireOne(what: string, given: string, words: object): void {
  if (!Object.hasOwn(words, given)) throw new TypeError(`unknown ${what} ${JSON.stringify(given)}: the ${what}s are ${Object.keys(words).join(", ")}`);
}

/** Joins the pieces of a content. */
export function joined(pieces: readonly Uint8Array[]): Buffer {
  const out = new Uint8Array(pieces.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.length;
  }
  return asBuffer(out);
}
