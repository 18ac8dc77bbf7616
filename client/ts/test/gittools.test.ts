import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Octokit } from "@octokit/core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createMemorySandbox, type Sandbox } from "../src/sandbox/index.js";
import { createGitTools, createSandboxTools, toolApproval } from "../src/tools/index.js";
import { serveGitHub, type GitHubServer } from "./github.js";
import { scripted, versions } from "./models.js";

let dir: string;
let github: GitHubServer;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "ctxfs-gittools-"));
  const [bare, work] = [join(dir, "reports.git"), join(dir, "work")];
  execFileSync("git", ["init", "-q", "--bare", "-b", "main", bare]);
  execFileSync("git", ["init", "-q", "-b", "main", work]);
  writeFileSync(join(work, "plan.md"), "plan\n");
  const git = (...args: string[]) => execFileSync("git", ["-C", work, "-c", "user.name=B", "-c", "user.email=b@example.org", ...args]);
  git("add", "-A");
  git("commit", "-q", "-m", "begin");
  git("push", "-q", bare, "main");
  github = await serveGitHub(bare);
});
afterAll(async () => {
  await github.close();
  rmSync(dir, { recursive: true });
});

function open(): Sandbox {
  return createMemorySandbox({ author: { name: "Ada", email: "ada@example.org" }, octokit: new Octokit({ auth: "secret", baseUrl: github.url }) });
}

describe.each(Object.entries(versions))("with AI SDK %s", (version, run) => {
  test("a model pulls, and stages a commit that the program pushes", async () => {
    const sandbox = open();
    const tools = { ...createSandboxTools(sandbox), ...createGitTools(sandbox) };
    const pull = scripted(version, "pullFromGit", { repo: "o/reports", paths: ["plan.md"], branch: null });
    await run(tools, pull);
    expect(pull.told()).toMatchObject({ type: "text", value: expect.stringMatching(/^Pulled [0-9a-f]{12}: 1 of 1 files changed\ncreated \/workspace\/reports\/plan.md$/) as unknown });
    await sandbox.write("/workspace/reports/report.md", "# Report\n");
    const stage = scripted(version, "stageForPush", { repo: "o/reports", files: ["/workspace/reports"], branch: null, message: `Report of ${version}` });
    await run(tools, stage);
    const [staged] = await sandbox.gitListStaged();
    expect(stage.told()).toMatchObject({ type: "text", value: expect.stringContaining(`Staged ${staged?.id ?? ""}: commit ${staged?.commit ?? ""} for branch ctxfs/report-of-${version}`) as unknown });
    await sandbox.gitPush(staged?.id ?? "");
    expect(await github.git("show", `${staged?.branch ?? ""}:report.md`)).toBe("# Report\n");
  });

  test("a refusal is text with its reason", async () => {
    const script = scripted(version, "stageForPush", { repo: "o/reports", files: ["/workspace/reports/none.md"], branch: "main", message: "x" });
    await run(createGitTools(open()), script);
    expect(script.told()).toMatchObject({ type: "error-text", value: expect.stringMatching(/^GIT_NOTHING_TO_COMMIT: /) as unknown });
  });

  test.runIf(version === "5")("a push that no version asks a person about is refused", async () => {
    const sandbox = open();
    await sandbox.write("/workspace/reports/a.md", `unasked ${version}`);
    const { id, commit, branch } = await sandbox.gitStage({ repo: "o/reports", files: ["/workspace/reports/a.md"], message: "Unasked" });
    const script = scripted(version, "pushStaged", { id, commit });
    await run(createGitTools(sandbox, { push: true }), script);
    expect(script.told()).toMatchObject({ type: "error-text", value: expect.stringContaining("NOT_APPROVED: pushStaged runs only after a person agreed") as unknown });
    await expect(github.git("rev-parse", "--verify", "-q", branch)).rejects.toThrow();
    await sandbox.gitDiscard(id);
  });

  test.runIf(version !== "5")("a push waits for a person, also when it was asked for", async () => {
    const sandbox = open();
    await sandbox.write("/workspace/reports/a.md", version);
    const { id, commit, branch } = await sandbox.gitStage({ repo: "o/reports", files: ["/workspace/reports/a.md"], message: "A" });
    const options = { push: true };
    const { content } = await run(createGitTools(sandbox, options), scripted(version, "pushStaged", { id, commit }), { toolApproval: toolApproval(options) });
    expect(content.map(({ type }) => type)).toContain("tool-approval-request");
    await expect(github.git("rev-parse", "--verify", "-q", branch)).rejects.toThrow();
  });
});

describe("the tools of git", () => {
  test("push is there only when the program wants it", () => {
    expect(Object.keys(createGitTools(createMemorySandbox()))).toEqual(["pullFromGit", "stageForPush", "listStaged", "discardStaged"]);
    expect(Object.keys(createGitTools(createMemorySandbox(), { push: true }))).toContain("pushStaged");
    expect(Object.keys(createGitTools(createMemorySandbox(), { push: true, approval: { write: "deny", push: "deny" } }))).toEqual(["listStaged"]);
  });

  test("list, discard and push do what they say", async () => {
    const sandbox = open();
    const tools = createGitTools(sandbox, { push: true, approval: { push: "allow" } });
    expect(await tools.listStaged.execute({})).toEqual({ text: "nothing is staged" });
    await sandbox.write("/workspace/reports/b.md", "b");
    const first = await sandbox.gitStage({ repo: "o/reports", files: ["/workspace/reports/b.md"], message: "B" });
    expect(await tools.discardStaged.execute({ id: first.id })).toEqual({ text: `Discarded ${first.id}` });
    expect(await tools.discardStaged.execute({ id: first.id })).toMatchObject({ error: expect.stringMatching(/^GIT_NO_STAGED: /) as unknown });
    const { id, commit, branch } = await sandbox.gitStage({ repo: "o/reports", files: ["/workspace/reports/b.md"], message: "B" });
    expect(await tools.listStaged.execute({})).toEqual({ text: `Staged ${id}: commit ${commit} for branch ${branch} of o/reports: B\n  create /workspace/reports/b.md` });
    expect(await tools.pushStaged?.execute({ id, commit: "0123456789" })).toMatchObject({ error: expect.stringMatching(/^GIT_STALE_BASE: /) as unknown });
    expect(await tools.pushStaged?.execute({ id, commit: commit.slice(0, 12) })).toEqual({ text: `Pushed ${commit} to https://github.example/o/reports/commit/${commit}` });
  });

  test("every schema is one that strict providers take", async () => {
    const { z } = await import("zod/v4");
    for (const { inputSchema } of Object.values(createGitTools(createMemorySandbox(), { push: true }))) {
      const schema = z.toJSONSchema(inputSchema) as { properties: object; required?: string[] };
      expect(schema.required ?? []).toEqual(Object.keys(schema.properties));
    }
  });
});
