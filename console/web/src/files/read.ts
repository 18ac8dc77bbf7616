// Reads the head of a file, and says what it is: text, an image, or bytes.
import { bytesOf, call, joined, num, stream } from "../api";
import type { Stat } from "../gen/api";
import { pathField, rawName, shownName } from "./names";

/** So much of a text is shown. */
export const textLimit = 1 << 20;
/** Images up to this size are shown. */
export const imageLimit = 16 << 20;
/** So much of other files is shown, as hexadecimal digits. */
export const hexLimit = 4096;

export type Content =
  | { kind: "text"; text: string; stat: Stat; cut: boolean }
  | { kind: "image"; blob: Blob; stat: Stat }
  | { kind: "binary"; head: Uint8Array; stat: Stat }
  | { kind: "link"; target: string; stat: Stat }
  | { kind: "other"; stat: Stat };

/** Reads what the viewer shows of a path. Links are not followed. */
export async function readContent(contextId: string, names: readonly string[], signal: AbortSignal): Promise<Content> {
  const where = { contextId, ...pathField(names) };
  const { stat = {} } = await call("FsService/Lstat", where, { signal });
  if (stat.type === "FILE_TYPE_SYMLINK") {
    const { target, rawTarget } = await call("FsService/Readlink", where, { signal });
    return { kind: "link", target: rawTarget ? shownName(rawName(rawTarget)) : (target ?? ""), stat };
  }
  if (stat.type !== "FILE_TYPE_FILE") return { kind: "other", stat };
  const mime = imageType(names.at(-1) ?? "");
  if (mime && num(stat.size) <= imageLimit) {
    return { kind: "image", blob: new Blob([await readBytes(where, imageLimit, signal)], { type: mime }), stat };
  }
  const head = await readBytes(where, textLimit, signal);
  const text = textOf(head, num(stat.size) > head.length);
  return text === null ? { kind: "binary", head: head.subarray(0, hexLimit), stat } : { kind: "text", text, stat, cut: num(stat.size) > head.length };
}

async function readBytes(where: object, limit: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for await (const { data } of stream("FsService/ReadStream", { ...where, end: String(limit - 1) }, { signal })) {
    if (data) chunks.push(bytesOf(data));
  }
  return joined(chunks);
}

/** Decodes a text; null if the bytes are none. The last character of a text that is cut may be missing. */
export function textOf(bytes: Uint8Array, cut: boolean): string | null {
  if (bytes.subarray(0, 8192).includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: cut });
  } catch {
    return null;
  }
}

// SVG is shown as the text that it is.
const images: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", avif: "image/avif", bmp: "image/bmp", ico: "image/x-icon" };

function imageType(name: string): string | undefined {
  return images[name.slice(name.lastIndexOf(".") + 1).toLowerCase()];
}

/** Writes bytes as hexdump -C does: offset, 16 bytes, characters. */
export function hexDump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const digits = row.map((byte, i) => `${i === 8 ? " " : ""}${byte.toString(16).padStart(2, "0")}`).join(" ").padEnd(48);
    lines.push(`${at.toString(16).padStart(8, "0")}  ${digits}  |${row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("")}|`);
  }
  return lines.join("\n");
}

/** Writes permission bits as ls does: rwxr-xr-x. */
export function modeText(mode: number | undefined): string {
  const bits = (mode ?? 0) & 0o777;
  return Array.from("rwxrwxrwx", (letter, i) => ((bits >> (8 - i)) & 1 ? letter : "-")).join("");
}
