import { systemMessage, type SystemError } from "../errors/system.js";

type Metadata = Readonly<Record<string, string>>;

interface Paths { path: string | undefined; dest: string | undefined }

const twoPaths = new Set(["copyfile", "cp", "link", "rename", "symlink"]);

/** The paths that an error's metadata name, as Node shows them. */
export function pathsOf(code: string, metadata: Metadata): Paths {
  const escaped = (metadata.escaped ?? "").split(",");
  const text = (key: "path" | "dest"): string | undefined => {
    const value = metadata[key];
    return value !== undefined && escaped.includes(key) ? unescaped(value) : value;
  };
  const paths = { path: text("path"), dest: text("dest") };
  // Metadata leaves out what is empty. ENOENT is always of a path: one that is missing was empty, and Node shows it.
  const { syscall } = metadata;
  if (code !== "ENOENT" || !syscall) return paths;
  return { path: paths.path ?? "", dest: paths.dest ?? (twoPaths.has(syscall) ? "" : undefined) };
}

const escape = /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))|[^\\]+/gs;
const letters: Readonly<Record<string, string>> = { a: "\x07", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };

/** Undoes the escapes by which the server sends a path that is no UTF-8: those of a Go string literal. */
function unescaped(text: string): string {
  const bytes: number[] = [];
  for (const [all, byte, short, long, letter] of text.matchAll(escape)) {
    const rune = short ?? long;
    if (byte !== undefined) bytes.push(parseInt(byte, 16));
    else if (rune !== undefined) bytes.push(...new TextEncoder().encode(String.fromCodePoint(parseInt(rune, 16))));
    else bytes.push(...new TextEncoder().encode(letter === undefined ? all : (letters[letter] ?? letter)));
  }
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(bytes));
}

const mark = "…";

/** Puts the paths that were asked for in the place of those that the server cut, which it does after 1 KiB. */
export function withWholePaths(error: Error, request: Partial<Record<"path" | "dest" | "prefix" | "target", string>>): Error {
  const e = error as SystemError;
  let cut = false;
  for (const key of ["path", "dest"] as const) {
    const part = e[key];
    if (typeof part !== "string" || !part.endsWith(mark)) continue;
    const whole = [request[key], request.target, request.prefix, request.path].find((p) => p?.startsWith(part.slice(0, -mark.length)));
    if (whole === undefined) continue;
    e[key] = whole;
    cut = true;
  }
  if (cut) e.message = systemMessage(e);
  return e;
}
