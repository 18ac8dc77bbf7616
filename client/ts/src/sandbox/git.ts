import { join } from "../fs/posix.js";
import type { Git } from "../git/git.js";
import type { GitFile, GitStagedCommit, PulledFile, PushTarget } from "../git/types.js";
import { gitError, type GitCall } from "./errors.js";

/** Options of gitPull. */
export interface PullOptions {
  /** The repository: its path in the sandbox, or from the zone that repositories are in: "app". With GitHub "owner/name". */
  repo: string;
  /** Files and directories of the repository, relative to it. */
  paths: readonly string[];
  /** A branch, tag or commit; the repository's current or default branch unless told. */
  branch?: string | undefined;
  /** Cancels the call. */
  signal?: AbortSignal | undefined;
}

/** What gitPull did. */
export interface PullResult {
  /** The commit that was pulled. */
  commit: string;
  files: { path: string; outcome: PulledFile["outcome"] }[];
}

/** Options of gitStage. */
export interface StageOptions {
  /** Files and directories of the sandbox. */
  files: readonly string[];
  /** The repository, as in gitPull. */
  repo: string;
  /** The branch that the commit goes on top of and that gitPush moves. */
  branch?: string | undefined;
  /** The commit's message. */
  message: string;
  /** Cancels the call. */
  signal?: AbortSignal | undefined;
}

/** A commit that waits for a person to look at it. */
export interface StagedCommit {
  id: string;
  repo: string;
  branch: string;
  message: string;
  /** Each file with its diff, as git apply accepts it. */
  files: { path: string; diff: string; operation: "create" | "update" | "delete" }[];
  createdAt: Date;
  /** The ID of the git commit. */
  commit: string;
}

/** Options of gitPush. */
export interface PushOptions {
  /** The commit that was looked at; the one that this sandbox returned for the ID unless told. */
  expectedCommit?: string | undefined;
  /** Where to: a branch of the workspace's repository ("branch", unless told), the branch that is checked out ("worktree"), or the "remote". */
  target?: PushTarget | undefined;
  /** Cancels the call. */
  signal?: AbortSignal | undefined;
}

/** Where a commit was pushed to. */
export interface PushResult {
  commitSha: string;
  url: string;
}

/** The git of a sandbox. */
export interface SandboxGit {
  pull(options: PullOptions): Promise<PullResult>;
  stage(options: StageOptions): Promise<StagedCommit>;
  push(commitId: string, options: PushOptions): Promise<PushResult>;
  discard(commitId: string): Promise<void>;
  list(): Promise<StagedCommit[]>;
}

/** What a server's git needs. */
export interface ServedGit {
  /** Pulls and stages. */
  git: Git;
  /** Pushes: the host's, or the panel's. */
  pusher: Git;
  /** Where repositories are: the zone that was seeded, or "/". */
  root: string;
}

/** Makes the git of a sandbox of a ctxfs server's. */
export function servedGit(open: () => Promise<ServedGit>): SandboxGit {
  const seen = new Map<string, string>();
  const run = async <T>(operation: GitCall, task: (served: ServedGit) => Promise<T>): Promise<T> => {
    try {
      return await task(await open());
    } catch (error) {
      throw gitError(error, operation);
    }
  };
  const shown = async (git: Git, staged: GitStagedCommit): Promise<StagedCommit> => {
    const { id, repo, branch, message, createdAt, commit } = staged;
    const files = await Promise.all(staged.files.map(async (file) => ({ path: file.path, diff: await wholeDiff(git, id, file), operation: file.operation })));
    seen.set(id, commit);
    return { id, repo, branch, message, files, createdAt, commit };
  };
  return {
    pull: ({ repo, paths, branch, signal }) => run("pull", async ({ git, root }) => {
      const { commit, files } = await git.pull({ repo: repositoryPath(root, repo), paths, ref: branch, signal });
      return { commit, files: files.map(({ path, outcome }) => ({ path, outcome })) };
    }),
    stage: ({ files, repo, branch, message, signal }) => run("stage", async ({ git, root }) => {
      return shown(git, await git.stage({ files, repo: repositoryPath(root, repo), branch, message, signal }));
    }),
    push: (id, { expectedCommit, target, signal }) => run("push", async ({ git, pusher }) => {
      const commit = expectedCommit ?? seen.get(id) ?? (await git.getStaged(id)).commit;
      const pushed = await pusher.push(id, { expectedCommit: commit, target, createBranch: true, signal });
      return { commitSha: pushed.commit, url: pushed.url };
    }),
    discard: (id) => run("discard", ({ git }) => git.discard(id)),
    list: () => run("list", async ({ git }) => {
      const staged = await git.listStaged();
      return Promise.all(staged.map(async ({ id }) => shown(git, await git.getStaged(id))));
    }),
  };
}

/** Returns the path of a repository that was given by its path, or by its name below root. */
function repositoryPath(root: string, repo: string): string {
  return repo.startsWith("/") ? repo : join(root, repo);
}

async function wholeDiff(git: Git, stagedId: string, { path, diff, diffTruncated }: GitFile): Promise<string> {
  return diffTruncated ? (await git.diff({ stagedId, paths: [path] })).toString() : diff;
}
