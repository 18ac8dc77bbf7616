import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Octokit } from "@octokit/core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createMemorySandbox, GitError, type Sandbox } from "../src/sandbox/index.js";
import { serveGitHub, type GitHubServer } from "./github.js";

const author = { name: "Ada", email: "ada@example.org" };
let dir: string;
let github: GitHubServer;
let sandbox: Sandbox;

/** Makes a sandbox whose git is the server. */
function open(auth = "secret"): Sandbox {
  return createMemorySandbox({ author, octokit: new Octokit({ auth, baseUrl: github.url, log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined } }) });
}

/** Commits on a branch of the server, beside the sandbox. */
function commitElsewhere(files: Record<string, string>, branch = "main"): string {
  const work = join(dir, "work");
  const git = (...args: string[]) => execFileSync("git", ["-C", work, "-c", "user.name=B", "-c", "user.email=b@example.org", ...args], { encoding: "utf8" });
  git("checkout", "-q", "-B", branch, `origin/${branch}`);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(work, name), text);
  git("add", "-A");
  git("commit", "-q", "-m", "elsewhere");
  git("push", "-q", "origin", branch);
  return git("rev-parse", "HEAD").trim();
}

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "ctxfs-github-"));
  const [bare, work] = [join(dir, "reports.git"), join(dir, "work")];
  execFileSync("git", ["init", "-q", "--bare", "-b", "main", bare]);
  execFileSync("git", ["clone", "-q", bare, work], { stdio: "ignore" });
  const git = (...args: string[]) => execFileSync("git", ["-C", work, "-c", "user.name=B", "-c", "user.email=b@example.org", ...args]);
  git("checkout", "-q", "-b", "main");
  execFileSync("mkdir", ["-p", join(work, "july/data")]);
  writeFileSync(join(work, "README.md"), "# Reports\n");
  writeFileSync(join(work, "july/one.md"), "one\ntwo\nthree\n");
  writeFileSync(join(work, "july/data/raw.bin"), new Uint8Array([0, 1, 2]));
  writeFileSync(join(work, "july/run.sh"), "#!/bin/sh\n", { mode: 0o755 });
  execFileSync("ln", ["-s", "one.md", join(work, "july/latest")]);
  git("add", "-A");
  git("commit", "-q", "-m", "begin");
  git("push", "-q", "origin", "main");
  github = await serveGitHub(bare);
  sandbox = open();
});
afterEach(async () => {
  await github.close();
  rmSync(dir, { recursive: true });
});

const refusal = (promise: Promise<unknown>): Promise<GitError> => promise.then(() => { throw new Error("it was not refused"); }, (error: unknown) => error as GitError);

