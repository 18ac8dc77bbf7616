import type { z } from "zod/v4";

/** When a tool that changes something may run: at once, after a person agreed, or never. */
export type Policy = "allow" | "ask" | "deny";

/** Options of createSandboxTools and createGitTools. */
export interface ToolOptions {
  /**
   * Which tools may run. write is for those that change files or staged commits, and "allow" unless told; push is for pushStaged, and "ask"
   * unless told. With "deny" there are no such tools.
   */
  approval?: { write?: Policy | undefined; push?: Policy | undefined } | undefined;
  /** The most bytes of text that one result has, 1 KiB to 1 MiB; 64 KiB unless told. */
  maxOutput?: number | undefined;
}

/** What the AI SDK gives to execute. */
export interface ToolCall { abortSignal?: AbortSignal | undefined }

/** A result: text for the model, or media. */
export type ToolOutput = { text: string } | { error: string } | { data: string; mediaType: string };

/** What a model is sent. */
export type ModelOutput =
  | { type: "text" | "error-text"; value: string }
  | { type: "content"; value: ({ type: "media" | "file-data"; data: string; mediaType: string })[] };

/** A tool of the AI SDK: versions 5, 6 and 7 take it as it is. */
export interface SandboxTool<Input> {
  readonly description: string;
  readonly inputSchema: z.ZodType<Input>;
  readonly needsApproval?: boolean;
  /** Runs the tool. Failures of the sandbox are results, so that the model can act on them. */
  execute(input: Input, call?: ToolCall): Promise<ToolOutput>;
  toModelOutput(output: unknown): ModelOutput;
}

/** What a tool does: it reads, it changes files or staged commits, or it pushes. */
export type Kind = "read" | "write" | "push";

/** Makes one tool. */
export type MakeTool = <Input>(description: string, inputSchema: z.ZodType<Input>, run: (input: Input, call: ToolCall) => Promise<ToolOutput>, kind?: Kind) => SandboxTool<Input>;

/** Returns the policy for a kind of tools. */
export function policyOf({ approval }: ToolOptions, kind: Kind): Policy {
  if (kind === "read") return "allow";
  return kind === "push" ? approval?.push ?? "ask" : approval?.write ?? "allow";
}

/** Returns what makes tools. Those that change something run one after the other: models call several at once, and also edit one file twice. */
export function toolMaker(options: ToolOptions): MakeTool {
  let last: Promise<unknown> = Promise.resolve();
  return (description, inputSchema, run, kind = "read") => ({
    description, inputSchema, ...(policyOf(options, kind) === "ask" ? { needsApproval: true } : {}),
    async execute(input, call = {}) {
      try {
        const begin = (): Promise<ToolOutput> => {
          call.abortSignal?.throwIfAborted();
          return run(input, call);
        };
        if (kind === "read") return await begin();
        const done = last.then(begin);
        last = done.catch(() => undefined);
        return await done;
      } catch (error) {
        if (call.abortSignal?.aborted) throw error;
        return { error: errorText(error) };
      }
    },
    toModelOutput,
  });
}

/** Removes tools whose policy is "deny". */
export function allowed<Tools extends object>(tools: Tools, kinds: Readonly<Partial<Record<keyof Tools, Kind>>>, options: ToolOptions): Tools {
  for (const [name, kind] of Object.entries(kinds) as [keyof Tools, Kind][]) if (policyOf(options, kind) === "deny") Reflect.deleteProperty(tools, name);
  return tools;
}

/** Returns the most bytes that a result has. */
export function mostOf({ maxOutput = 64 << 10 }: ToolOptions): number {
  return Math.min(1 << 20, Math.max(1 << 10, maxOutput));
}

function errorText(error: unknown): string {
  const { code: given, reason, message } = error as { code?: string; reason?: string; message: string };
  const code = reason ?? given; // GitError's code says only that git refused
  return code === undefined || message.startsWith(code) ? message : `${code}: ${message}`;
}

/** What the model is sent. Version 5 gives the result itself, later versions an object that has it. */
function toModelOutput(given: unknown): ModelOutput {
  const later = typeof given === "object" && given !== null && "output" in given;
  const output = (later ? given.output : given) as ToolOutput;
  if ("error" in output) return { type: "error-text", value: output.error };
  if ("text" in output) return { type: "text", value: output.text };
  return { type: "content", value: [{ type: later ? "file-data" : "media", data: output.data, mediaType: output.mediaType }] };
}
