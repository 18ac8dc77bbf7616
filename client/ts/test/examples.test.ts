import { execFile, execFileSync } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const run = promisify(execFile);
let workspace: string;

/** Runs an example as installed: its packages are links to this one's. `npm test` builds this package before. */
async function example(name: string): Promise<string> {
  const main = join(workspace, `${name}.mjs`);
  await copyFile(join(root, "examples", name, "main.mjs"), main);
  return (await run(process.execPath, [main, workspace])).stdout;
}

beforeAll(async () => {
  workspace = await mkdtemp(join(tmpdir(), "ctxfs-example-"));
  execFileSync("git", ["init", "-q", join(workspace, "repo")]);
  await mkdir(join(workspace, "repo", "docs"));
  await writeFile(join(workspace, "repo", "docs", "a.md"), "# A\n");
  await mkdir(join(workspace, "node_modules", "@ctxfs"), { recursive: true });
  await symlink(root, join(workspace, "node_modules", "@ctxfs", "client"));
  await symlink(join(root, "node_modules", "isomorphic-git"), join(workspace, "node_modules", "isomorphic-git"));
});
afterAll(() => rm(workspace, { recursive: true }));

test("the Node example runs", async () => {
  const stdout = await example("node");
  expect(stdout).toContain("started a server\n");
  expect(stdout).toContain("ctx_examples~node holds [ 'repo' ]");
  expect(stdout).toContain("repo/docs/a.md 4\n");
});

test("the isomorphic-git example runs", async () => {
  const stdout = await example("isomorphic-git");
  expect(stdout).toContain("status: [ [ 'readme.md', 1, 2, 1 ] ]");
  expect(stdout).toMatch(/[0-9a-f]{8} Go on\n[0-9a-f]{8} Begin\n$/);
});
