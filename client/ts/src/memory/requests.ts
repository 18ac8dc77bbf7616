import type { OpName, ResponseOf } from "../session/operations.js";
import { nameFrom } from "./bytes.js";
import { errno } from "./tree.js";

/** No bytes: the raw form of a path that is UTF-8. */
export const none = new Uint8Array(0);

/** The bits that are taken from the mode of what is made. */
export const umask = 0o022;
/** The setuid and setgid bits, which nothing gets. */
export const idBits = 0o6000;

/** A response without what marks it as a message. */
export type Answer<K extends OpName> = Partial<Omit<ResponseOf<K>, "$typeName" | "$unknown">>;

/** A path of a request. */
export interface OnePath { path?: string; rawPath?: Uint8Array }
/** The two paths of a request. */
export interface TwoPaths extends OnePath { dest?: string; rawDest?: Uint8Array }
/** One of the forms of a field. */
export interface Form { case?: string | undefined; value?: unknown }

/** The path that a request names. */
export function pathIn({ path = "", rawPath = none }: OnePath): string {
  return nameFrom(path, rawPath);
}

/** The second path that a request names. */
export function destIn({ dest = "", rawDest = none }: TwoPaths): string {
  return nameFrom(dest, rawDest);
}

/** The permission bits that a request sets, as a number or an octal text. */
export function modeIn(form: Form | undefined, otherwise?: number): number {
  const value = form?.value ?? otherwise;
  const mode = typeof value === "string" ? parseInt(value, 8) : value;
  if (typeof mode !== "number" || Number.isNaN(mode)) throw errno("EINVAL");
  return mode & 0o7777;
}
