import type { CtxFs } from "../create.js";
import { isWithin } from "../fs/posix.js";
import { GitError, gitError, type GitCall } from "../sandbox/errors.js";
import type { PullOptions, PullResult, PushOptions, PushResult, SandboxGit, StagedCommit, StageOptions } from "../sandbox/git.js";
import { Repository, type OctokitLike } from "./api.js";
import { fileDiff, type DiffSide } from "./diff.js";
import { isBarred, WorkingFiles } from "./files.js";
import { blobName, commitName, type Signature, type TreeEntry } from "./objects.js";
import type { GitStore } from "./store.js";
import { changedTree } from "./trees.js";

/** The most bytes that one pull brings. */
const maxPulled = 100 << 20;
/** How many blobs are fetched at once. */
const fetches = 8;

/** What was pulled of a repository: each file as it was on GitHub. */
interface Base { branch: string; files: Record<string, TreeEntry> }

/** A staged commit, with all that push needs. Nothing of it is on GitHub before. */
interface StagedRecord {
  shown: StagedCommit;
  /** The branch does not exist. */
  creates: boolean;
  parent: string;
  parentTree: string;
  tree: string;
  by: Signature;
  changes: { path: string; mode: string; sha: string | null; bytes: Uint8Array | null }[];
}

/** What a path is on the three sides of a stage. */
interface Sides { path: string; local: DiffSide | undefined; target: TreeEntry | undefined }

/** Git through the API of GitHub, for sandboxes without a server. The files of owner/name are in /workspace/name. */
export class GitHubGit implements SandboxGit {
  constructor(private readonly fs: CtxFs, private readonly octokit: OctokitLike, private readonly store: GitStore, private readonly author?: { name: string; email: string }) {}

  pull({ repo, paths, branch, signal }: PullOptions): Promise<PullResult> {
    return this.run("pull", async () => {
      const api = new Repository(this.octokit, repo, "pull", signal);
      const ref = branch ?? (await api.about()).default_branch;
      const { sha: commit, tree } = await api.commit(ref);
      const theirs = await this.chosen(api, tree, paths);
      const base = await this.base(repo);
      const files = this.files(repo);
      const known = Object.keys(base.files).filter((path) => !theirs.has(path) && paths.some((chosen) => isWithin(`/${chosen}`, `/${path}`)));
      const plan = await Promise.all([...theirs.keys(), ...known].sort().map((path) => this.planned(files, path, base.files[path], theirs.get(path))));
      const conflicts = plan.filter(({ outcome }) => outcome === "conflict").map(({ path }) => path);
      if (conflicts.length > 0) {
        throw api.error("GIT_CONFLICT", `${conflicts.join(", ")}: changed here and on GitHub, or in the way; nothing was pulled. Stage your version, or delete it, and pull again`, { ref, paths: conflicts });
      }
      const contents = await contentsOf(api, plan.filter(({ outcome }) => outcome === "created" || outcome === "updated").map(({ path }) => [path, theirs.get(path) as TreeEntry]));
      for (const { path, outcome } of plan) if (outcome === "deleted") await files.remove(path);
      for (const [path, side] of contents) await files.write(path, side);
      const kept = Object.entries(base.files).filter(([path]) => !known.includes(path));
      await this.store.put({ [`base:${repo}`]: { branch: ref, files: { ...Object.fromEntries(kept), ...Object.fromEntries(theirs) } } satisfies Base });
      return { commit, files: plan.map(({ path, outcome }) => ({ path: `${files.root}/${path}`, outcome })) };
    });
  }

  stage({ files: chosen, repo, branch, message, signal }: StageOptions): Promise<StagedCommit> {
    return this.run("stage", async () => {
      const api = new Repository(this.octokit, repo, "stage", signal);
      if (message.trim() === "") throw new TypeError("a commit needs a message");
      const base = await this.base(repo);
      const target = branch ?? `ctxfs/${slug(message)}`;
      const head = await api.head(target);
      const { sha: parent, tree: parentTree } = await api.commit(head ?? (base.branch || (await api.about()).default_branch));
      const sides = await this.sides(api, repo, chosen, base, parentTree);
      const changes: StagedRecord["changes"] = [];
      const shown: StagedCommit["files"] = [];
      const conflicts: string[] = [];
      for (const { path, local, target: theirs } of sides) {
        const sha = local ? await blobName(local.bytes) : null;
        if (sha === (theirs?.sha ?? null) && local?.mode === theirs?.mode) continue;
        const before = base.files[path];
        if (before && theirs?.sha !== before.sha) conflicts.push(path);
        const old = theirs && { mode: theirs.mode, bytes: await api.blob(theirs.sha) };
        shown.push({ path: `${this.files(repo).root}/${path}`, diff: fileDiff(path, old, local), operation: theirs ? (local ? "update" : "delete") : "create" });
        changes.push({ path, mode: local?.mode ?? theirs?.mode ?? "100644", sha, bytes: local?.bytes ?? null });
      }
      if (conflicts.length > 0) throw api.error("GIT_CONFLICT", `${target} has other versions of ${conflicts.join(", ")} than were pulled: pull them first`, { ref: `refs/heads/${target}`, paths: conflicts });
      if (changes.length === 0) throw api.error("GIT_NOTHING_TO_COMMIT", `none of the files differs from ${target}`);
      const tree = await changedTree(parentTree, changes, (sha) => api.tree(sha));
      const by = await this.signature();
      const commit = await commitName(tree, [parent], by, message);
      const staged: StagedCommit = { id: crypto.randomUUID(), repo, branch: target, message, files: shown, createdAt: by.date, commit };
      await this.store.put({ [`staged:${staged.id}`]: { shown: staged, creates: head === undefined, parent, parentTree, tree, by, changes } satisfies StagedRecord });
      return staged;
    });
  }

