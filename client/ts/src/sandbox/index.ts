import { fsOver, type CtxFs } from "../create.js";
import { requireKnown } from "../errors/options.js";
import type { OctokitLike } from "../github/api.js";
import { GitHubGit } from "../github/git.js";
import { BrowserGitStore, MemoryGitStore, type GitStore } from "../github/store.js";
import { MemoryCaller } from "../memory/caller.js";
import { SharedCaller } from "../opfs/shared.js";
import type { SandboxGit } from "./git.js";
import { sandboxOf, usualZones, type Sandbox } from "./sandbox.js";

export type { OctokitLike } from "../github/api.js";
export { createSandbox } from "./create.js";
export { GitError, NotFoundError, SandboxError, type GitCall } from "./errors.js";
export type { PullOptions, PullResult, PushOptions, PushResult, StagedCommit, StageOptions } from "./git.js";
export { MemoryCaller } from "../memory/caller.js";
export type { DirectOptions, PanelOptions, SandboxedOptions, SandboxOptions } from "./options.js";
export { sandboxOver, type Sandbox } from "./sandbox.js";

/** Git without a server: through the API of GitHub. */
export interface GitHubOptions {
  /** Gives the sandbox git: an Octokit of @octokit/core, or of a package that is made of it. Repositories are "owner/name", and their files in /workspace/name. */
  octokit?: OctokitLike | undefined;
  /** The author of commits; the Octokit's user by default. */
  author?: { name: string; email: string } | undefined;
}

/**
 * Makes a sandbox in this process's memory, with the zones /cache and /workspace: for tests, and for workers without a server. It ends
 * with the process. It behaves as a disk does, links, handles, watches and errors included, but has no permissions: all is root's.
 */
export function createMemorySandbox(options: GitHubOptions = {}): Sandbox {
  requireKnown(options, ["octokit", "author"]);
  const fs = fsOver(new MemoryCaller(usualZones));
  return sandboxOf({ fs, zones: usualZones, git: gitOf(fs, options, () => new MemoryGitStore()) });
}

/** Options of createBrowserSandbox. */
export interface BrowserSandboxOptions extends GitHubOptions {
  /** Names the workspace within the page's origin: 1 to 64 of A-Z, a-z, 0-9, ".", "_" and "-". */
  workspaceId: string;
}

/**
 * Makes a sandbox in the browser's own storage for the page's origin, with the zones /cache and /workspace: it is there when the page is
 * opened again. Several pages may open a workspace: the first does the work of all, and when it ends another one takes over. Handles of the others are
 * then closed (EBADF), and a change that was under way rejects with ECONNRESET. Calls reject with ENOSPC when the browser gives no more space; what was written then stays in memory, and is kept when there is
 * space again.
 */
export function createBrowserSandbox(options: BrowserSandboxOptions): Sandbox {
  requireKnown(options, ["workspaceId", "octokit", "author"]);
  const { workspaceId } = options;
  if (!/^(?!\.+$)[A-Za-z0-9._-]{1,64}$/.test(workspaceId)) throw new TypeError(`workspaceId ${JSON.stringify(workspaceId)} is not 1 to 64 of A-Z, a-z, 0-9, ".", "_" and "-"`);
  const fs = fsOver(new SharedCaller(workspaceId, usualZones));
  return sandboxOf({ fs, zones: usualZones, git: gitOf(fs, options, () => new BrowserGitStore(`ctxfs:${workspaceId}:git`)) });
}

function gitOf(fs: CtxFs, { octokit, author }: GitHubOptions, store: () => GitStore): SandboxGit | undefined {
  return octokit && new GitHubGit(fs, octokit, store(), author);
}
