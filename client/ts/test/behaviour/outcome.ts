import type { Row } from "./row.js";

/** What came of a call: how it ended, and with what. Of plain values, so that two can be compared and printed. */
export type Outcome = Readonly<Record<string, unknown>>;

/** How long a call may take, in ms: longer means that it never ends. */
const patience = 60_000;

/** Calls run and describes what came of it: returned or threw at once, resolved or rejected later. */
export async function outcomeOf(run: () => unknown): Promise<Outcome> {
  let returned: unknown;
  try {
    returned = run();
  } catch (error) {
    return { threw: describe(error) };
  }
  if (!isPromise(returned)) return { returned: describe(returned) };
  try {
    return { resolved: describe(await orHung(returned)) };
  } catch (error) {
    return { rejected: describe(error) };
  }
}

function isPromise(value: unknown): value is Promise<unknown> {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}

async function orHung(promise: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  // clock: this only stops a hang
  const hung = new Promise((resolve) => { timer = setTimeout(() => { resolve("this call never ended"); }, patience); });
  return Promise.race([promise, hung]).finally(() => { clearTimeout(timer); });
}

/** The outcome of a row in a directory whose parent is root: paths begin there. */
export async function rowOutcome(row: Row, fs: unknown, root: string, dir: string, disk: string): Promise<Outcome> {
  return withoutRoot(await outcomeOf(() => row.run(fs, dir, disk)), root) as Outcome;
}

/** Takes root off every text, so that Node's absolute paths are those of a context. */
function withoutRoot(value: unknown, root: string): unknown {
  if (typeof value === "string") return root === "" ? value : value.replaceAll(root, "");
  if (Array.isArray(value)) return value.map((v) => withoutRoot(v, root));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, withoutRoot(v, root)]));
}

/** Numbers of the file system that differ between any two files, or change from one moment to the next. */
const fleeting = new Set(["ino", "dev", "bfree", "bavail", "ffree", "fd"]);
/** Times within this of now, in ms, are all called now. */
const recent = 600_000;
const dates = ["atime", "mtime", "ctime", "birthtime"] as const;
const questions = ["isFile", "isDirectory", "isSymbolicLink", "isFIFO", "isSocket", "isCharacterDevice", "isBlockDevice"] as const;

/** A value as plain data: its class, and what one can see of it. */
export function describe(value: unknown): unknown {
  if (typeof value === "bigint") return timeOf(Number(value / 1_000_000n)) ?? timeOf(Number(value)) ?? `${value}n`;
  if (typeof value === "symbol") return String(value);
  if (typeof value === "function") return `function ${value.name}`;
  if (typeof value === "number") return timeOf(value) ?? (Object.is(value, -0) || !Number.isFinite(value) ? String(value) : value);
  if (value === undefined) return "(undefined)";
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Date) return timeOf(value.getTime()) ?? `Date ${value.getTime()}`;
  if (value instanceof Error) return describeError(value);
  if (value instanceof ArrayBuffer) return `ArrayBuffer ${Buffer.from(value).toString("hex")}`;
  if (ArrayBuffer.isView(value)) return describeView(value);
  if (Array.isArray(value)) return value.map(describe);
  return describeObject(value);
}

function timeOf(ms: number): string | undefined {
  // clock: files are as old as the test
  return Math.abs(ms - Date.now()) < recent ? "now" : undefined;
}

function describeView(view: ArrayBufferView): string {
  const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  const shown = bytes.length > 64 ? `${bytes.length} bytes` : bytes.toString("latin1");
  return `${view.constructor.name} ${JSON.stringify(shown)}`;
}

function describeError(error: Error): unknown {
  // Node has several classes for what it names SystemError.
  const told: Record<string, unknown> = { class: error.name === "SystemError" ? "" : error.constructor.name, name: error.name, message: error.message, string: String(error) };
  for (const [key, value] of Object.entries(error)) told[key] = describe(value);
  if (error.cause !== undefined) told.cause = describe(error.cause);
  told.keys = Object.keys(error).sort().join(" ");
  return told;
}

function describeObject(value: object): unknown {
  const prototype: unknown = Object.getPrototypeOf(value);
  const name = prototype === null ? "null" : value.constructor.name;
  const told: Record<string, unknown> = { class: name };
  if (opaque.has(name)) return told;
  for (const [key, inner] of Object.entries(value)) told[key] = fleeting.has(key) ? typeof inner : describe(inner);
  // Node 20 has the dates as fields, later versions and ctxfs as getters. A row of its own shows the difference.
  if (name.endsWith("Stats")) for (const key of dates) told[key] = describe((value as Record<string, unknown>)[key]);
  const asked = value as Record<string, (() => unknown) | undefined>;
  for (const question of questions) if (typeof asked[question] === "function") told[question] = asked[question]();
  return told;
}

/** Classes whose fields are their own affair: rows ask them what can be asked. */
const opaque = new Set(["FileHandle", "Dir", "ReadStream", "WriteStream", "ReadableStream", "AbortSignal", "Interface", "FSWatcher", "FileWatcher"]);