  push(id: string, { expectedCommit, signal }: PushOptions): Promise<PushResult> {
    return this.run("push", async () => {
      const record = await this.staged("push", id);
      const { shown, parent, creates } = record;
      const api = new Repository(this.octokit, shown.repo, "push", signal);
      const ref = `refs/heads/${shown.branch}`;
      if (expectedCommit !== undefined && expectedCommit !== shown.commit) {
        throw api.error("GIT_STALE_BASE", "this is not the commit that was looked at", { ref, expected: expectedCommit, actual: shown.commit });
      }
      const head = await api.head(shown.branch);
      if (head !== shown.commit) {
        if (head !== (creates ? undefined : parent)) throw api.error("GIT_NON_FAST_FORWARD", `${shown.branch} got other commits since this one was staged: pull, and stage again`, { ref, expected: creates ? "" : parent, actual: head ?? "" });
        await send(api, record);
        await this.move(api, record);
      }
      const base = await this.base(shown.repo);
      for (const { path, mode, sha } of record.changes) {
        if (sha === null) Reflect.deleteProperty(base.files, path);
        else base.files[path] = { mode, sha };
      }
      await this.store.put({ [`staged:${id}`]: undefined, [`base:${shown.repo}`]: base });
      return { commitSha: shown.commit, url: `${(await api.about()).html_url}/commit/${shown.commit}` };
    });
  }

  discard(id: string): Promise<void> {
    return this.run("discard", async () => {
      await this.staged("discard", id);
      await this.store.put({ [`staged:${id}`]: undefined });
    });
  }

  list(): Promise<StagedCommit[]> {
    return this.run("list", async () => {
      const records = await this.store.list("staged:") as StagedRecord[];
      return records.map(({ shown }) => shown).sort((a, b) => b.createdAt.getTime() - a.createdAt.getTime());
    });
  }

  private async run<T>(operation: GitCall, task: () => Promise<T>): Promise<T> {
    try {
      return await this.store.exclusive(task);
    } catch (error) {
      throw gitError(error, operation);
    }
  }

  private files(repo: string): WorkingFiles {
    return new WorkingFiles(this.fs, `/workspace/${repo.slice(repo.indexOf("/") + 1)}`);
  }

  private async base(repo: string): Promise<Base> {
    return (await this.store.get(`base:${repo}`) as Base | undefined) ?? { branch: "", files: {} };
  }

  private async staged(operation: GitCall, id: string): Promise<StagedRecord> {
    const record = await this.store.get(`staged:${id}`) as StagedRecord | undefined;
    if (!record) throw new GitError(`GIT_NO_STAGED: no staged commit has the ID ${JSON.stringify(id)}`, operation, "GIT_NO_STAGED", { operation });
    return record;
  }

  /** The files of a commit that paths choose. */
  private async chosen(api: Repository, tree: string, paths: readonly string[]): Promise<Map<string, TreeEntry>> {
    const found = new Map<string, TreeEntry>();
    for (const path of paths) {
      const entry = path === "" || path === "." ? { mode: "40000", sha: tree } : await entryAt(api, tree, path);
      if (!entry) throw api.error("GIT_NO_REF", `the commit has no ${path}`, { paths: [path] });
      const prefix = path === "" || path === "." ? "" : `${path}/`;
      if (entry.mode !== "40000") found.set(path, entry);
      else for (const [name, file] of await api.tree(entry.sha, true)) found.set(prefix + name, file);
    }
    const barred = [...found.keys()].filter(isBarred);
    if (barred.length > 0) throw api.error("GIT_REJECTED", "the repository has names that must not be made", { paths: barred });
    return new Map([...found].filter(([, { mode }]) => mode !== "160000")); // submodules stay out
  }

  /** Decides what pull does with a path: its version of the last pull, this one here, and GitHub's. */
  private async planned(files: WorkingFiles, path: string, base: TreeEntry | undefined, theirs: TreeEntry | undefined): Promise<{ path: string; outcome: "created" | "updated" | "deleted" | "unchanged" | "conflict" }> {
    const local = await files.read(path);
    const mine = local && { mode: local.mode, sha: await blobName(local.bytes) };
    if (same(mine, theirs)) return { path, outcome: "unchanged" };
    if (same(base, theirs)) return { path, outcome: "unchanged" }; // only changed here
    if (!same(mine, base) || await files.obstacle(path) !== undefined || (!local && (await files.below(path)).length > 0)) return { path, outcome: "conflict" };
    return { path, outcome: theirs ? (mine ? "updated" : "created") : "deleted" };
  }

