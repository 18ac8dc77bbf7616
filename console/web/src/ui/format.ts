// Figures as people read them.
import { num } from "../api";

/** 1536 → "1.5 KiB". */
export function size(bytes: string | number | undefined): string {
  let value = num(bytes);
  if (value < 1024) return `${String(value)} B`;
  let unit = "B";
  for (const next of ["KiB", "MiB", "GiB", "TiB"]) {
    if (value < 1023.5) break;
    value /= 1024;
    unit = next;
  }
  return `${value < 9.95 ? value.toFixed(1) : value.toFixed(0)} ${unit}`;
}

/** Nanoseconds since the epoch → "3 min ago"; "" for 0. */
export function ago(ns: string | number | undefined, now = Date.now()): string {
  const ms = millis(ns);
  if (ms === 0) return "";
  const seconds = Math.max(0, (now - ms) / 1000);
  if (seconds < 45) return "just now";
  for (const [limit, unit, name] of steps) {
    if (seconds < limit) return `${String(Math.round(seconds / unit))} ${name} ago`;
  }
  return new Date(ms).toISOString().slice(0, 10);
}

const steps: readonly [number, number, string][] = [[3570, 60, "min"], [84_600, 3600, "h"], [30 * 86_400, 86_400, "d"]];

/** Nanoseconds since the epoch → the date and time in the person's language; "" for 0. */
export function time(ns: string | number | undefined): string {
  const ms = millis(ns);
  return ms === 0 ? "" : new Date(ms).toLocaleString();
}

/** Nanoseconds → milliseconds. */
export function millis(ns: string | number | undefined): number {
  return Math.floor(num(ns) / 1e6);
}

/** A text with its control characters, also those that change the direction of text, made visible. */
export function visible(text: string): string {
  return text.replace(hidden, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`);
}

// eslint-disable-next-line no-control-regex -- control characters are what it is for
const hidden = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/** 1, "file" → "1 file"; 3, "file" → "3 files". */
export function count(n: string | number | undefined, noun: string, plural = `${noun}s`): string {
  const value = num(n);
  return `${value.toLocaleString("en")} ${value === 1 ? noun : plural}`;
}
