import { ConnectionError } from "../errors/connection.js";
import { requireKnown } from "../errors/options.js";
import type { StagedCommit } from "../gen/ctxfs/v1/git_pb.js";
import { joined, requireOne } from "../review/review.js";
import type { Caller } from "../session/operations.js";
import { fileOf, onConflicts, onMoves, phases, pulledOf, pushedOf, repositoryOf, stagedOf, targets } from "./convert.js";
import type { GitBranch, GitRepository, GitStagedCommit, GitStatus, Pulled, Pushed, PushTarget } from "./types.js";

/** Options of status. */
export interface GitStatusOptions {
  /** Only this repository. */
  repo?: string | undefined;
  /** Only these files, and what is below these directories. */
  paths?: readonly string[] | undefined;
}

/** Options of diff. */
export interface GitDiffOptions extends GitStatusOptions {
  /** The diff of this staged commit, instead of what the context changed. */
  stagedId?: string | undefined;
  /** Lines of context around a hunk; 3 unless told. */
  lines?: number | undefined;
}

/** An option of calls that take long. */
export interface Cancellable {
  /** Cancels the call. */
  signal?: AbortSignal | undefined;
}

/** Options of pull. */
export interface GitPullOptions extends Cancellable {
  /** The repository. */
  repo: string;
  /** Files and directories of the repository, relative to it; all unless told. */
  paths?: readonly string[] | undefined;
  /** A branch, tag or commit; what is checked out unless told, and of a remote its HEAD. */
  ref?: string | undefined;
  /** Pulls from this remote of the repository instead of the workspace. */
  remote?: string | undefined;
  /** Puts the files into this directory instead of the repository's own place. */
  dest?: string | undefined;
  /** What happens to paths that cannot be merged: nothing is pulled ("fail", unless told), texts get markers, or one side wins. */
  onConflict?: keyof typeof onConflicts | undefined;
  /** Does nothing, and returns what would be done. */
  dryRun?: boolean | undefined;
}

/** Options of stage. */
export interface GitStageOptions extends Cancellable {
  /** Files and directories whose changes are staged; all that is not ignored unless told. */
  files?: readonly string[] | undefined;
  /** The repository; the one of `files` unless told. */
  repo?: string | undefined;
  /** The branch that the commit goes on top of and that push moves; ctxfs/PANEL/SLUG unless told. */
  branch?: string | undefined;
  /** The commit's message, at most 64 KiB. */
  message: string;
  /** "Name <email>"; the repository's, or the server's user's, unless told. */
  author?: string | undefined;
}

/** Options of push. */
export interface GitPushOptions extends Cancellable {
  /** The commit that was looked at: the staged commit's `commit`. */
  expectedCommit: string;
  /** Where to; "branch" unless told. */
  target?: PushTarget | undefined;
  /** The remote's name, for target "remote"; origin unless told. */
  remote?: string | undefined;
  /** The branch; the staged commit's unless told. */
  branch?: string | undefined;
  /** Creates the branch if it does not exist. */
  createBranch?: boolean | undefined;
  /** What happens if the branch got other commits: the push fails unless told. */
  onMoved?: keyof typeof onMoves | undefined;
  /** Checks everything, and pushes nothing. */
  dryRun?: boolean | undefined;
  /** Called with each step of the push. */
  onPhase?: ((phase: "unknown" | "checking" | "merging" | "pushing" | "advancing") => void) | undefined;
}

/**
 * Takes what lasts out of a context: pull brings files of a ref into it, stage makes a commit of its changes, and push moves a branch to that
 * commit. Calls reject with a CtxfsError whose code is GIT_… and whose `git` says what it is about, or as those of files do.
 */
export class Git {
  /** Makes one of a context; "" is the caller's own. Programs get theirs from a panel, an fs or a server. */
  constructor(private readonly caller: Caller, private readonly contextId: string) {}

  /** Lists the repositories of the context. */
  async repositories(): Promise<GitRepository[]> {
    const { repositories } = await this.caller.call("listRepositories", { contextId: this.contextId });
    return repositories.map(repositoryOf);
  }

  /** Lists what the context changed in its repositories. */
  async status(options: GitStatusOptions = {}): Promise<GitStatus> {
    requireKnown(options, ["repo", "paths"]);
    const { repo = "", paths = [] } = options;
    const out: GitStatus = { files: [], repositories: [] };
    for await (const { part } of this.caller.parts("gitStatus", { contextId: this.contextId, repo, paths: [...paths] })) {
      if (part.case === "file") out.files.push(fileOf(part.value));
      else if (part.case === "summary") out.repositories.push({ repo: part.value.repo, created: part.value.created, updated: part.value.updated, deleted: part.value.deleted });
    }
    return out;
  }

