import { withStack } from "../errors/node.js";
import type { Caller } from "../session/operations.js";
import type { SystemError } from "../errors/system.js";
import { systemMessage } from "../errors/system.js";

/** What the functions of one fs object share. */
export interface Core {
  readonly caller: Caller;
  /** How often the client uses an open handle to keep it open, in ms. */
  readonly pingEvery?: number | undefined;
}

/**
 * Names the syscall that Node would have named, where the server's operation is made of others: Node's readFile
 * fails in open, and its message says so.
 */
export function renamed(error: unknown, syscall: string): unknown {
  const e = error as SystemError;
  if (typeof e.syscall !== "string" || typeof e.errno !== "number") return error;
  e.syscall = syscall;
  e.message = systemMessage(e);
  return withStack(e, renamed);
}
