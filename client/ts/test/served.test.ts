import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { lstat, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startServer } from "../src/server/index.js";
import { createSandbox, GitError, NotFoundError, type Sandbox, type SandboxOptions } from "../src/sandbox/index.js";
import { serveGit } from "./githttp.js";
import { binary } from "./serve.js";

/* Sandboxes that a ctxfs server serves, on real repositories. */

let dir: string;
let before: string;
const opened: Sandbox[] = [];

beforeEach(async () => {
  before = process.cwd();
  dir = await realpath(await mkdtemp(join(tmpdir(), "ctxfs-served-")));
  process.chdir(dir);
});
afterEach(async () => {
  for (const sandbox of opened.splice(0)) await sandbox.close();
  process.chdir(before);
  await rm(dir, { recursive: true, force: true });
});

function open(options: SandboxOptions): Sandbox {
  const sandbox = createSandbox("panel" in options ? options : { ...options, bin: binary() });
  opened.push(sandbox);
  return sandbox;
}

/** Runs git in a repository of the workspace. */
function git(repo: string, ...args: string[]): string {
  return execFileSync("git", ["-C", join(dir, repo), "-c", "user.name=U", "-c", "user.email=u@example.org", ...args], { encoding: "utf8" });
}

/** Makes a repository with a report, and with changes of the user's. */
async function makeRepository(): Promise<void> {
  execFileSync("git", ["init", "-q", "-b", "main", join(dir, "reports")]);
  git("reports", "config", "user.name", "U");
  git("reports", "config", "user.email", "u@example.org");
  await writeFile(join(dir, "reports/july.md"), "l1\nl2\nl3\nl4\nl5\n");
  await writeFile(join(dir, "reports/plan.md"), "plan\n");
  git("reports", "add", "-A");
  git("reports", "commit", "-q", "-m", "begin");
}

const refusal = (promise: Promise<unknown>): Promise<unknown> => promise.then(() => { throw new Error("it was not refused"); }, (error: unknown) => error);

