import { systemErrors } from "./table.js";

/** What is known of a failed call. */
export interface SystemErrorInit {
  /** The errno's name, such as "ENOENT". */
  code: string;
  /** The system call, as Node names it: "open". */
  syscall?: string | undefined;
  /** The path, as the caller gave it. */
  path?: string | undefined;
  /** The second path of rename, link, symlink and copyFile. */
  dest?: string | undefined;
  /** What to do about it, when the server knows. */
  hint?: string | undefined;
  /** What is wrong, where the errno says too little. */
  detail?: string | undefined;
  /** What the server counts the error as: the errno's name. */
  reason?: string | undefined;
  /** "context" when the context is meant and not a file, "condition" for ifMatch and ifNoneMatch, "edit" for an edit that cannot be made. */
  kind?: string | undefined;
  /** Bytes that reached the file before the failure. */
  written?: number | undefined;
  /** The file's present etag, when a condition did not hold. */
  etag?: string | undefined;
  /** The index of the step of a batch that failed. Nothing of the batch was done. */
  step?: number | undefined;
  /** Linux's number, negative; found by code when it is missing. */
  errno?: number | undefined;
}

/** An error as Node's fs gives it, with what ctxfs knows besides. */
export interface SystemError extends Error {
  errno: number;
  code: string;
  syscall?: string;
  path?: string;
  dest?: string;
  hint?: string;
  detail?: string;
  reason?: string;
  kind?: string;
  written?: number;
  etag?: string;
  step?: number;
}

const optional = ["syscall", "path", "dest"] as const;
const extras = ["hint", "detail", "reason", "kind", "written", "etag", "step"] as const;

/** The errors, some only of one system call, of which Node's text says all with the system call and the path. Their messages are exactly Node's. */
const complete = new Set(["ENOENT", "EEXIST", "EISDIR", "ENAMETOOLONG", "ENOTDIR", "ENOTEMPTY", "ENOTSUP copyfile"]);

/**
 * Returns Node's message: "ENOENT: no such file or directory, open '/x'". What the server knows besides stands after Node's text:
 * "EINVAL: invalid argument: the pattern has no end; close the bracket, glob". Where Node has no such error (kind), it stands in its place.
 */
export function systemMessage(e: SystemErrorInit): string {
  const known = systemErrors[e.code]?.[1];
  const isNodes = !e.kind && (complete.has(e.code) || complete.has(`${e.code} ${e.syscall ?? ""}`)) && Boolean(e.syscall && e.path);
  const texts = e.kind ? [e.detail ?? known] : [known, isNodes || e.detail === known ? undefined : e.detail];
  let text = `${e.code}: ${texts.filter(Boolean).join(": ") || "unknown error"}`;
  if (e.step !== undefined) text += ` (steps[${e.step}]; nothing was changed)`;
  if (e.hint && !isNodes) text += `; ${e.hint}`;
  if (e.syscall) text += `, ${e.syscall}`;
  if (e.path !== undefined) text += ` '${e.path}'`;
  if (e.dest !== undefined) text += ` -> '${e.dest}'`;
  return text;
}

/**
 * Makes an error of the file system as Node makes it: its fields are own and enumerable, in Node's order.
 * hint, detail, reason, kind, written, etag and step are own but not enumerable, so that printing and comparing show what Node shows.
 */
export function systemError(init: SystemErrorInit): SystemError {
  const error = new Error(systemMessage(init)) as SystemError;
  error.errno = init.errno ?? systemErrors[init.code]?.[0] ?? -4094;
  error.code = init.code;
  for (const key of optional) {
    const value = init[key];
    if (value !== undefined) error[key] = value;
  }
  for (const key of extras) {
    const value = init[key];
    if (value !== undefined && value !== "") Object.defineProperty(error, key, { value, configurable: true, writable: true });
  }
  return error;
}
