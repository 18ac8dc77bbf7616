import { z } from "zod/v4";
import type { BatchStep } from "../fs/batch.js";
import { resolve } from "../fs/posix.js";
import type { Sandbox } from "../sandbox/sandbox.js";
import type { MakeTool, SandboxTool } from "./tool.js";

const step = z.object({
  change: z.enum(["write", "edit", "move", "delete", "mkdir"]).describe("what is done to path"),
  path: z.string().describe("the file or directory"),
  content: z.string().nullable().describe("of write: the whole content; otherwise null"),
  oldText: z.string().min(1).nullable().describe("of edit: the text to replace, which is there once; otherwise null"),
  newText: z.string().nullable().describe("of edit: what takes its place; otherwise null"),
  to: z.string().nullable().describe("of move: the new path, which must not exist; otherwise null"),
});
type Step = z.infer<typeof step>;

const input = z.object({
  steps: z.array(step).min(1).max(1000).describe("the changes, in order"),
  dryRun: z.boolean().nullable().describe("changes nothing, and shows the diff; null for false"),
});

/** Makes the tool that changes several files as one. */
export function batchTool(sandbox: Sandbox, tool: MakeTool, shown: (diff: string) => string): SandboxTool<z.infer<typeof input>> {
  return tool("Makes several changes as one: all of them, or none. With dryRun it shows the diff.", input, async ({ steps, dryRun }) => {
    for (const { path, to } of steps) {
      for (const p of to === null ? [path] : [path, to]) await sandbox.exists(p); // which checks the path
      if (sandbox.zones.includes(resolve("/", path))) return { error: `EBUSY: ${path} is a zone: name what is in it` };
    }
    try {
      const { diff } = await sandbox.fs.batch(steps.map(batchStep), { dryRun: dryRun ?? false });
      return { text: dryRun ? shown(diff) : `Made all ${steps.length} changes` };
    } catch (error) {
      if ((error as { code?: string }).code !== "ENOSYS") throw error;
      return { error: "ENOSYS: this sandbox has no batches; change one file after the other" };
    }
  }, "write");
}

function batchStep({ change, path, content, oldText, newText, to }: Step): BatchStep {
  switch (change) {
    case "write": return { write: path, data: content ?? "" };
    case "edit": return { edit: path, edits: [{ oldText: oldText ?? "", newText: newText ?? "" }] };
    case "move":
      if (to === null) throw new TypeError(`a move of ${path} needs to`);
      return { rename: path, to, ifNoneMatch: "*" };
    case "delete": return { rm: path, recursive: true };
    case "mkdir": return { mkdir: path, recursive: true };
  }
}
