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
  /**
   * Asks a person before a tool whose policy is "ask" runs, in every version of the AI SDK. Without it the approvals of versions 6 and 7 are what
   * counts, and a call that has none, as in version 5, is refused.
   */
  onApproval?: ((request: ApprovalRequest) => boolean | Promise<boolean>) | undefined;
  /** The most bytes of text that one result has, 1 KiB to 1 MiB; 64 KiB unless told. */
  maxOutput?: number | undefined;
}

/** A call that a person has to agree to. */
export interface ApprovalRequest { toolName: string; input: unknown; abortSignal?: AbortSignal | undefined }

/** What the AI SDK gives to execute. */
export interface ToolCall { abortSignal?: AbortSignal | undefined; toolCallId?: string | undefined; messages?: readonly unknown[] | undefined }

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
export function toolMaker(): MakeTool {
  let last: Promise<unknown> = Promise.resolve();
  return (description, inputSchema, run, kind = "read") => ({
    description, inputSchema,
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

/** Removes tools whose policy is "deny", and guards those whose policy is "ask". */
export function allowed<Tools extends object>(tools: Tools, kinds: Readonly<Record<string, Kind>>, options: ToolOptions): Tools {
  const all = tools as Record<string, SandboxTool<unknown>>;
  for (const [name, kind] of Object.entries(kinds)) {
    const tool = all[name];
    const policy = policyOf(options, kind);
    if (policy === "deny") Reflect.deleteProperty(tools, name);
    else if (policy === "ask" && tool !== undefined) all[name] = guarded(name, tool, options);
  }
  return tools;
}

/** Runs a tool only after a person agreed. A version of the AI SDK that knows no approvals ignores needsApproval. */
function guarded(toolName: string, tool: SandboxTool<unknown>, { onApproval }: ToolOptions): SandboxTool<unknown> {
  return {
    ...tool, ...(onApproval === undefined ? { needsApproval: true } : {}),
    async execute(input, call = {}) {
      call.abortSignal?.throwIfAborted();
      if (onApproval === undefined) {
        if (!wasApproved(call)) return { error: `NOT_APPROVED: ${toolName} runs only after a person agreed, and nobody was asked: this program has to pass onApproval, or use a version of the AI SDK with approvals (6 or later)` };
      } else if (!await onApproval({ toolName, input, abortSignal: call.abortSignal })) {
        return { error: `NOT_APPROVED: a person refused ${toolName}` };
      }
      return tool.execute(input, call);
    },
  };
}

/** Reports whether the last message of a call has a person's approval of it. That is where versions 6 and 7 of the AI SDK take it from. */
function wasApproved({ toolCallId, messages = [] }: ToolCall): boolean {
  const parts = (message: unknown, role: string): Part[] => {
    const { role: is, content } = (message ?? {}) as { role?: unknown; content?: unknown };
    return is === role && Array.isArray(content) ? content as Part[] : [];
  };
  const requests = messages.flatMap((message) => parts(message, "assistant")).filter((part) => part.type === "tool-approval-request" && part.toolCallId === toolCallId);
  return toolCallId !== undefined && parts(messages.at(-1), "tool").some(({ type, approvalId, approved }) => type === "tool-approval-response" && approved === true && requests.some((request) => request.approvalId === approvalId));
}

interface Part { type?: unknown; toolCallId?: unknown; approvalId?: unknown; approved?: unknown }

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
