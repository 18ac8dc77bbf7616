// Text as the server counts it: lines end at "\n" only, and the last one may lack it.
import { visible } from "../ui/format";

export interface Decoded {
  text: string;
  /** The bytes are not UTF-8, and the text has replacement characters. */
  lossy: boolean;
}

/** Decodes bytes for people to read. */
export function decode(data: Uint8Array): Decoded {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data), lossy: false };
  } catch {
    return { text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(data), lossy: true };
  }
}

/** Splits a text into lines without their newlines. A newline at the end begins no further line. */
export function splitLines(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

/** Returns the offset of each line's first character, and of the end. */
export function lineStarts(lines: readonly string[]): number[] {
  const out = new Array<number>(lines.length + 1);
  let at = 0;
  for (let i = 0; i < lines.length; i++) {
    out[i] = at;
    at += (lines[i] as string).length + 1;
  }
  out[lines.length] = at;
  return out;
}

/** Says whether the text's last line lacks a newline. */
export function lacksNewline(text: string): boolean {
  return text !== "" && !text.endsWith("\n");
}

/** A path for people. */
export function shownPath(path: string): string {
  return visible(path.replace(/^\//, ""));
}
