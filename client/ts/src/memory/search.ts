import { Directory, errno, File, type Node } from "./tree.js";

/** A name below a directory, with its parts from there. */
export interface Below { parts: string[]; dir: Directory; name: string; node: Node }

/** Walks a tree, parents before children. enter says whether to walk what is in a directory. */
export function* walk(dir: Directory, enter: (at: Below) => boolean = () => true, parts: string[] = []): Generator<Below> {
  for (const [name, node] of [...dir.entries].sort(([a], [b]) => (a < b ? -1 : 1))) { // as the service lists
    const at = { parts: [...parts, name], dir, name, node };
    yield at;
    if (node instanceof Directory && enter(at)) yield* walk(node, enter, at.parts);
  }
}

/** A pattern's part between slashes: "**", or what matches one name. */
type Part = "**" | RegExp;

/** A glob of doublestar's syntax: **, *, ?, [class], {a,b} and \ before a character that means itself. EINVAL for others. */
export class Glob {
  private readonly forms: Part[][];

  constructor(pattern: string) {
    this.forms = braces(pattern).map((form) => form.split("/").filter((part) => part !== "" && part !== ".").map((part) => (part === "**" ? part : name(part))));
  }

  /** Says whether the whole of a path matches. */
  matches(parts: readonly string[]): boolean {
    return this.forms.some((form) => matches(form, 0, parts, 0));
  }

  /** Says whether a path matches, or the name alone where the pattern has no slash. */
  matchesName(parts: readonly string[]): boolean {
    return this.matches(parts) || this.forms.some((form) => form.length === 1 && matches(form, 0, parts.slice(-1), 0));
  }
}

function matches(form: readonly Part[], i: number, parts: readonly string[], j: number): boolean {
  const part = form[i];
  if (part === undefined) return j === parts.length;
  if (part === "**") return matches(form, i + 1, parts, j) || (j < parts.length && matches(form, i, parts, j + 1));
  const text = parts[j];
  return text !== undefined && part.test(text) && matches(form, i + 1, parts, j + 1);
}

/** The forms that the braces of a pattern stand for. */
function braces(pattern: string): string[] {
  const open = topLevel(pattern, "{");
  if (open < 0) return [pattern];
  const close = closing(pattern, open);
  const [head, tail] = [pattern.slice(0, open), braces(pattern.slice(close + 1))];
  return alternatives(pattern.slice(open + 1, close)).flatMap((middle) => braces(middle).flatMap((m) => tail.map((t) => head + m + t)));
}

function topLevel(pattern: string, mark: string): number {
  for (let i = 0; i < pattern.length; i++) {
    if (pattern[i] === "\\") i++;
    else if (pattern[i] === mark) return i;
  }
  return -1;
}

function closing(pattern: string, open: number): number {
  let depth = 0;
  for (let i = open; i < pattern.length; i++) {
    if (pattern[i] === "\\") i++;
    else if (pattern[i] === "{") depth++;
    else if (pattern[i] === "}" && --depth === 0) return i;
  }
  throw errno("EINVAL");
}

function alternatives(text: string): string[] {
  const list = [""];
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i] ?? "";
    if (c === "{") depth++;
    if (c === "}") depth--;
    if (c === "," && depth === 0) list.push("");
    else list.push((list.pop() ?? "") + (c === "\\" ? c + (text[++i] ?? "") : c));
  }
  return list;
}

/** The expression for one name. */
function name(part: string): RegExp {
  let out = "";
  for (let i = 0; i < part.length; i++) {
    const c = part[i] ?? "";
    if (c === "*") out += ".*";
    else if (c === "?") out += ".";
    else if (c === "[") [out, i] = classOf(part, i, out);
    else if (c === "\\") out += literal(part[++i]);
    else out += literal(c);
  }
  return new RegExp(`^${out}$`, "su");
}

function literal(c: string | undefined): string {
  if (c === undefined) throw errno("EINVAL");
  return c.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}

function classOf(part: string, from: number, before: string): [string, number] {
  let i = from + 1;
  let set = "";
  const negated = part[i] === "!" || part[i] === "^";
  if (negated) i++;
  for (; part[i] !== "]"; i++) {
    const c = part[i];
    if (c === undefined) throw errno("EINVAL");
    set += c === "-" && set !== "" && part[i + 1] !== "]" ? "-" : literal(c === "\\" ? part[++i] : c);
  }
  if (set === "") throw errno("EINVAL");
  return [`${before}[${negated ? "^" : ""}${set}]`, i];
}

