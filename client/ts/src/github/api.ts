import { Buffer } from "#platform";
import { GitError, type GitCall } from "../sandbox/errors.js";
import type { Signature, TreeEntry } from "./objects.js";

/** What git through GitHub needs of an Octokit: that of @octokit/core, and those that are made of it. */
export interface OctokitLike {
  request(route: string, parameters?: Record<string, unknown>): Promise<{ data: unknown }>;
}

/** A change of a tree; sha null removes the path. */
export interface TreeChange { path: string; mode: string; sha: string | null }

interface RawEntry { path: string; mode: string; type: string; sha: string; size?: number }

/** What GitHub answers, as far as it is read. */
interface RequestError { status?: number; message: string; response?: { headers?: Record<string, string | undefined> } }

/** The Git Data API of one repository, for one call of a sandbox. */
export class Repository {
  private readonly owner: string;
  private readonly name: string;

  constructor(private readonly octokit: OctokitLike, readonly repo: string, private readonly operation: GitCall, private readonly signal?: AbortSignal) {
    const [, owner = "", name = ""] = /^([\w.-]+)\/([\w.-]+)$/.exec(repo) ?? [];
    if (owner === "") throw new GitError(`${JSON.stringify(repo)} is no repository of GitHub: "owner/name"`, operation, "GIT_NO_REPOSITORY", { operation, repo });
    [this.owner, this.name] = [owner, name];
  }

  /** The name of the default branch, and the repository's page. */
  async about(): Promise<{ default_branch: string; html_url: string }> {
    return await this.request("GET /repos/{owner}/{repo}", {}, "GIT_NO_REPOSITORY") as { default_branch: string; html_url: string };
  }

  /** The commit that a branch names; undefined if there is no such branch. */
  async head(branch: string): Promise<string | undefined> {
    try {
      const { object } = await this.request("GET /repos/{owner}/{repo}/git/ref/{ref}", { ref: `heads/${branch}` }, "GIT_NO_REF") as { object: { sha: string } };
      return object.sha;
    } catch (error) {
      if (error instanceof GitError && error.reason === "GIT_NO_REF") return undefined;
      throw error;
    }
  }

  /** The commit that a branch, tag or commit names. GIT_NO_REF if there is none. */
  async commit(ref: string): Promise<{ sha: string; tree: string }> {
    const { sha, commit } = await this.request("GET /repos/{owner}/{repo}/commits/{ref}", { ref }, "GIT_NO_REF") as { sha: string; commit: { tree: { sha: string } } };
    return { sha, tree: commit.tree.sha };
  }

  /** The entries of a tree, or with recursive all files below it, by path. */
  async tree(sha: string, recursive = false): Promise<Map<string, TreeEntry>> {
    const parameters = { tree_sha: sha, ...(recursive ? { recursive: "1" } : {}) };
    const { tree, truncated } = await this.request("GET /repos/{owner}/{repo}/git/trees/{tree_sha}", parameters, "GIT_NO_REF") as { tree: RawEntry[]; truncated: boolean };
    if (truncated) throw this.error("GIT_TOO_LARGE", `a directory of ${this.repo} has more files than GitHub lists: name the files, or directories with fewer`);
    return new Map(tree.filter(({ type }) => !recursive || type !== "tree").map(({ path, mode, sha: name }) => [path, { mode: mode.replace(/^0/, ""), sha: name }]));
  }

  /** The content of a blob. */
  async blob(sha: string): Promise<Uint8Array> {
    const { content } = await this.request("GET /repos/{owner}/{repo}/git/blobs/{file_sha}", { file_sha: sha }, "GIT_NO_REF") as { content: string };
    return new Uint8Array(Buffer.from(content, "base64"));
  }

  /** Makes a blob. */
  async makeBlob(content: Uint8Array): Promise<string> {
    return this.make("POST /repos/{owner}/{repo}/git/blobs", { content: Buffer.from(content).toString("base64"), encoding: "base64" });
  }

  /** Makes a tree of another one and changes. */
  async makeTree(base: string, changes: readonly TreeChange[]): Promise<string> {
    return this.make("POST /repos/{owner}/{repo}/git/trees", { base_tree: base, tree: changes.map((change) => ({ ...change, type: "blob" })) });
  }

  /** Makes a commit. */
  async makeCommit(tree: string, parent: string, { name, email, date }: Signature, message: string): Promise<string> {
    const by = { name, email, date: date.toISOString().replace(/\.\d+Z$/, "Z") };
    return this.make("POST /repos/{owner}/{repo}/git/commits", { message, tree, parents: [parent], author: by, committer: by });
  }

  /** Moves a branch forward. */
  async move(branch: string, sha: string): Promise<void> {
    await this.request("PATCH /repos/{owner}/{repo}/git/refs/{ref}", { ref: `heads/${branch}`, sha, force: false }, "GIT_NO_REF");
  }

  /** Creates a branch. */
  async create(branch: string, sha: string): Promise<void> {
    await this.request("POST /repos/{owner}/{repo}/git/refs", { ref: `refs/heads/${branch}`, sha }, "GIT_NO_REPOSITORY");
  }

  /** Makes a refusal. */
  error(reason: string, message: string, details: Partial<GitError["details"]> = {}, cause?: unknown): GitError {
    return new GitError(`${reason}: ${message}`, this.operation, reason, { operation: this.operation, repo: this.repo, ...details }, cause);
  }

  private async make(route: string, parameters: Record<string, unknown>): Promise<string> {
    return (await this.request(route, parameters, "GIT_NO_REPOSITORY") as { sha: string }).sha;
  }

  private async request(route: string, parameters: Record<string, unknown>, absent: string): Promise<unknown> {
    try {
      return (await this.octokit.request(route, { owner: this.owner, repo: this.name, ...parameters, request: { signal: this.signal } })).data;
    } catch (error) {
      this.signal?.throwIfAborted();
      throw this.refusal(error as RequestError, absent);
    }
  }

  private refusal(error: RequestError, absent: string): GitError {
    const { status = 0, response } = error;
    const said = plain(error.message);
    if (status === 404 || status === 409) return this.error(absent, `GitHub has no such thing in ${this.repo}, or does not show it to this user (${said})`, {}, error);
    const limited = status === 429 || (status === 403 && response?.headers?.["x-ratelimit-remaining"] === "0");
    if (limited || status >= 500 || !response) return this.error("GIT_UNREACHABLE", limited ? `GitHub wants fewer requests (${said})` : `GitHub was not reached (${said})`, {}, error);
    if (status === 401 || status === 403) return this.error("GIT_AUTH", `GitHub refuses this user (${said})`, {}, error);
    return this.error("GIT_REJECTED", `GitHub refuses: ${said}`, {}, error);
  }
}

/** Returns what GitHub said, short and without control characters. */
function plain(text: string): string {
  return text.replace(/\p{Cc}+/gu, " ").slice(0, 500);
}