describe("mode sandboxed", () => {
  test("keeps /cache and /workspace below its root, also after it was closed", async () => {
    const sandbox = open({ mode: "sandboxed", root: ".sandbox" });
    expect(existsSync(".sandbox"), "nothing happens before the first call").toBe(false);
    await sandbox.write("/cache/page/a.html", "<p>");
    await sandbox.write("/workspace/report.md", "# Report\n");
    expect(await readFile(".sandbox/cache/page/a.html", "utf8")).toBe("<p>");
    expect(await readFile(".sandbox/workspace/report.md", "utf8")).toBe("# Report\n");
    expect(await readFile(await sandbox.resolve("/workspace/report.md"), "utf8")).toBe("# Report\n");
    await expect(sandbox.write("/etc/x", "x")).rejects.toBeInstanceOf(NotFoundError);
    await sandbox.close();
    const again = open({ mode: "sandboxed", root: ".sandbox" });
    expect(await again.list("/workspace")).toEqual(["report.md"]);
    expect(await readFile(".sandbox/cache/page/a.html", "utf8")).toBe("<p>");
  });

  test("links do not lead out", async () => {
    await writeFile("secret", "secret");
    const sandbox = open({ mode: "sandboxed", root: ".sandbox" });
    await sandbox.fs.symlink("../../../../secret", "/workspace/link");
    await sandbox.fs.symlink(join(dir, "secret"), "/workspace/absolute");
    await expect(sandbox.read("/workspace/link")).rejects.toMatchObject({ name: expect.stringMatching(/Error$/) as unknown });
    await expect(sandbox.read("/workspace/absolute")).rejects.toBeInstanceOf(NotFoundError);
  });

  test("something of the user's in the place of a zone is not touched", async () => {
    await mkdir(".sandbox/cache", { recursive: true });
    await writeFile(".sandbox/cache/mine", "mine");
    const sandbox = open({ mode: "sandboxed", root: ".sandbox" });
    await expect(sandbox.write("/cache/x", "x")).rejects.toMatchObject({ code: "EEXIST", message: expect.stringContaining("move it") as unknown });
    expect(await readFile(".sandbox/cache/mine", "utf8")).toBe("mine");
  });

  test("pull, edit, stage, look, push: the commit is the panel's lines alone", async () => {
    await makeRepository();
    await writeFile("reports/july.md", "l1 USER\nl2\nl3\nl4\nl5\n");
    const sandbox = open({ mode: "sandboxed", root: ".sandbox" });
    expect(await sandbox.read("/workspace/reports/july.md")).toBe("l1 USER\nl2\nl3\nl4\nl5\n");
    await writeFile("reports/plan.md", "new plan\n");
    git("reports", "commit", "-q", "-m", "plan", "plan.md");
    const pulled = await sandbox.gitPull({ repo: "reports", paths: ["plan.md"] });
    expect(pulled).toEqual({ commit: git("reports", "rev-parse", "HEAD").trim(), files: [{ path: "/workspace/reports/plan.md", outcome: "updated" }] });
    expect(await sandbox.read("/workspace/reports/plan.md")).toBe("new plan\n");

    await sandbox.write("/workspace/reports/july.md", "l1 USER\nl2\nl3\nl4\nl5 AGENT\n");
    const staged = await sandbox.gitStage({ files: ["/workspace/reports/july.md"], repo: "reports", branch: "july", message: "July" });
    expect(staged).toMatchObject({ repo: "/workspace/reports", branch: "july", files: [{ path: "/workspace/reports/july.md", operation: "update" }] });
    expect(staged.createdAt).toBeInstanceOf(Date);
    expect(staged.files[0]?.diff.split("\n").filter((line) => /^[-+][^-+]/.test(line))).toEqual(["-l5", "+l5 AGENT"]);
    expect(await sandbox.gitListStaged()).toEqual([staged]);
    expect(await refusal(sandbox.gitPush(staged.id, { expectedCommit: "0".repeat(40) }))).toMatchObject({ name: "GitError", code: "GIT_ERROR", operation: "push", reason: "GIT_STALE_BASE" });
    const pushed = await sandbox.gitPush(staged.id, { expectedCommit: staged.commit });
    expect(pushed.commitSha).toBe(staged.commit);
    expect(git("reports", "rev-parse", "july").trim()).toBe(staged.commit);
    expect(git("reports", "show", "july:july.md")).toBe("l1\nl2\nl3\nl4\nl5 AGENT\n");
    expect(git("reports", "status", "--porcelain")).toBe(" M july.md\n");
    expect(await sandbox.gitListStaged()).toEqual([]);
  });

  test("refusals of git have their reasons", async () => {
    await makeRepository();
    const sandbox = open({ mode: "sandboxed", root: ".sandbox" });
    const stage = (files: string[], repo = "reports") => refusal(sandbox.gitStage({ files, repo, message: "M" }));
    expect(await stage(["/workspace/reports/july.md"])).toMatchObject({ code: "GIT_ERROR", operation: "stage", reason: "GIT_NOTHING_TO_COMMIT" });
    expect(await refusal(sandbox.gitPull({ repo: "none", paths: ["."] }))).toMatchObject({ operation: "pull", reason: "GIT_NO_REPOSITORY" });
    expect(await stage(["/etc/x"])).toBeInstanceOf(NotFoundError);
    expect(await refusal(sandbox.gitPull({ repo: "reports", paths: ["july.md"], branch: "none" }))).toMatchObject({ operation: "pull", reason: "GIT_NO_REF" });
    const none = await refusal(sandbox.gitDiscard("none"));
    expect(none).toBeInstanceOf(GitError);
    expect(none).toMatchObject({ operation: "discard", reason: "GIT_NO_STAGED" });
  });

  test("/workspace begins with chosen folders alone, or with nothing", async () => {
    await makeRepository();
    await mkdir("other");
    execFileSync("git", ["init", "-q", join(dir, "other")]);
    await writeFile("other/a", "a");
    const one = open({ mode: "sandboxed", root: ".one", from: ["reports"] });
    expect(await one.list("/workspace")).toEqual(["reports"]);
    const none = open({ mode: "sandboxed", root: ".none", from: [] });
    expect(await none.list("/workspace")).toEqual([]);
  });
});