  /** Returns what the context, or a staged commit, changed as text that git apply accepts. */
  async diff(options: GitDiffOptions = {}): Promise<Buffer> {
    requireKnown(options, ["repo", "paths", "stagedId", "lines"]);
    const { repo = "", paths = [], stagedId = "", lines } = options;
    const pieces: Uint8Array[] = [];
    const request = { contextId: this.contextId, repo, paths: [...paths], stagedId, ...(lines === undefined ? {} : { contextLines: lines }) };
    for await (const { data } of this.caller.parts("gitDiff", request)) pieces.push(data);
    return joined(pieces);
  }

  /** Brings files of a ref into the context: all of them, or none. */
  async pull(options: GitPullOptions): Promise<Pulled> {
    requireKnown(options, ["repo", "paths", "ref", "remote", "dest", "onConflict", "dryRun", "signal"]);
    const { repo, paths = [], ref = "", remote = "", dest = "", onConflict = "fail", dryRun = false, signal } = options;
    requireOne("onConflict", onConflict, onConflicts);
    const request = { contextId: this.contextId, repo, paths: [...paths], ref, remote, dest, onConflict: onConflicts[onConflict], dryRun };
    const out: Pulled = { commit: "", journalId: 0, files: [] };
    for await (const { part } of this.caller.parts("pull", request, { signal })) {
      if (part.case === "file") out.files.push(pulledOf(part.value));
      else if (part.case === "summary") Object.assign(out, { commit: part.value.commit, journalId: Number(part.value.entry) });
    }
    if (out.commit === "") throw endless("pull");
    return out;
  }

  /** Makes a commit of changes, for a person to look at. No branch moves, and the context keeps its changes. */
  async stage(options: GitStageOptions): Promise<GitStagedCommit> {
    requireKnown(options, ["files", "repo", "branch", "message", "author", "signal"]);
    const { files = [], repo = "", branch = "", message, author = "", signal } = options;
    const { staged } = await this.caller.call("stage", { contextId: this.contextId, files: [...files], repo, branch, message, author }, { signal });
    return whole("stage", staged);
  }

  /** Lists staged commits that were neither pushed nor discarded, newest first, without their diffs. */
  async listStaged(options: { withPushed?: boolean | undefined } = {}): Promise<GitStagedCommit[]> {
    requireKnown(options, ["withPushed"]);
    const { staged } = await this.caller.call("listStaged", { contextId: this.contextId, withPushed: options.withPushed ?? false });
    return staged.map(stagedOf);
  }

  /** Returns a staged commit with the diff of each file. */
  async getStaged(id: string): Promise<GitStagedCommit> {
    const { staged } = await this.caller.call("getStaged", { id });
    return whole("getStaged", staged);
  }

  /** Forgets a staged commit. The context keeps its changes. */
  async discard(id: string): Promise<void> {
    await this.caller.call("discardStaged", { id });
  }

  /** Moves a branch to a staged commit. It is for hosts, and for panels that were opened with gitPush. */
  async push(id: string, options: GitPushOptions): Promise<Pushed> {
    requireKnown(options, ["expectedCommit", "target", "remote", "branch", "createBranch", "onMoved", "dryRun", "onPhase", "signal"]);
    const { expectedCommit, target = "branch", remote = "", branch = "", createBranch = false, onMoved = "fail", dryRun = false, onPhase, signal } = options;
    requireOne("target", target, targets);
    requireOne("onMoved", onMoved, onMoves);
    const request = { id, expectedCommit, target: targets[target], remote, branch, createBranch, onMoved: onMoves[onMoved], dryRun };
    let pushed: Pushed | undefined;
    for await (const { part } of this.caller.parts("push", request, { signal })) {
      if (part.case === "phase") onPhase?.(phases[part.value]);
      else if (part.case === "result") pushed = pushedOf(part.value);
    }
    if (!pushed) throw endless("push");
    return pushed;
  }

  /** Lists the branches of a repository of the workspace. */
  async branches(repo: string): Promise<GitBranch[]> {
    const { branches } = await this.caller.call("listBranches", { contextId: this.contextId, repo });
    return branches.map(({ name, commit, checkedOut }) => ({ name, commit, checkedOut }));
  }
}

/** The error of a call that ended without its result. */
function endless(op: string): Error {
  return new ConnectionError("ECONNRESET", `the server ended ${op} without its result`, true);
}

function whole(op: string, staged: StagedCommit | undefined): GitStagedCommit {
  if (!staged) throw endless(op);
  return stagedOf(staged);
}