  /** The files that a stage is about: those that were named, those below directories, and those that are gone from there. */
  private async sides(api: Repository, repo: string, chosen: readonly string[], base: Base, tree: string): Promise<Sides[]> {
    const files = this.files(repo);
    const paths = new Set<string>();
    for (const file of chosen) {
      if (!isWithin(files.root, file)) throw api.error("GIT_NO_REPOSITORY", `${file} is not in ${files.root}, where the files of ${repo} are`, { paths: [file] });
      const path = file.slice(files.root.length + 1);
      const below = await files.below(path);
      for (const found of below) paths.add(found);
      for (const known of Object.keys(base.files)) if (isWithin(`/${path}`, `/${known}`)) paths.add(known);
      if (below.length === 0 && path !== "") paths.add(path);
    }
    return Promise.all([...paths].sort().map(async (path) => {
      if (isBarred(path)) throw api.error("GIT_REJECTED", `${path} must not be committed`, { paths: [path] });
      const target = await entryAt(api, tree, path);
      if (target?.mode === "160000") throw api.error("GIT_SUBMODULE", `${path} is a submodule`, { paths: [path] });
      return { path, local: await files.read(path), target: target?.mode === "40000" ? undefined : target };
    }));
  }

  private async signature(): Promise<Signature> {
    const date = new Date(Math.floor(Date.now() / 1000) * 1000);
    if (this.author) return { ...this.author, date };
    const { login, id, name } = (await this.octokit.request("GET /user")).data as { login: string; id: number; name: string | null };
    return { name: name ?? login, email: `${id}+${login}@users.noreply.github.com`, date };
  }

  /** Moves the branch. When the answer is lost, the branch says whether it moved. */
  private async move(api: Repository, { shown, creates }: StagedRecord): Promise<void> {
    try {
      await (creates ? api.create(shown.branch, shown.commit) : api.move(shown.branch, shown.commit));
    } catch (error) {
      const head = await api.head(shown.branch).catch(() => null);
      if (head === shown.commit) return;
      const ref = `refs/heads/${shown.branch}`;
      if (head === null) throw api.error("GIT_UNREACHABLE", "GitHub was not reached, and the branch may have moved: push again", { ref, mayHaveHappened: true }, error);
      if ((error as GitError).reason !== "GIT_REJECTED" || head === undefined) throw error;
      throw api.error("GIT_NON_FAST_FORWARD", `GitHub did not move ${shown.branch}: it got other commits, or is protected (${(error as Error).message})`, { ref, actual: head }, error);
    }
  }
}

/** Makes a staged commit's objects on GitHub. They have to be those that were looked at. */
async function send(api: Repository, { shown, parent, parentTree, tree, by, changes }: StagedRecord): Promise<void> {
  const check = (made: string, expected: string, what: string): void => {
    if (made !== expected) throw api.error("GIT_STALE_BASE", `GitHub made another ${what} than the one that was looked at; no branch moved`, { expected, actual: made });
  };
  for (const { path, sha, bytes } of changes) if (sha !== null && bytes) check(await api.makeBlob(bytes), sha, `version of ${path}`);
  check(await api.makeTree(parentTree, changes.map(({ path, mode, sha }) => ({ path, mode, sha }))), tree, "tree");
  check(await api.makeCommit(tree, parent, by, shown.message), shown.commit, "commit");
}

/** Fetches files, and checks that they are what the tree says. */
async function contentsOf(api: Repository, wanted: readonly [string, TreeEntry][]): Promise<[string, DiffSide][]> {
  const out: [string, DiffSide][] = [];
  let size = 0;
  for (let i = 0; i < wanted.length; i += fetches) {
    out.push(...await Promise.all(wanted.slice(i, i + fetches).map(async ([path, { mode, sha }]): Promise<[string, DiffSide]> => {
      const bytes = await api.blob(sha);
      size += bytes.length;
      if (size > maxPulled) throw api.error("GIT_TOO_LARGE", `the files have more than ${maxPulled >> 20} MiB: pull fewer paths`);
      if (await blobName(bytes) !== sha) throw api.error("GIT_UNREACHABLE", `${path} arrived damaged`, { paths: [path] });
      return [path, { mode, bytes }];
    })));
  }
  return out;
}

async function entryAt(api: Repository, tree: string, path: string): Promise<TreeEntry | undefined> {
  let entry: TreeEntry | undefined = { mode: "40000", sha: tree };
  for (const name of path.split("/")) {
    if (entry?.mode !== "40000") return undefined;
    entry = (await api.tree(entry.sha)).get(name);
  }
  return entry;
}

function same(a: TreeEntry | undefined, b: TreeEntry | undefined): boolean {
  return a?.sha === b?.sha && a?.mode === b?.mode;
}

/** Makes the part of a branch's name that says what it is about. */
function slug(message: string): string {
  const words = message.split("\n", 1)[0]?.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 40).replace(/^-+|-+$/g, "") ?? "";
  return `${words || "changes"}-${crypto.randomUUID().slice(0, 6)}`;
}