/** What Grep looks for. */
export interface Query {
  pattern: string; fixedStrings: boolean; ignoreCase: boolean; include: string[];
  beforeContext: number; afterContext: number; maxCount: number; maxMatches: number; maxFileSize: number;
}

/** A line that a search found, or that surrounds one. */
export interface FoundLine { lineNumber: bigint; context: boolean; text: string; spans: { start: number; end: number }[] }

/** What a search counts. */
export interface Counts { filesSearched: bigint; filesMatched: bigint; matches: bigint; binarySkipped: bigint; largeSkipped: bigint; truncated: boolean }

/** The expression of a query. Its syntax is JavaScript's, with "(?i)" and the like of RE2 at the beginning. EINVAL for others. */
function expression({ pattern, fixedStrings, ignoreCase }: Query): RegExp {
  const [, letters = "", rest = pattern] = (fixedStrings ? null : /^\(\?([ims]+)\)(.*)$/s.exec(pattern)) ?? [];
  const flags = new Set(`g${letters}${ignoreCase ? "i" : ""}u`);
  try {
    return new RegExp(fixedStrings ? rest.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&") : rest, [...flags].join(""));
  } catch {
    throw errno("EINVAL");
  }
}

/** Returns what searches one file for a query, line by line. EINVAL for an expression or a glob that is none. */
export function grepper(query: Query, counts: Counts): (at: Below) => FoundLine[] {
  const wanted = expression(query);
  const include = query.include.map((p) => new Glob(p));
  return ({ node, parts }) => {
    if (!(node instanceof File) || (include.length > 0 && !include.some((glob) => glob.matchesName(parts)))) return [];
    if (node.size > query.maxFileSize) {
      counts.largeSkipped++;
      return [];
    }
    const bytes = node.view(0, node.size);
    if (isBinary(bytes)) {
      counts.binarySkipped++;
      return [];
    }
    counts.filesSearched++;
    const lines = inFile(linesOf(bytes), wanted, query, counts);
    if (lines.length > 0) counts.filesMatched++;
    return lines;
  };
}

function inFile(lines: readonly string[], wanted: RegExp, query: Query, counts: Counts): FoundLine[] {
  const out: FoundLine[] = [];
  let found = 0;
  let shown = 0; // lines before this one are in out, or are not wanted
  let after = 0;
  for (const [i, text] of lines.entries()) {
    const spans = (query.maxCount > 0 && found >= query.maxCount) || counts.truncated ? [] : spansOf(text, wanted);
    if (spans.length === 0) {
      if (after > 0) {
        out.push(line(i, text, true));
        shown = i + 1;
        after--;
      }
      continue;
    }
    for (let k = Math.max(shown, i - query.beforeContext); k < i; k++) out.push(line(k, lines[k] ?? "", true));
    out.push(line(i, text, false, spans));
    shown = i + 1;
    after = query.afterContext;
    found++;
    counts.matches++;
    if (counts.matches >= BigInt(query.maxMatches)) counts.truncated = true;
  }
  return out;
}

function line(i: number, text: string, context: boolean, spans: FoundLine["spans"] = []): FoundLine {
  return { lineNumber: BigInt(i + 1), context, text: text.endsWith("\r") ? text.slice(0, -1) : text, spans };
}

/** Says whether content is no text: it has a NUL in its first 8 KiB. */
function isBinary(bytes: Uint8Array): boolean {
  return bytes.subarray(0, 8192).includes(0);
}

/** Returns the lines of a text, without the "\n" that ends each. */
function linesOf(bytes: Uint8Array): string[] {
  const lines = decoder.decode(bytes).split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();
const maxSpans = 256;

/** Where a line matches, in bytes. */
function spansOf(text: string, wanted: RegExp): FoundLine["spans"] {
  const spans: FoundLine["spans"] = [];
  for (const match of text.matchAll(wanted)) {
    const start = encoder.encode(text.slice(0, match.index)).length;
    spans.push({ start, end: start + encoder.encode(match[0]).length });
    if (spans.length === maxSpans) break;
  }
  return spans;
}
