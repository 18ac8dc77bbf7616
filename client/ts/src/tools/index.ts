import { z } from "zod/v4";
import { Buffer } from "#platform";
import type { Sandbox } from "../sandbox/sandbox.js";
import { applyEdit } from "./edit.js";
import { bounded, lines, mediaTypeOf, numbered } from "./text.js";

/** When a tool that changes something may run: at once, after a person agreed, or never. */
export type Policy = "allow" | "ask" | "deny";

/** Options of createSandboxTools. */
export interface ToolOptions {
  /** Who may write: tools that change files. The default is "allow". With "deny" there are no such tools. */
  approval?: { write?: Policy | undefined } | undefined;
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

/** A path, as tools describe it. */
const path = (what: string): z.ZodString => z.string().describe(what);

const changing = new Set(["writeFile", "editFile", "deleteFile"]);

/** Makes the tools by which a model works on the files of a sandbox. They import nothing of the AI SDK. */
export function createSandboxTools(sandbox: Sandbox, { approval, maxOutput = 64 << 10 }: ToolOptions = {}) {
  const { fs } = sandbox;
  const write = approval?.write ?? "allow";
  const zones = sandbox.zones.join(" and ");
  const most = Math.min(1 << 20, Math.max(1 << 10, maxOutput));

  const tool = <Input>(description: string, inputSchema: z.ZodType<Input>, run: (input: Input, call: ToolCall) => Promise<ToolOutput>, changes = false): SandboxTool<Input> => ({
    description, inputSchema, ...(changes && write === "ask" ? { needsApproval: true } : {}),
    async execute(input, call = {}) {
      try {
        call.abortSignal?.throwIfAborted();
        return await run(input, call);
      } catch (error) {
        if (call.abortSignal?.aborted) throw error;
        return { error: errorText(error) };
      }
    },
    toModelOutput,
  });

  const tools = {
    readFile: tool(
      `Reads a file below ${zones}. Text comes with line numbers; a long file in parts: give startLine to read on. Images and PDF come as they are.`,
      z.object({ path: path("the file"), startLine: z.number().int().min(1).nullable().describe("the first line, from 1; null for the beginning"), endLine: z.number().int().min(1).nullable().describe("the last line; null for the end") }),
      async ({ path: p, startLine, endLine }) => {
        const bytes = await sandbox.readBinary(p);
        const mediaType = mediaTypeOf(bytes);
        if (mediaType === undefined) return { text: numbered(lines(bytes), startLine ?? 1, endLine ?? Infinity, most) };
        if (mediaType === "application/octet-stream") return { error: `${p} is binary (${bytes.length} bytes): it cannot be shown` };
        return { data: Buffer.from(bytes).toString("base64"), mediaType };
      },
    ),
    writeFile: tool(
      `Writes a text file below ${zones}: makes it with its directories, or replaces it whole. Use editFile to change a part.`,
      z.object({ path: path("the file"), content: z.string().describe("the whole content") }),
      async ({ path: p, content }) => {
        const existed = await sandbox.exists(p);
        await sandbox.write(p, content);
        return { text: `${existed ? "Replaced" : "Created"} ${p} (${lines(Buffer.from(content)).length} lines)` };
      }, true,
    ),
    editFile: tool(
      "Replaces exact text in a file. oldText has to be there once, unless replaceAll is true: add lines around it until it is unique.",
      z.object({ path: path("the file"), oldText: z.string().min(1).describe("the text to replace, with its white space"), newText: z.string().describe("what takes its place"), replaceAll: z.boolean().nullable().describe("replaces every place; null for false") }),
      async ({ path: p, oldText, newText, replaceAll }) => {
        const { text, places } = applyEdit(await sandbox.read(p), { path: p, oldText, newText, replaceAll: replaceAll ?? false });
        await sandbox.write(p, text);
        return { text: `Replaced ${places} place${places === 1 ? "" : "s"} in ${p}` };
      }, true,
    ),
    listFiles: tool(
      `Lists a directory below ${zones}. Directories end with a slash.`,
      z.object({ path: path("the directory"), recursive: z.boolean().nullable().describe("lists what is below as well; null for false") }),
      async ({ path: p, recursive }) => {
        await sandbox.list(p); // which checks the path
        const entries = await fs.readdir(p, { recursive: recursive ?? false, withFileTypes: true });
        const below = (entry: { parentPath: string; name: string; isDirectory(): boolean }): string => `${entry.parentPath.replace(/\/$/, "")}/${entry.name}${entry.isDirectory() ? "/" : ""}`;
        const names = entries.map(below).sort();
        return { text: names.length === 0 ? `${p} is empty` : bounded(names, most) };
      },
    ),
    deleteFile: tool(
      "Removes a file, or a directory with everything in it.",
      z.object({ path: path("the file or directory") }),
      async ({ path: p }) => {
        await sandbox.delete(p);
        return { text: `Removed ${p}` };
      }, true,
    ),
    glob: tool(
      `Finds files by a pattern such as /workspace/**/*.md: ** for any directories, *, ?, [class], {a,b}.`,
      z.object({ pattern: z.string().min(1).describe(`the pattern, which begins with ${sandbox.zones.join(" or ")}`) }),
      async ({ pattern }) => {
        inZones(pattern);
        const found: string[] = [];
        for await (const name of fs.glob(pattern)) found.push(name);
        return { text: found.length === 0 ? `nothing matches ${pattern}` : bounded(found.sort(), most) };
      },
    ),
    grep: tool(
      "Searches files line by line for a regular expression. Shows path:line:text.",
      z.object({
        pattern: z.string().min(1).describe("the expression"), path: path("the file or directory to search"),
        include: z.string().nullable().describe("a glob of file names, such as *.ts; null for all"), ignoreCase: z.boolean().nullable().describe("null for false"),
        context: z.number().int().min(0).max(20).nullable().describe("lines around each match; null for 0"),
      }),
      async ({ pattern, path: p, include, ignoreCase, context }, { abortSignal }) => {
        inZones(p);
        const found: string[] = [];
        const around = context ?? 0;
        const matches = fs.grep(pattern, { path: p, ignoreCase: ignoreCase ?? false, include: include === null ? [] : [include], before: around, after: around, signal: abortSignal });
        let size = 0;
        for await (const match of matches) {
          for (const line of match.lines) {
            found.push(`${match.path}:${line.number}${line.context ? "-" : ":"}${line.text}`);
            size += line.text.length;
          }
          if (size > most) break;
        }
        return { text: found.length === 0 ? `nothing matches ${pattern}` : bounded(found, most) };
      },
    ),
    stat: tool(
      "Tells the type, size and time of a file or directory.",
      z.object({ path: path("the file or directory") }),
      async ({ path: p }) => {
        if (!await sandbox.exists(p)) return { error: `NOT_FOUND: ${p} does not exist` };
        const s = await fs.stat(p);
        return { text: `${p}: ${s.isDirectory() ? "directory" : `file of ${s.size} bytes`}, changed ${s.mtime.toISOString()}` };
      },
    ),
  };
  if (write === "deny") for (const name of changing) Reflect.deleteProperty(tools, name);
  return tools;

  function inZones(p: string): void {
    if (!sandbox.zones.some((zone) => p === zone || p.startsWith(`${zone}/`)) || p.split("/").includes("..")) {
      throw new TypeError(`${p} is in no zone of this sandbox: paths begin with ${sandbox.zones.join(" or ")}`);
    }
  }
}

/** The approvals of version 7 of the AI SDK, which takes them beside the tools: generateText({ tools, toolApproval: toolApproval(options) }). */
export function toolApproval({ approval }: ToolOptions): Record<string, "user-approval" | "approved"> {
  const status = approval?.write === "ask" ? "user-approval" : "approved";
  return Object.fromEntries([...changing].map((name) => [name, status]));
}

function errorText(error: unknown): string {
  const { code, message } = error as { code?: string; message: string };
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
