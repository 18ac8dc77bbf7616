import * as pb from "../gen/ctxfs/v1/git_pb.js";
import { dateOf, pathOf, type Words } from "../review/convert.js";
import type * as own from "./types.js";

const operations: Words<pb.GitOperation, own.GitOperation> = {
  [pb.GitOperation.UNSPECIFIED]: "update", [pb.GitOperation.CREATE]: "create", [pb.GitOperation.UPDATE]: "update", [pb.GitOperation.DELETE]: "delete",
};
const outcomes: Words<pb.PullOutcome, own.PulledFile["outcome"]> = {
  [pb.PullOutcome.UNSPECIFIED]: "unknown", [pb.PullOutcome.CREATED]: "created", [pb.PullOutcome.UPDATED]: "updated", [pb.PullOutcome.MERGED]: "merged",
  [pb.PullOutcome.CONFLICT]: "conflict", [pb.PullOutcome.DELETED]: "deleted", [pb.PullOutcome.UNCHANGED]: "unchanged",
};
const targetWords: Words<pb.PushTarget, own.PushTarget> = {
  [pb.PushTarget.UNSPECIFIED]: "branch", [pb.PushTarget.WORKTREE]: "worktree", [pb.PushTarget.REMOTE]: "remote",
};
/** Where push can push to. */
export const targets = { branch: pb.PushTarget.UNSPECIFIED, worktree: pb.PushTarget.WORKTREE, remote: pb.PushTarget.REMOTE } as const;
/** What pull can do with paths that cannot be merged. */
export const onConflicts = {
  fail: pb.PullConflict.UNSPECIFIED, markers: pb.PullConflict.MARKERS, ours: pb.PullConflict.OURS, theirs: pb.PullConflict.THEIRS,
} as const;
/** What push can do if the branch moved. */
export const onMoves = { fail: pb.PushMoved.UNSPECIFIED, merge: pb.PushMoved.MERGE } as const;
/** How far a push is. */
export const phases: Words<pb.PushPhase, "unknown" | "checking" | "merging" | "pushing" | "advancing"> = {
  [pb.PushPhase.UNSPECIFIED]: "unknown", [pb.PushPhase.CHECKING]: "checking", [pb.PushPhase.MERGING]: "merging", [pb.PushPhase.PUSHING]: "pushing",
  [pb.PushPhase.ADVANCING]: "advancing",
};

/** Converts a repository. */
export function repositoryOf({ path, baseCommit, branch, dirtyWhenSeeded, head, behind, remotes, unusable }: pb.GitRepository): own.GitRepository {
  return { path, baseCommit, branch, dirtyWhenSeeded, head, behind, remotes, unusable };
}

/** Converts a file. */
export function fileOf(f: pb.GitFile): own.GitFile {
  const { repo, additions, deletions, binary, oldMode, newMode, renameFrom, diff, diffTruncated, barred, ignored } = f;
  return { ...pathOf(f), operation: operations[f.operation], repo, additions, deletions, binary, oldMode, newMode, renameFrom, diff, diffTruncated, barred, ignored };
}

/** Converts what pull did to a path. */
export function pulledOf(f: pb.PulledFile): own.PulledFile {
  return { ...pathOf(f), outcome: outcomes[f.outcome] };
}

/** Converts the end of a push. */
export function pushedOf({ commit, branch, previous, target, remote, url, pushedNs }: pb.PushResult): own.Pushed {
  return { commit, branch, previous, target: targetWords[target], remote, url, pushedAt: pushedNs === 0n ? undefined : dateOf(pushedNs) };
}

/** Converts a staged commit. */
export function stagedOf(s: pb.StagedCommit): own.GitStagedCommit {
  const { id, commit, parent, repo, branch, message, author, contextId, panelId } = s;
  return {
    id, commit, parent, repo, branch, message, author, createdAt: dateOf(s.createdNs), contextId, panelId, files: s.files.map(fileOf),
    pushed: s.pushed && pushedOf(s.pushed),
  };
}
