// Names of files. A name that is not UTF-8 comes as bytes; here it is "\0" and their base64 with _ for /. No other name can be that.
import { base64Of, bytesOf } from "../api";
import type { DirEntry } from "../gen/api";
import { visible } from "../ui/format";

/** Gives the name of an entry. */
export function nameOf(entry: DirEntry): string {
  return entry.rawName ? rawName(entry.rawName) : (entry.name ?? "");
}

/** Gives the name of bytes that came as base64. */
export function rawName(base64: string): string {
  return `\0${base64.replaceAll("/", "_")}`;
}

function bytesOfRaw(name: string): Uint8Array {
  return bytesOf(name.slice(1).replaceAll("_", "/"));
}

/** Gives a name as people read it; bytes that are no text are shown as \xNN. */
export function shownName(name: string): string {
  if (!name.startsWith("\0")) return visible(name);
  return [...bytesOfRaw(name)].map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`)).join("");
}

/** Gives a path as people read it. */
export function shownPath(names: readonly string[]): string {
  return `/${names.map(shownName).join("/")}`;
}

/** Gives the field of a request that names a path: rawPath if a name is not UTF-8. */
export function pathField(names: readonly string[]): { path: string } | { rawPath: string } {
  if (!names.some((name) => name.startsWith("\0"))) return { path: `/${names.join("/")}` };
  const encoder = new TextEncoder();
  const bytes = names.flatMap((name) => [0x2f, ...(name.startsWith("\0") ? bytesOfRaw(name) : encoder.encode(name))]);
  return { rawPath: base64Of(Uint8Array.from(bytes)) };
}