describe("mode direct", () => {
  test("writes into the user's own directories, and makes them", async () => {
    const sandbox = open({ mode: "direct", cache: "./downloads", workspace: "./reports" });
    await sandbox.write("/workspace/deep/report.md", "# Report\n");
    await sandbox.write("/cache/a", "a");
    expect(await readFile("reports/deep/report.md", "utf8")).toBe("# Report\n");
    expect(await readFile("downloads/a", "utf8")).toBe("a");
    expect(await sandbox.resolve("/cache/a")).toBe(join(dir, "downloads/a"));
    await expect(sandbox.fs.rename("/cache/a", "/workspace/a")).rejects.toMatchObject({ code: "EXDEV" });
    expect((await sandbox.fs.readdir("/")).sort()).toEqual(["cache", "workspace"]);
  });

  test("one directory: /cache is not there, and the error says how to get it", async () => {
    await writeFile("a.md", "a\n");
    const sandbox = open({ mode: "direct", workspace: "." });
    expect(await sandbox.read("/workspace/a.md")).toBe("a\n");
    const error = await refusal(sandbox.read("/cache/x"));
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ code: "NOT_FOUND", path: "/cache/x", hint: 'give createSandbox a directory for downloads: cache: "./downloads"' });
    expect(await sandbox.list("/workspace")).not.toContain(".contexts");
  });

  test("the repository's own directory cannot be reached", async () => {
    await makeRepository();
    const sandbox = open({ mode: "direct", workspace: "./reports" });
    expect(await sandbox.list("/workspace")).toEqual(["july.md", "plan.md"]);
    for (const name of [".git", ".GIT"]) await expect(sandbox.write(`/workspace/${name}/hooks/post-commit`, "x")).rejects.toMatchObject({ code: "EACCES" });
    expect((await lstat("reports/.git/hooks")).isDirectory()).toBe(true);
    expect(existsSync("reports/.git/hooks/post-commit")).toBe(false);
  });

  test("directories outside of the working directory are served too", async () => {
    const outside = await realpath(await mkdtemp(join(tmpdir(), "ctxfs-outside-")));
    try {
      const sandbox = open({ mode: "direct", workspace: join(outside, "work") });
      await sandbox.write("/workspace/a", "a");
      expect(await readFile(join(outside, "work/a"), "utf8")).toBe("a");
      await sandbox.close();
    } finally {
      await rm(outside, { recursive: true });
    }
  });
});

