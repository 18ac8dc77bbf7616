import { inspect, nodeMajor } from "#platform";

/** An error of Node's own making: a wrong argument, or a call that was aborted. */
export interface NodeError extends Error {
  code: string;
}

type Constructor = new (message: string) => Error;

const primitives = new Set(["string", "function", "number", "object", "boolean", "bigint", "symbol"]);
const className = /^([A-Z][a-z0-9]*)+$/;

let heard: ((error: Error) => void) | undefined;

/**
 * Calls start, and throws the first argument error that was made before it returned: for functions that throw at once
 * what their siblings with promises reject with. Nothing else runs meanwhile, so that the error is this call's own.
 */
export function throwingAtOnce<T>(start: () => Promise<T>): Promise<T> {
  let first: Error | undefined;
  heard = (error) => { first ??= error; };
  try {
    const result = start();
    if (!first) return result;
    result.catch(() => { /* thrown instead */ });
  } finally {
    heard = undefined;
  }
  throw first;
}

/** An argument error of Node's inside, whose text does not show the code. */
export function innerError(Base: Constructor, code: string, message: string): NodeError {
  const error = Object.assign(new Base(message), { code });
  heard?.(error);
  return error;
}

/** Makes an error with Node's code, whose stack begins as Node's does: "TypeError [ERR_X]: message". */
export function nodeError(Base: Constructor, code: string, message: string): NodeError {
  const error = new Base(message) as NodeError;
  const name = error.name;
  Object.defineProperty(error, "toString", {
    value: () => `${name} [${code}]: ${message}`, enumerable: false, configurable: true, writable: true,
  });
  if (typeof error.stack === "string") error.stack = error.stack.replace(name, `${name} [${code}]`);
  error.code = code;
  heard?.(error);
  return error;
}

/** ERR_INVALID_ARG_TYPE: expected are types ("string") and classes ("Buffer"). */
export function invalidArgType(name: string, expected: string | readonly string[], actual: unknown): NodeError {
  const list = typeof expected === "string" ? [expected] : expected;
  const what = name.endsWith(" argument") ? `The ${name}` : `The "${name}" ${name.includes(".") ? "property" : "argument"}`;
  return nodeError(TypeError, "ERR_INVALID_ARG_TYPE", `${what} must be ${expectation(list)}. Received ${received(actual)}`);
}

function expectation(expected: readonly string[]): string {
  let types = expected.filter((e) => primitives.has(e.toLowerCase())).map((e) => e.toLowerCase());
  const classes = expected.filter((e) => !primitives.has(e.toLowerCase()) && className.test(e));
  const others = expected.filter((e) => !primitives.has(e.toLowerCase()) && !className.test(e));
  if (classes.length > 0 && types.includes("object")) {
    types = types.filter((type) => type !== "object");
    classes.push("Object");
  }
  const parts: string[] = [];
  if (types.length > 0) parts.push(`${types.length > 1 ? "one of type" : "of type"} ${or(types)}`);
  if (classes.length > 0) parts.push(`an instance of ${or(classes)}`);
  if (others.length > 0) parts.push(oneOf(others));
  return parts.join(" or ");
}

function oneOf(others: readonly string[]): string {
  const [first = ""] = others;
  if (others.length > 1) return `one of ${or(others)}`;
  return first.toLowerCase() === first ? first : `an ${first}`;
}

function or(words: readonly string[]): string {
  if (words.length < 3) return words.join(" or ");
  return `${words.slice(0, -1).join(", ")}, or ${words.at(-1) ?? ""}`;
}

/** Says what was given, as Node does: "type number (5)", "an instance of Date". */
export function received(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === "function") return `function ${value.name}`;
  if (typeof value === "object") {
    const name = (value as { constructor?: { name?: string } }).constructor?.name;
    // A generator's constructor has an empty name.
    return name === undefined || (name === "" && nodeMajor >= 26) ? inspect(value, { depth: -1 }) : `an instance of ${name}`;
  }
  const shown = inspect(value);
  return `type ${typeof value} (${shown.length > 28 ? `${shown.slice(0, 25)}...` : shown})`;
}

/** ERR_OUT_OF_RANGE: range is in words, such as ">= 0 && <= 7". */
export function outOfRange(name: string, range: string, value: unknown): NodeError {
  return nodeError(RangeError, "ERR_OUT_OF_RANGE", `The value of "${name}" is out of range. It must be ${range}. Received ${grouped(value)}`);
}

/** ERR_INVALID_ARG_VALUE: why stands after the name. */
export function invalidArgValue(name: string, value: unknown, why = "is invalid", Base: Constructor = TypeError): NodeError {
  const shown = inspect(value);
  const kind = name.includes(".") ? "property" : "argument";
  const text = shown.length > 128 ? `${shown.slice(0, 128)}...` : shown;
  return nodeError(Base, "ERR_INVALID_ARG_VALUE", `The ${kind} '${name}' ${why}. Received ${text}`);
}

/** ERR_INVALID_STATE. */
export function invalidState(why: string): NodeError {
  return nodeError(Error, "ERR_INVALID_STATE", `Invalid state: ${why}`);
}

/** The AbortError that Node rejects with when a signal fires. */
export function abortError(cause?: unknown): NodeError {
  return new AbortError("The operation was aborted", cause === undefined ? undefined : { cause });
}

class AbortError extends Error implements NodeError {
  readonly code = "ABORT_ERR";
  override readonly name = "AbortError";
}

/** Node groups the digits of large integers in range errors: 4_294_967_296. */
function grouped(value: unknown): string {
  if (Number.isInteger(value) && Math.abs(value as number) > 2 ** 32) return digits(String(value));
  if (typeof value === "bigint") return `${value > 2n ** 32n || value < -(2n ** 32n) ? digits(String(value)) : value}n`;
  return inspect(value);
}

function digits(text: string): string {
  return text.replace(/\B(?=(\d{3})+$)/g, "_");
}

/**
 * Takes the stack of an error anew, from where the caller is: without the functions up to and including below, and with the
 * present message. Engines that are not V8 keep the stack that the error has.
 */
export function withStack<E>(error: E, below: (...args: never[]) => unknown): E {
  if (error instanceof Error) v8.captureStackTrace?.(error, below);
  return error;
}

/** Makes an error without a stack, for withStack: V8 would collect the stack twice. */
export function withoutStack<E>(make: () => E): E {
  const limit = v8.stackTraceLimit;
  if (!v8.captureStackTrace || !Object.getOwnPropertyDescriptor(Error, "stackTraceLimit")?.writable) return make();
  v8.stackTraceLimit = 0;
  try {
    return make();
  } finally {
    v8.stackTraceLimit = limit;
  }
}

/** What V8's Error has besides. */
const v8 = Error as { captureStackTrace?: typeof Error.captureStackTrace; stackTraceLimit?: number | undefined };
