import { z } from "zod/v4";
import { Buffer } from "#platform";
import { sandboxError } from "../sandbox/errors.js";
import type { Sandbox } from "../sandbox/sandbox.js";
import { batchTool } from "./batch.js";
import { editInPlace, writeWhole } from "./edit.js";
import { gitKinds, type GitToolOptions } from "./git.js";
import { bounded, lines, mayBeMedia, mediaTypeOf, numbered, numberedPart, withEtag } from "./text.js";
import { allowed, mostOf, policyOf, toolMaker, type Kind, type ToolOptions } from "./tool.js";

export { createGitTools, type GitToolOptions } from "./git.js";
export { createBashSandbox, createSandboxSession, type BashSandbox, type Runner, type SandboxSession, type SessionProcess } from "./session.js";
export type { ApprovalRequest, ModelOutput, Policy, SandboxTool, ToolCall, ToolOptions, ToolOutput } from "./tool.js";

/** A path, as tools describe it. */
const path = (what: string): z.ZodString => z.string().describe(what);

/** The etag of a condition, as tools describe it. */
const ifMatch = z.string().min(1).nullable().describe("the etag that the file must have, as a result gave it: the call fails if the file has changed since; null for any");

const kinds: Readonly<Record<string, Kind>> = { writeFile: "write", editFile: "write", deleteFile: "write", batch: "write" };

/** Makes the tools by which a model works on the files of a sandbox. They import nothing of the AI SDK. */
export function createSandboxTools(sandbox: Sandbox, options: ToolOptions = {}) {
  const { fs } = sandbox;
  const zones = sandbox.zones.join(" and ");
  const most = mostOf(options);
  const tool = toolMaker();
  const tools = {
    readFile: tool(
      `Reads a file below ${zones}. Text comes with line numbers; a long file in parts: give startLine to read on. The etag at the end is what ifMatch takes. Images and PDF come as they are.`,
      z.object({ path: path("the file"), startLine: z.number().int().min(1).nullable().describe("the first line, from 1; null for the beginning"), endLine: z.number().int().min(1).nullable().describe("the last line; null for the end") }),
      async ({ path: p, startLine, endLine }) => {
        const shown = await part(p, startLine ?? 1, endLine);
        if (shown !== undefined) return { text: shown };
        const bytes = await sandbox.readBinary(p);
        const mediaType = mediaTypeOf(bytes);
        if (mediaType === undefined) return { text: numbered(lines(bytes), startLine ?? 1, endLine ?? Infinity, most) };
        if (mediaType === "application/octet-stream") return { error: `${p} is binary (${bytes.length} bytes): it cannot be shown` };
        return { data: Buffer.from(bytes).toString("base64"), mediaType };
      },
    ),
    writeFile: tool(
      `Writes a text file below ${zones}: makes it with its directories, or replaces it whole. Use editFile to change a part.`,
      z.object({ path: path("the file"), content: z.string().describe("the whole content"), ifMatch }),
      async (input) => {
        const { text, etag } = await writeWhole(sandbox, input.path, input.content, input.ifMatch);
        return { text: withEtag(text, etag) };
      }, "write",
    ),
    editFile: tool(
      "Replaces exact text in a file, or a range of lines. oldText has to be there once, unless replaceAll is true: add lines around it until it is unique. With lines give ifMatch: their numbers are those of the file that you read.",
      z.object({
        path: path("the file"), oldText: z.string().min(1).nullable().describe("the text to replace, with its white space; null for lines"),
        startLine: z.number().int().min(1).nullable().describe("instead of oldText: the first line to replace, from 1; null for oldText"),
        endLine: z.number().int().min(0).nullable().describe("the last line to replace; startLine - 1 inserts newText before startLine; null for oldText"),
        newText: z.string().describe("what takes its place"), replaceAll: z.boolean().nullable().describe("replaces every place of oldText; null for false"), ifMatch,
      }),
      async (input) => {
        const { text, etag } = await editInPlace(sandbox, input);
        return { text: withEtag(text, etag) };
      }, "write",
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
      }, "write",
    ),
    batch: batchTool(sandbox, tool, (diff) => (diff === "" ? "nothing changes" : bounded(diff.split("\n"), most))),
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
  return allowed(tools, kinds, options);

  /** Shows lines of a file, which may be too large to read whole; undefined if they may be no text, or are too long for one reply. */
  async function part(p: string, first: number, last: number | null): Promise<string | undefined> {
    await sandbox.exists(p); // which checks the path
    const count = Math.min(last === null ? most : last - first + 1, most); // a line takes a byte at least
    if (count < 1) return `(line ${last} is before line ${first})`;
    const read = await fs.readLines(p, { start: first, count }).catch((error: unknown) => {
      if ((error as { code?: string }).code !== "EFBIG") throw sandboxError(error, p);
      return undefined;
    });
    if (!read || mayBeMedia(read.text, first)) return undefined;
    return withEtag(numberedPart(lines(Buffer.from(read.text)), first, read.totalLines, most), read.etag);
  }

  function inZones(p: string): void {
    if (!sandbox.zones.some((zone) => p === zone || p.startsWith(`${zone}/`)) || p.split("/").includes("..")) {
      throw new TypeError(`${p} is in no zone of this sandbox: paths begin with ${sandbox.zones.join(" or ")}`);
    }
  }
}

/** The approvals of version 7 of the AI SDK, which takes them beside the tools: generateText({ tools, toolApproval: toolApproval(options) }). */
export function toolApproval(options: GitToolOptions): Record<string, "user-approval" | "approved"> {
  return Object.fromEntries(Object.entries({ ...kinds, ...gitKinds }).map(([name, kind]) => [name, options.onApproval === undefined && policyOf(options, kind) === "ask" ? "user-approval" : "approved"]));
}
