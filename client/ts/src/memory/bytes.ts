/*
 * A name is text. The bytes of one that is not UTF-8 are the text's lone surrogates U+DC80 to U+DCFF, one for each byte that
 * is not valid (the convention of Python's "surrogateescape"), so that each name has one form and keeps its bytes.
 */

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();
const escaped = /[\udc80-\udcff]/;

/** Returns a path or name as the tree holds it: of a request's text, or of its bytes when it has some. */
export function nameFrom(text: string, raw: Uint8Array): string {
  if (raw.length === 0) return wellFormed(text);
  let out = "";
  for (let at = 0; at < raw.length;) {
    const size = sequence(raw, at);
    out += size === 0 ? String.fromCharCode(0xdc00 + (raw[at] ?? 0)) : strict.decode(raw.subarray(at, at + size));
    at += size || 1;
  }
  return out;
}

/** Returns the size of the UTF-8 sequence at a place; 0 when the bytes there are none. */
function sequence(raw: Uint8Array, at: number): number {
  const first = raw[at] ?? 0;
  const size = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
  try {
    strict.decode(raw.subarray(at, at + size));
    return at + size <= raw.length ? size : 0;
  } catch {
    return 0;
  }
}

/** Returns a text in which half a surrogate pair is what it becomes in UTF-8: U+FFFD. */
export function wellFormed(text: string): string {
  // eslint-disable-next-line no-control-regex -- all of ASCII
  return /^[\x00-\x7f]*$/.test(text) ? text : lenient.decode(encoder.encode(text));
}

/** Returns a name's bytes. */
export function nameBytes(name: string): Uint8Array {
  if (!escaped.test(name)) return encoder.encode(name);
  const bytes: number[] = [];
  for (const c of name) {
    const code = c.codePointAt(0) ?? 0;
    if (code >= 0xdc80 && code <= 0xdcff) bytes.push(code - 0xdc00);
    else bytes.push(...encoder.encode(c));
  }
  return new Uint8Array(bytes);
}

const none = new Uint8Array(0);

/** Returns a name as replies carry it: text, and the bytes of one that is not UTF-8. */
export function shownName(name: string): { text: string; raw: Uint8Array } {
  if (!escaped.test(name)) return { text: name, raw: none };
  const raw = nameBytes(name);
  return { text: lenient.decode(raw), raw };
}
