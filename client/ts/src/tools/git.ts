import { z } from "zod/v4";
import type { StagedCommit } from "../sandbox/git.js";
import type { Sandbox } from "../sandbox/sandbox.js";
import { bounded } from "./text.js";
import { allowed, mostOf, toolMaker, type Kind, type ToolOptions } from "./tool.js";

/** Options of createGitTools. */
export interface GitToolOptions extends ToolOptions {
  /** Adds pushStaged, by which a model pushes. Without it only the program pushes, once a person has looked. */
  push?: boolean | undefined;
}

/** What the tools of git do. */
export const gitKinds: Readonly<Record<string, Kind>> = { pullFromGit: "write", stageForPush: "write", discardStaged: "write", pushStaged: "push" };

/** Makes the tools by which a model pulls files and stages commits for a person to look at. */
export function createGitTools(sandbox: Sandbox, options: GitToolOptions = {}) {
  const tool = toolMaker();
  const most = mostOf(options);
  const repo = z.string().min(1).describe("the repository");
  const id = z.string().min(1).describe("the ID of the staged commit");
  const tools = {
    pullFromGit: tool(
      "Brings the current version of files of a git repository here: all of them, or none. It fails if both sides changed a file.",
      z.object({
        repo, paths: z.array(z.string()).min(1).describe('files and directories of the repository, such as ["guide/a.md"]; ["."] for all'),
        branch: z.string().nullable().describe("a branch, tag or commit; null for the current one"),
      }),
      async ({ repo: name, paths, branch }, { abortSignal: signal }) => {
        const { commit, files } = await sandbox.gitPull({ repo: name, paths, branch: branch ?? undefined, signal });
        const changed = files.filter(({ outcome }) => outcome !== "unchanged").map(({ path, outcome }) => `${outcome} ${path}`);
        return { text: bounded([`Pulled ${commit.slice(0, 12)}: ${changed.length} of ${files.length} files changed`, ...changed], most) };
      }, "write",
    ),
    stageForPush: tool(
      "Makes a commit of changed files for a person to review. Nothing is pushed: the person does that. The files here stay as they are.",
      z.object({
        repo, files: z.array(z.string()).min(1).describe("the files and directories whose changes are committed, by their paths here"),
        branch: z.string().nullable().describe("the branch for the commit; null for a new one"),
        message: z.string().min(1).describe("the commit message: a short subject, and what changed and why"),
      }),
      async ({ repo: name, files, branch, message }, { abortSignal: signal }) => {
        return { text: bounded(shown(await sandbox.gitStage({ repo: name, files, branch: branch ?? undefined, message, signal })), most) };
      }, "write",
    ),
    listStaged: tool(
      "Lists the staged commits that nobody has pushed or discarded yet.",
      z.object({}),
      async () => {
        const staged = await sandbox.gitListStaged();
        return { text: staged.length === 0 ? "nothing is staged" : bounded(staged.flatMap(shown), most) };
      },
    ),
    discardStaged: tool(
      "Takes a staged commit back. The files here stay as they are.",
      z.object({ id }),
      async ({ id: given }) => {
        await sandbox.gitDiscard(given);
        return { text: `Discarded ${given}` };
      }, "write",
    ),
    pushStaged: tool(
      "Pushes a staged commit to its branch.",
      z.object({ id, commit: z.string().min(7).describe("the commit that stageForPush returned") }),
      async ({ id: given, commit }, { abortSignal: signal }) => {
        const staged = (await sandbox.gitListStaged()).find((s) => s.id === given);
        const expectedCommit = staged?.commit.startsWith(commit) ? staged.commit : commit;
        const { commitSha, url } = await sandbox.gitPush(given, { expectedCommit, signal });
        return { text: `Pushed ${commitSha} to ${url}` };
      }, "push",
    ),
  };
  if (!options.push) Reflect.deleteProperty(tools, "pushStaged");
  return allowed(tools, gitKinds, options) as Omit<typeof tools, "pushStaged"> & Partial<Pick<typeof tools, "pushStaged">>;
}

/** A staged commit, as a model reads it. */
function shown({ id, commit, repo, branch, message, files }: StagedCommit): string[] {
  return [`Staged ${id}: commit ${commit} for branch ${branch} of ${repo}: ${message.split("\n", 1)[0] ?? ""}`, ...files.map(({ operation, path }) => `  ${operation} ${path}`)];
}
