import type { CtxFs } from "../create.js";
import { requireKnown } from "../errors/options.js";
import { dirname, isWithin, resolve } from "../fs/posix.js";
import { GitError, isMissing, NotFoundError, SandboxError, sandboxError, type GitCall } from "./errors.js";
import type { PullOptions, PullResult, PushOptions, PushResult, SandboxGit, StagedCommit, StageOptions } from "./git.js";

/** Files under a few names with a meaning: "/workspace/report.md" is work, "/cache/page.html" a download. */
export interface Sandbox {
  /** Reads a text. */
  read(path: string): Promise<string>;
  /** Reads bytes. */
  readBinary(path: string): Promise<Uint8Array>;
  /** Writes a text, and makes missing directories. */
  write(path: string, text: string): Promise<void>;
  /** Writes bytes, and makes missing directories. */
  writeBinary(path: string, bytes: Uint8Array): Promise<void>;
  /** Removes a file, or a directory with its content. NotFoundError when nothing is there. */
  delete(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** The names in a directory, sorted. */
  list(path: string): Promise<string[]>;
  /** Makes a directory, and its missing parents. */
  mkdir(path: string): Promise<void>;
  /** Returns the real path, for programs of the host. Rejects with a SandboxError of code EACCES for panels, and ENOTSUP where no disk has the files. */
  resolve(path: string): Promise<string>;
  /** Brings files of a repository into the sandbox: all of them, or none. */
  gitPull(options: PullOptions): Promise<PullResult>;
  /** Makes a commit of changed files, for a person to look at. No branch moves. */
  gitStage(options: StageOptions): Promise<StagedCommit>;
  /** Moves the branch of a staged commit to it, and creates the branch if it does not exist. */
  gitPush(commitId: string, options?: PushOptions): Promise<PushResult>;
  /** Forgets a staged commit. The files stay as they are. */
  gitDiscard(commitId: string): Promise<void>;
  /** The staged commits that were neither pushed nor discarded, newest first. */
  gitListStaged(): Promise<StagedCommit[]>;
  /** The zones: the directories that paths begin with. Over a panel they are known from the first call on. */
  readonly zones: readonly string[];
  /** The whole of fs/promises beneath. It knows no zones, except those of a server. */
  readonly fs: CtxFs;
  /** Ends the connection, and a server that createSandbox started. The files stay. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What a sandbox works on. */
export interface Backing {
  fs: CtxFs;
  /** The zones, or how to learn them. */
  zones: readonly string[] | (() => Promise<readonly string[]>);
  /** Begins, if it has not; rejects when it cannot. */
  ready?: (() => Promise<unknown>) | undefined;
  git?: SandboxGit | undefined;
  resolve?: ((path: string) => Promise<string>) | undefined;
  close?: (() => Promise<void>) | undefined;
  /** What to do to get a zone that does not exist. */
  zoneHint?: string | undefined;
}

/** The zones of a sandbox by default. */
export const usualZones: readonly string[] = ["/cache", "/workspace"];

/** Makes a sandbox over an fs, in which each zone is a directory. */
export function sandboxOver(fs: CtxFs, zones: readonly string[]): Sandbox {
  return sandboxOf({ fs, zones });
}

/** Makes a sandbox. */
export function sandboxOf(backing: Backing): Sandbox {
  const { fs, git, zoneHint } = backing;
  let known = typeof backing.zones === "function" ? usualZones : backing.zones;
  let learning: Promise<unknown> | undefined;
  const learn = async (): Promise<void> => {
    await backing.ready?.();
    if (typeof backing.zones === "function") known = await backing.zones();
  };
  const begin = (): Promise<unknown> => (learning ??= learn().catch((error: unknown) => {
    learning = undefined;
    throw sandboxError(error);
  }));
  /** Runs a call with the path that was given, which has to be in a zone. */
  const at = async <T>(given: string, run: (path: string) => Promise<T>): Promise<T> => {
    await begin();
    const path = inZone(given, known, zoneHint);
    try {
      return await run(path);
    } catch (error) {
      throw sandboxError(error, given);
    }
  };
  const write = (path: string, content: string | Uint8Array): Promise<void> => at(path, async (p) => {
    await fs.mkdir(dirname(p), { recursive: true });
    await fs.writeFile(p, content);
  });
  const withGit = async <T>(operation: GitCall, run: (git: SandboxGit) => Promise<T>): Promise<T> => {
    if (!git) throw new GitError("this sandbox has no git: use one of a ctxfs server (createSandbox), or give an octokit", operation, "GIT_NO_REPOSITORY");
    await begin();
    return run(git);
  };
  const close = async (): Promise<void> => {
    await fs.disconnect();
    await backing.close?.();
  };
  return {
    fs, get zones() { return known; },
    read: (path) => at(path, (p) => fs.readFile(p, "utf8")),
    readBinary: (path) => at(path, (p) => fs.readFile(p)),
    write, writeBinary: write,
    delete: (path) => at(path, (p) => {
      if (known.includes(p)) throw new SandboxError(`${p} is a zone: delete what is in it`, "EBUSY", path);
      return fs.rm(p, { recursive: true });
    }),
    exists: (path) => at(path, async (p) => {
      try {
        await fs.access(p);
        return true;
      } catch (error) {
        if (isMissing(error)) return false;
        throw error;
      }
    }),
    list: (path) => at(path, async (p) => (await fs.readdir(p)).sort()),
    mkdir: (path) => at(path, async (p) => { await fs.mkdir(p, { recursive: true }); }),
    resolve: (path) => at(path, (p) => {
      if (backing.resolve) return backing.resolve(p);
      throw new SandboxError("this sandbox has no files on a disk that its user may see", "ENOTSUP", path);
    }),
    gitPull: (options) => withGit("pull", (git) => {
      requireKnown(options, ["repo", "paths", "branch", "signal"]);
      return git.pull(options);
    }),
    gitStage: (options) => withGit("stage", (git) => {
      requireKnown(options, ["files", "repo", "branch", "message", "signal"]);
      return git.stage({ ...options, files: options.files.map((file) => inZone(file, known, zoneHint)) });
    }),
    gitPush: (commitId, options = {}) => withGit("push", (git) => {
      requireKnown(options, ["expectedCommit", "target", "signal"]);
      return git.push(commitId, options);
    }),
    gitDiscard: (commitId) => withGit("discard", (git) => git.discard(commitId)),
    gitListStaged: () => withGit("list", (git) => git.list()),
    close, [Symbol.asyncDispose]: close,
  };
}

/** Returns the absolute path. NotFoundError when it is in no zone. */
function inZone(given: string, zones: readonly string[], hint?: string): string {
  const path = resolve("/", given);
  if (zones.some((zone) => isWithin(zone, path))) return path;
  throw new NotFoundError(`${given} is in no zone of this sandbox: paths begin with ${zones.join(" or ")}`, given, undefined, hint);
}
