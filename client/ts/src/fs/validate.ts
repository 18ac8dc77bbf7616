import { invalidArgType, invalidArgValue, nodeError, outOfRange } from "../errors/node.js";
import { Buffer } from "#platform";

/*
 * Checks of arguments: what Node throws before a call leaves the process, with its codes and messages.
 * Each returns the value in the form that the caller goes on with.
 */

/** ERR_INVALID_ARG_TYPE unless value is a string. */
export function requireString(value: unknown, name: string): string {
  if (typeof value !== "string") throw invalidArgType(name, "string", value);
  return value;
}

/** ERR_INVALID_ARG_TYPE unless value is a boolean. */
export function requireBoolean(value: unknown, name: string): boolean {
  if (typeof value !== "boolean") throw invalidArgType(name, "boolean", value);
  return value;
}

/** ERR_INVALID_ARG_TYPE unless value is a function. */
export function requireFunction(value: unknown, name: string): (...args: never[]) => unknown {
  if (typeof value !== "function") throw invalidArgType(name, "Function", value);
  return value as (...args: never[]) => unknown;
}

/** ERR_INVALID_ARG_TYPE unless value is an object, and neither null nor an array. */
export function requireObject(value: unknown, name: string): Record<string, unknown> {
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw invalidArgType(name, "Object", value);
  return value as Record<string, unknown>;
}

/** An integer between min and max. */
export function requireInteger(value: unknown, name: string, min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER): number {
  if (typeof value !== "number") throw invalidArgType(name, "number", value);
  if (!Number.isInteger(value)) throw outOfRange(name, "an integer", value);
  if (value < min || value > max) throw outOfRange(name, `>= ${min} && <= ${max}`, value);
  return value;
}

/** An integer of 32 bits, not below min. */
export function requireInt32(value: unknown, name: string, min = -(2 ** 31)): number {
  return requireInteger(value, name, min, 2 ** 31 - 1);
}

/** An AbortSignal, or undefined. */
export function requireSignal(value: unknown, name: string): AbortSignal | undefined {
  if (value === undefined) return undefined;
  if (value === null || typeof value !== "object" || !("aborted" in value)) throw invalidArgType(name, "AbortSignal", value);
  return value as AbortSignal;
}

/** Options that may be a string: the encoding. Absent ones, and functions, mean the defaults. */
export function optionsOf<T extends object>(options: unknown, defaults: T): T & { encoding?: string | null; signal?: AbortSignal } {
  type Result = T & { encoding?: string | null; signal?: AbortSignal };
  if (options === null || options === undefined || typeof options === "function") return defaults;
  if (typeof options === "string") {
    if (options !== "buffer") requireEncoding(options);
    return { ...defaults, encoding: options };
  }
  if (typeof options !== "object") throw invalidArgType("options", ["string", "Object"], options);
  const { encoding, signal } = options as { encoding?: unknown; signal?: unknown };
  if (encoding !== "buffer") requireEncoding(encoding);
  requireSignal(signal, "options.signal");
  return options as Result;
}

/** ERR_INVALID_ARG_VALUE unless the encoding is one of Node's, or absent. */
export function requireEncoding(encoding: unknown): void {
  if (encoding && !isEncoding(encoding)) throw invalidArgValue("encoding", encoding, "is invalid encoding");
}

/** Says whether an encoding is one of Node's. */
export function isEncoding(encoding: unknown): encoding is BufferEncoding {
  return typeof encoding === "string" && (Buffer.isEncoding(encoding) || encoding.toLowerCase() === "base64url");
}

/** A mode as a number: an octal string means what it shows. Absent it is def; without def it is required. */
export function modeOf(value: unknown, name: string, def?: number): number {
  const given = value ?? def;
  if (typeof given === "string") {
    if (!/^[0-7]+$/.test(given)) {
      throw invalidArgValue(name, value, "must be a 32-bit unsigned integer or an octal string");
    }
    return requireInteger(parseInt(given, 8), name, 0, 2 ** 32 - 1);
  }
  return requireInteger(given, name, 0, 2 ** 32 - 1);
}

const flagStrings = new Set([
  "r", "rs", "sr", "r+", "rs+", "sr+", "w", "wx", "xw", "w+", "wx+", "xw+",
  "a", "ax", "xa", "as", "sa", "a+", "ax+", "xa+", "as+", "sa+",
]);

/** How to open, as a request carries it. */
export type FlagForm = { case: "flag"; value: string } | { case: "flagNumber"; value: number };

/** Open flags: Node's strings, or Linux numbers. Absent they mean "r". */
export function flagOf(flags: unknown): FlagForm {
  if (flags === null || flags === undefined) return { case: "flag", value: "r" };
  if (typeof flags === "number") return { case: "flagNumber", value: requireInt32(flags, "flags") };
  if (typeof flags !== "string" || !flagStrings.has(flags)) throw invalidArgValue("flags", flags);
  return { case: "flag", value: flags };
}

/** Says whether what is opened so only takes writes at its end. */
export function appends(flag: FlagForm): boolean {
  return flag.case === "flag" ? flag.value.includes("a") : (flag.value & 0o2000) !== 0;
}

/** A time as ns since the epoch: of a Date, or of seconds as a number or numeric string. A negative number means now. */
export function timeOf(time: unknown, name = "time"): bigint {
  const value = typeof time === "string" && time.trim() !== "" ? Number(time) : time;
  if (typeof value === "number" && Number.isFinite(value)) {
    return nanoseconds(typeof time === "number" && time < 0 ? Date.now() / 1000 : value);
  }
  if (time instanceof Date) return nanoseconds(time.getTime() / 1000);
  throw invalidArgType(name, ["Date", "Time in seconds"], time);
}

/** Whole microseconds are exact, as they are for Node: a double carries no more since the epoch. */
function nanoseconds(seconds: number): bigint {
  return BigInt(Math.floor(seconds * 1e6)) * 1000n;
}

/** An id of a user or group; -1 leaves it. */
export function idOf(value: unknown, name: string): bigint {
  return BigInt(requireInteger(value, name, -1, 2 ** 32 - 1));
}

/** ERR_METHOD_NOT_IMPLEMENTED. */
export function notImplemented(what: string): Error {
  return nodeError(Error, "ERR_METHOD_NOT_IMPLEMENTED", `The ${what} method is not implemented`);
}