describe("a sandbox with git through GitHub's API", () => {
  test("pulls files with their modes, edits, stages, shows the diff, and pushes exactly what was shown", async () => {
    const pulled = await sandbox.gitPull({ repo: "o/reports", paths: ["july"] });
    expect(pulled.files.map(({ path, outcome }) => `${outcome} ${path}`)).toEqual([
      "created /workspace/reports/july/data/raw.bin", "created /workspace/reports/july/latest", "created /workspace/reports/july/one.md", "created /workspace/reports/july/run.sh",
    ]);
    expect(await sandbox.read("/workspace/reports/july/latest")).toBe("one\ntwo\nthree\n");
    expect((await sandbox.fs.stat("/workspace/reports/july/run.sh")).mode & 0o777).toBe(0o755);

    await sandbox.write("/workspace/reports/july/one.md", "one\n2\nthree\n");
    await sandbox.write("/workspace/reports/july/new.md", "new");
    await sandbox.delete("/workspace/reports/july/data");
    const before = github.asked.length;
    const staged = await sandbox.gitStage({ files: ["/workspace/reports/july"], repo: "o/reports", branch: "main", message: "July\n\nAll of it" });
    expect(github.asked.slice(before).filter((route) => !route.startsWith("GET")), "nothing is sent before a person agreed").toEqual([]);
    expect(staged.files.map(({ path, operation }) => `${operation} ${path}`)).toEqual([
      "delete /workspace/reports/july/data/raw.bin", "create /workspace/reports/july/new.md", "update /workspace/reports/july/one.md",
    ]);
    expect(staged.files[2]?.diff).toBe("diff --git a/july/one.md b/july/one.md\n--- a/july/one.md\n+++ b/july/one.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
    await sandbox.write("/workspace/reports/july/one.md", "changed after it was staged\n");
    expect(await sandbox.gitListStaged()).toEqual([staged]);

    const pushed = await sandbox.gitPush(staged.id, { expectedCommit: staged.commit });
    expect(pushed).toEqual({ commitSha: staged.commit, url: `https://github.example/o/reports/commit/${staged.commit}` });
    expect((await github.git("rev-parse", "main")).trim()).toBe(staged.commit);
    expect(await github.git("show", "main:july/one.md")).toBe("one\n2\nthree\n");
    expect(await github.git("log", "-1", "--format=%an <%ae>%n%B", "main")).toBe("Ada <ada@example.org>\nJuly\n\nAll of it\n");
    expect(await github.git("diff", "--name-status", "main~", "main")).toBe("D\tjuly/data/raw.bin\nA\tjuly/new.md\nM\tjuly/one.md\n");
    expect(await github.git("fsck", "--strict")).toBe("");
    expect(await sandbox.gitListStaged()).toEqual([]);
    const rest = await sandbox.gitStage({ files: ["/workspace/reports/july/one.md"], repo: "o/reports", branch: "main", message: "The rest" });
    expect(rest.files.map(({ diff }) => diff.split("\n").filter((line) => /^[-+][^-+]/.test(line)))).toEqual([["-one", "-2", "-three", "+changed after it was staged"]]);
  });

  test("a new branch begins at the default branch, and gets a name of the message", async () => {
    await sandbox.write("/workspace/reports/a.md", "a\n");
    const staged = await sandbox.gitStage({ files: ["/workspace/reports/a.md"], repo: "o/reports", message: "Add A!" });
    expect(staged.branch).toMatch(/^ctxfs\/add-a-[0-9a-f]{6}$/);
    await sandbox.gitPush(staged.id);
    expect(await github.git("log", "--format=%s", staged.branch)).toBe("Add A!\nbegin\n");
  });

  test("a branch that moved refuses the push, also when it moves at the last moment", async () => {
    await sandbox.write("/workspace/reports/a.md", "a\n");
    const staged = await sandbox.gitStage({ files: ["/workspace/reports/a.md"], repo: "o/reports", branch: "main", message: "A" });
    let moved = "";
    github.before = (route) => {
      if (route === "PATCH /git/refs/heads/main" && moved === "") moved = commitElsewhere({ "b.md": "b\n" });
      return false;
    };
    const late = await refusal(sandbox.gitPush(staged.id));
    expect(late).toMatchObject({ name: "GitError", code: "GIT_ERROR", operation: "push", reason: "GIT_NON_FAST_FORWARD", details: { actual: moved } });
    const again = await refusal(sandbox.gitPush(staged.id));
    expect(again).toMatchObject({ reason: "GIT_NON_FAST_FORWARD", details: { actual: moved } });
    expect((await github.git("rev-parse", "main")).trim()).toBe(moved);
    expect(await sandbox.gitListStaged()).toHaveLength(1);
  });

  test("another commit than the one that was looked at is not pushed", async () => {
    await sandbox.write("/workspace/reports/a.md", "a\n");
    const staged = await sandbox.gitStage({ files: ["/workspace/reports/a.md"], repo: "o/reports", branch: "main", message: "A" });
    expect(await refusal(sandbox.gitPush(staged.id, { expectedCommit: "0".repeat(40) }))).toMatchObject({ reason: "GIT_STALE_BASE" });
    github.before = (route, response) => {
      if (route !== "POST /git/commits") return false;
      response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ sha: "1".repeat(40) }));
      return true;
    };
    expect(await refusal(sandbox.gitPush(staged.id))).toMatchObject({ reason: "GIT_STALE_BASE", details: { actual: "1".repeat(40) } });
    expect(await github.git("log", "--format=%s", "main")).toBe("begin\n");
  });

  test("a push whose answer is lost has happened, if the branch says so", async () => {
    await sandbox.write("/workspace/reports/a.md", "a\n");
    const staged = await sandbox.gitStage({ files: ["/workspace/reports/a.md"], repo: "o/reports", branch: "main", message: "A" });
    github.before = async (route, response) => {
      if (!route.startsWith("PATCH")) return false;
      await github.git("update-ref", "refs/heads/main", staged.commit);
      response.destroy();
      return true;
    };
    expect(await sandbox.gitPush(staged.id)).toMatchObject({ commitSha: staged.commit });
    expect(await sandbox.gitListStaged()).toEqual([]);
  });

  test("pull keeps what was changed here, and nothing is pulled when both changed a file", async () => {
    await sandbox.gitPull({ repo: "o/reports", paths: ["README.md", "july/one.md"] });
    await sandbox.write("/workspace/reports/README.md", "# Mine\n");
    commitElsewhere({ "july/one.md": "newer\n" });
    const { files } = await sandbox.gitPull({ repo: "o/reports", paths: ["README.md", "july/one.md"] });
    expect(files.map(({ outcome }) => outcome)).toEqual(["unchanged", "updated"]);
    expect(await sandbox.read("/workspace/reports/README.md")).toBe("# Mine\n");
    commitElsewhere({ "README.md": "# Theirs\n", "july/one.md": "newest\n" });
    const error = await refusal(sandbox.gitPull({ repo: "o/reports", paths: ["README.md", "july"] }));
    expect(error).toMatchObject({ operation: "pull", reason: "GIT_CONFLICT", details: { paths: ["README.md"] } });
    expect(await sandbox.read("/workspace/reports/july/one.md")).toBe("newer\n");
    expect(await refusal(sandbox.gitStage({ files: ["/workspace/reports/README.md"], repo: "o/reports", branch: "main", message: "M" }))).toMatchObject({ reason: "GIT_CONFLICT" });
  });

  test("pull does not write through a link that leads elsewhere", async () => {
    await sandbox.mkdir("/workspace/reports");
    await sandbox.fs.symlink("/cache", "/workspace/reports/july");
    expect(await refusal(sandbox.gitPull({ repo: "o/reports", paths: ["july"] }))).toMatchObject({ reason: "GIT_CONFLICT" });
    expect(await sandbox.list("/cache")).toEqual([]);
  });

  test.each([
    ["no such repository", { repo: "o/none", paths: ["."] }, "GIT_NO_REPOSITORY"],
    ["what is no name of a repository", { repo: "../x", paths: ["."] }, "GIT_NO_REPOSITORY"],
    ["no such branch", { repo: "o/reports", paths: ["."], branch: "none" }, "GIT_NO_REF"],
    ["no such path", { repo: "o/reports", paths: ["none.md"] }, "GIT_NO_REF"],
  ])("a pull of %s is refused", async (_, options, reason) => {
    expect(await refusal(sandbox.gitPull(options))).toMatchObject({ code: "GIT_ERROR", operation: "pull", reason });
    expect(await sandbox.list("/workspace")).toEqual([]);
  });

  test("refusals have their reasons", async () => {
    const file = "/workspace/reports/README.md";
    await sandbox.gitPull({ repo: "o/reports", paths: ["README.md"] });
    expect(await refusal(sandbox.gitStage({ files: [file], repo: "o/reports", branch: "main", message: "M" }))).toMatchObject({ reason: "GIT_NOTHING_TO_COMMIT" });
    expect(await refusal(sandbox.gitStage({ files: ["/cache/x"], repo: "o/reports", message: "M" }))).toMatchObject({ reason: "GIT_NO_REPOSITORY" });
    expect(await refusal(sandbox.gitStage({ files: ["/etc/x"], repo: "o/reports", message: "M" }))).toMatchObject({ code: "NOT_FOUND" });
    expect(await refusal(sandbox.gitPush("none"))).toMatchObject({ reason: "GIT_NO_STAGED" });
    expect(await refusal(sandbox.gitDiscard("none"))).toMatchObject({ reason: "GIT_NO_STAGED", operation: "discard" });
    expect(await refusal(open("wrong").gitPull({ repo: "o/reports", paths: ["."] }))).toMatchObject({ reason: "GIT_AUTH" });
    expect(await refusal(createMemorySandbox().gitListStaged())).toMatchObject({ reason: "GIT_NO_REPOSITORY", operation: "list" });
  });

  test("a discarded commit is gone, and the files stay", async () => {
    await sandbox.write("/workspace/reports/a.md", "a\n");
    const { id } = await sandbox.gitStage({ files: ["/workspace/reports/a.md"], repo: "o/reports", message: "A" });
    await sandbox.gitDiscard(id);
    expect(await sandbox.gitListStaged()).toEqual([]);
    expect(await sandbox.read("/workspace/reports/a.md")).toBe("a\n");
  });
});
