import { innerError, invalidArgType, invalidArgValue, nodeError, outOfRange } from "../errors/node.js";
import { systemError } from "../errors/system.js";
import { Buffer, nodeMajor } from "#platform";

/*
 * Checks of arguments: what Node throws before a call leaves the process, with its codes and messages.
 * Each returns the value in the form that the caller needs.
 */

/** An option, or what it is when it is not given. Given as undefined it is undefined, which most options may not be. */
export function option(options: object, name: string, def: unknown): unknown {
  return Object.hasOwn(options, name) ? (options as Record<string, unknown>)[name] : def;
}

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

/** The mode of access and copyFile: 0 to 7. Node's own code checks it inside, in other words than elsewhere. */
export function callMode(mode: unknown): number {
  if (mode === undefined || mode === null) return 0;
  if (typeof mode !== "number") throw innerError(TypeError, "ERR_INVALID_ARG_TYPE", "mode must be int32 or null/undefined");
  if (!Number.isFinite(mode)) throw innerError(RangeError, "ERR_OUT_OF_RANGE", "mode is out of range");
  const whole = Math.trunc(mode);
  if (whole < 0 || whole > 7) throw innerError(RangeError, "ERR_OUT_OF_RANGE", "mode is out of range: >= 0 && <= 7");
  return whole;
}

const flagStrings = new Set([
  "r", "rs", "sr", "r+", "rs+", "sr+", "w", "wx", "xw", "w+", "wx+", "xw+",
  "a", "ax", "xa", "as", "sa", "a+", "ax+", "xa+", "as+", "sa+",
]);

/** How to open, as a request carries it. */
export type FlagForm = { case: "flag"; value: string } | { case: "flagNumber"; value: number };

/** Open flags: Node's strings, or Linux numbers. Absent they mean "r". name is what errors of numbers show. */
export function flagOf(flags: unknown, name = "flags"): FlagForm {
  if (flags === null || flags === undefined) return { case: "flag", value: "r" };
  if (typeof flags === "number") return { case: "flagNumber", value: requireInt32(flags, name) };
  if (typeof flags !== "string" || !flagStrings.has(flags)) throw invalidArgValue("flags", flags);
  return { case: "flag", value: flags };
}

/** Says whether what is opened so only takes writes at its end. */
export function appends(flag: FlagForm): boolean {
  return flag.case === "flag" ? flag.value.includes("a") : (flag.value & 0o2000) !== 0;
}

/** A call that is given times, as its error names it. */
export interface TimedCall { syscall: string; path?: string | undefined }

/**
 * A time as ns since the epoch: of a Date, or of seconds as a number or numeric string. A negative number means now.
 * A time that no file can have is EINVAL, as the kernel would say.
 */
export function timeOf(time: unknown, call: TimedCall, name = "time"): bigint {
  const seconds = secondsOf(time, name);
  if (Math.abs(seconds) === Infinity && nodeMajor >= 22) return BigInt(Date.now()) * 1_000_000n;
  const ns = Number.isFinite(seconds) ? nanoseconds(seconds) : undefined;
  if (ns === undefined || BigInt.asIntN(64, ns) !== ns) throw systemError({ code: "EINVAL", ...call });
  return ns;
}

function secondsOf(time: unknown, name: string): number {
  // Every text that means a number counts: " 5 ", "0x10" and "" too.
  if (typeof time === "string" && !Number.isNaN(Number(time))) return Number(time);
  if (typeof time === "number" && Number.isFinite(time)) return time < 0 ? Date.now() / 1000 : time;
  if (time instanceof Date) return time.getTime() / 1000;
  throw invalidArgType(name, ["Date", "Time in seconds"], time);
}

/** Nanoseconds, cut off as Node does it: before version 24 at whole microseconds. */
function nanoseconds(seconds: number): bigint {
  const whole = Math.trunc(seconds);
  const part = seconds - whole;
  return BigInt(whole) * 1_000_000_000n + (nodeMajor < 24 ? BigInt(Math.trunc(part * 1e6)) * 1000n : BigInt(Math.trunc(part * 1e9)));
}

/** An id of a user or group; -1, and what that is in 32 bits, leave it. */
export function idOf(value: unknown, name: string): bigint {
  const id = requireInteger(value, name, -1, 2 ** 32 - 1);
  return id === 2 ** 32 - 1 ? -1n : BigInt(id);
}

/** ERR_METHOD_NOT_IMPLEMENTED. */
export function notImplemented(what: string): Error {
  return nodeError(Error, "ERR_METHOD_NOT_IMPLEMENTED", `The ${what} method is not implemented`);
}