describe("a sandbox over a panel", () => {
  test("has the zones of the panel, and pushes only with the right", async () => {
    await makeRepository();
    const server = await startServer({ workspace: dir, bin: binary() });
    try {
      const zones = { mode: "sandboxed", zones: { "/workspace": { from: "repositories" }, "/scratch": { commit: "never" } } } as const;
      const panel = await server.openPanel("panels/worker", { zones });
      const sandbox = open({ panel });
      await sandbox.write("/scratch/x", "x");
      expect(sandbox.zones).toEqual(["/scratch", "/workspace"]);
      await expect(sandbox.write("/cache/x", "x")).rejects.toMatchObject({ code: "NOT_FOUND" });
      await sandbox.write("/workspace/reports/new.md", "new\n");
      expect(await readFile(await sandbox.resolve("/workspace/reports/new.md"), "utf8")).toBe("new\n");
      expect(await refusal(open({ panel: { fs: panel.fs } }).resolve("/scratch/x"))).toMatchObject({ code: "EACCES" });
      const staged = await sandbox.gitStage({ files: ["/workspace/reports"], repo: "reports", message: "New report" });
      expect(staged.branch).toMatch(/^ctxfs\//);
      expect(await refusal(sandbox.gitPush(staged.id))).toMatchObject({ code: "EACCES" });
      await server.git(panel.contextId).push(staged.id, { expectedCommit: staged.commit });
      expect(git("reports", "show", `${staged.branch}:new.md`)).toBe("new\n");
    } finally {
      for (const sandbox of opened.splice(0)) await sandbox.close();
      await server.stop();
    }
  });

  test("pull, edit, stage, look, push ends in a remote that asks for a password", async () => {
    await makeRepository();
    const hub = await realpath(await mkdtemp(join(tmpdir(), "ctxfs-hub-")));
    execFileSync("git", ["clone", "-q", "--bare", join(dir, "reports"), join(hub, "reports.git")]);
    const remote = await serveGit(hub, { name: "user", password: "s3cret" });
    const at = `${remote.url}/reports.git`;
    const atHub = (...args: string[]) => execFileSync("git", ["-C", join(hub, "reports.git"), ...args], { encoding: "utf8" });
    const server = await startServer({ workspace: dir, bin: binary(), args: ["--git-remote", at] });
    try {
      const panel = await server.openPanel("panels/worker", { zones: { mode: "sandboxed", zones: { "/workspace": { from: "repositories" }, "/cache": { commit: "never" } } }, gitPush: true });
      const sandbox = open({ panel });
      git("reports", "remote", "add", "origin", at.replace("://", "://user:wrong@"));
      await writeFile(join(dir, "reports/july.md"), "l1 USER\nl2\nl3\nl4\nl5\n");
      await sandbox.gitPull({ repo: "reports", paths: ["plan.md"], branch: "main" });
      await sandbox.write("/workspace/reports/july.md", "l1\nl2\nl3\nl4\nl5 AGENT\n");
      const staged = await sandbox.gitStage({ files: ["/workspace/reports/july.md"], repo: "reports", branch: "main", message: "July" });
      expect(staged.files.map(({ path, operation }) => [path, operation])).toEqual([["/workspace/reports/july.md", "update"]]);
      expect(staged.files[0]?.diff.split("\n").filter((line) => /^[-+][^-+]/.test(line))).toEqual(["-l5", "+l5 AGENT"]);
      const push = () => sandbox.gitPush(staged.id, { expectedCommit: staged.commit, target: "remote" });
      expect(await refusal(push())).toMatchObject({ operation: "push", reason: "GIT_AUTH" });
      git("reports", "remote", "set-url", "origin", at.replace("://", "://user:s3cret@"));
      expect(await push()).toEqual({ commitSha: staged.commit, url: at });
      expect(atHub("rev-parse", "main").trim()).toBe(staged.commit);
      expect(atHub("show", "main:july.md")).toBe("l1\nl2\nl3\nl4\nl5 AGENT\n");
      atHub("fsck", "--strict");
      expect(await sandbox.gitListStaged()).toEqual([]);
      expect(git("reports", "status", "--porcelain"), "the user's files and branch are as they were").toBe(" M july.md\n");
      expect(git("reports", "rev-parse", "main")).not.toBe(`${staged.commit}\n`);
    } finally {
      for (const sandbox of opened.splice(0)) await sandbox.close();
      await server.stop();
      await remote.close();
      await rm(hub, { recursive: true });
    }
  });

  test("pull, edit, stage, look, push ends in the branch that is checked out", async () => {
    await makeRepository();
    const server = await startServer({ workspace: dir, bin: binary() });
    try {
      const panel = await server.openPanel("panels/worker", { gitPush: true });
      const sandbox = open({ panel });
      await writeFile(join(dir, "reports/plan.md"), "plan of the user\n");
      await writeFile(join(dir, "reports/mine.md"), "staged\n");
      git("reports", "add", "mine.md");
      await sandbox.gitPull({ repo: "reports", paths: ["july.md"] });
      await sandbox.write("/reports/july.md", "l1\nl2\nl3\nl4\nl5 AGENT\n");
      await sandbox.write("/reports/new.md", "new\n");
      const staged = await sandbox.gitStage({ files: ["/reports/july.md", "/reports/new.md"], repo: "reports", branch: "main", message: "July" });
      expect(staged.files.map(({ path, operation }) => [path, operation])).toEqual([["/reports/july.md", "update"], ["/reports/new.md", "create"]]);
      expect(await refusal(sandbox.gitPush(staged.id, { expectedCommit: staged.commit })), "a checked-out branch does not move without its files").toMatchObject({ code: "EINVAL" });
      expect(await sandbox.gitPush(staged.id, { expectedCommit: staged.commit, target: "worktree" })).toEqual({ commitSha: staged.commit, url: "/reports" });
      expect(git("reports", "rev-parse", "HEAD").trim()).toBe(staged.commit);
      expect(git("reports", "show", "--format=", "--name-status", "HEAD")).toBe("M\tjuly.md\nA\tnew.md\n");
      expect(await readFile(join(dir, "reports/july.md"), "utf8")).toBe("l1\nl2\nl3\nl4\nl5 AGENT\n");
      expect(git("reports", "status", "--porcelain"), "what the user changed and staged is as it was").toBe("A  mine.md\n M plan.md\n");
      expect(await sandbox.gitListStaged()).toEqual([]);
    } finally {
      for (const sandbox of opened.splice(0)) await sandbox.close();
      await server.stop();
    }
  });

  test("without zones it is the panel's whole disk, and with gitPush the panel pushes", async () => {
    await makeRepository();
    const server = await startServer({ workspace: dir, bin: binary() });
    try {
      const panel = await server.openPanel("panels/pusher", { gitPush: true });
      const sandbox = open({ panel });
      await sandbox.write("/reports/july.md", "all new\n");
      const staged = await sandbox.gitStage({ files: ["/reports/july.md"], repo: "reports", branch: "agent", message: "All new" });
      await sandbox.gitPush(staged.id);
      expect(git("reports", "show", "agent:july.md")).toBe("all new\n");
      expect((await panel.git.branches("/reports")).map(({ name, checkedOut }) => [name, checkedOut])).toEqual([["agent", false], ["main", true]]);
      expect(await panel.zones()).toMatchObject([{ path: "/" }]);
      const status = await panel.git.status();
      expect(status.files).toEqual([]);
    } finally {
      for (const sandbox of opened.splice(0)) await sandbox.close();
      await server.stop();
    }
  });
});
