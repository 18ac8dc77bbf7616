import type { ReviewPath } from "../review/types.js";

/* What git takes and gives. docs/how-to/git.md explains the words. */

/** What a commit, or a context, does to a path. */
export type GitOperation = "create" | "update" | "delete";

/** A repository that a context was seeded with. */
export interface GitRepository {
  /** Where it is in the context. It is its name in other calls. */
  path: string;
  /** The commit that was checked out when the context was seeded; "" before the first commit. */
  baseCommit: string;
  /** The branch that was checked out then; "" if HEAD was detached. */
  branch: string;
  /** It had files that differed from baseCommit. */
  dirtyWhenSeeded: boolean;
  /** The commit that is checked out now; "" if the repository is gone. For hosts only. */
  head: string;
  /** Commits of `branch` that baseCommit does not have. For hosts only. */
  behind: number;
  /** The names of its remotes that pull and push may use. */
  remotes: string[];
  /** Why git cannot use it: "bare", "reftable", "elsewhere"; "" if it can. */
  unusable: string;
}

/** A file of a commit, or a change of a context. */
export interface GitFile extends ReviewPath {
  operation: GitOperation;
  /** The repository. */
  repo: string;
  /** Lines; 0 for what is no text. */
  additions: number;
  deletions: number;
  /** It is no text, or larger than 4 MiB. */
  binary: boolean;
  /** Git's modes (0o100644, 0o100755, 0o120000) before and after; 0 where the file does not exist. */
  oldMode: number;
  newMode: number;
  /** The file with this content that the same change deletes, if it is the only one; "" for none. */
  renameFrom: string;
  /** The diff, as git apply accepts it. Of staged commits only. */
  diff: string;
  /** The diff is too long for the reply: diff({ stagedId, paths }) has it. */
  diffTruncated: boolean;
  /** Why it cannot be staged: "git-directory", "special-file", "setuid"; "" if it can. */
  barred: string;
  /** The workspace's ignore files exclude it: stage takes it only if it is named. */
  ignored: boolean;
}

/** How many files a context changed in a repository. */
export interface GitCounts {
  repo: string;
  created: number;
  updated: number;
  deleted: number;
}

/** What a context changed. */
export interface GitStatus {
  files: GitFile[];
  /** One for each repository. */
  repositories: GitCounts[];
}

/** What pull did to a path. */
export interface PulledFile extends ReviewPath {
  outcome: "created" | "updated" | "merged" | "conflict" | "deleted" | "unchanged" | "unknown";
}

/** What pull did. */
export interface Pulled {
  /** The commit that was pulled. */
  commit: string;
  /** The journal entry, for undo of a review; 0 in a dry run, and if nothing changed. */
  journalId: number;
  files: PulledFile[];
}

/** Where a staged commit was pushed to. */
export interface Pushed {
  /** The commit that the branch names now: the staged one, or a merge. */
  commit: string;
  branch: string;
  /** What the branch named before; "" if it was created. */
  previous: string;
  target: PushTarget;
  /** The remote's name; "" for a push into the workspace. */
  remote: string;
  /** The address of the remote without user and password, or the path of the repository in the workspace. */
  url: string;
  /** When; undefined in a dry run. */
  pushedAt: Date | undefined;
}

/** Where to push to: a branch that is not checked out, the branch that is, with its working tree, or a branch of the remote. */
export type PushTarget = "branch" | "worktree" | "remote";

/** A commit that waits for a person to look at it. */
export interface GitStagedCommit {
  /** Names it in other calls. It cannot be guessed. */
  id: string;
  /** The ID of the git commit: what push has to be told again. */
  commit: string;
  /** What the branch named, or would begin at, when it was staged. */
  parent: string;
  repo: string;
  branch: string;
  message: string;
  /** "Name <email>". */
  author: string;
  createdAt: Date;
  contextId: string;
  /** The panel that staged it; "" for a host. */
  panelId: string;
  /** Without diffs in listStaged. */
  files: GitFile[];
  /** Where it was pushed to; undefined before. */
  pushed: Pushed | undefined;
}

/** A branch of a repository of the workspace. */
export interface GitBranch {
  name: string;
  commit: string;
  /** A working tree has it checked out. */
  checkedOut: boolean;
}
