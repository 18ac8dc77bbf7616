const decoder = new TextDecoder("utf-8");
const encoder = new TextEncoder();

/** The first bytes of files that models can see. */
const signatures: readonly [mediaType: string, bytes: readonly number[]][] = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]], ["image/jpeg", [0xff, 0xd8, 0xff]], ["image/gif", [0x47, 0x49, 0x46, 0x38]], ["application/pdf", [0x25, 0x50, 0x44, 0x46, 0x2d]],
];

/** Returns the media type of content; undefined for text. */
export function mediaTypeOf(bytes: Uint8Array): string | undefined {
  const known = signatures.find(([, head]) => head.every((b, i) => bytes[i] === b));
  if (known) return known[0];
  if (decoder.decode(bytes.subarray(0, 4)) === "RIFF" && decoder.decode(bytes.subarray(8, 12)) === "WEBP") return "image/webp";
  return bytes.subarray(0, 8192).includes(0) ? "application/octet-stream" : undefined;
}

/** Says whether lines of a file, decoded as a text, may be of something else: then its bytes tell. first is the number of the first line. */
export function mayBeMedia(text: string, first: number): boolean {
  return text.includes("\0") || (first === 1 && /^(?:\ufffd|GIF8|%PDF-|RIFF)/.test(text));
}

/** Adds the etag of a file to what is told of it, if there is one. */
export function withEtag(text: string, etag: string | undefined): string {
  return etag ? `${text}\n(etag ${etag})` : text;
}

/** Returns the lines of a text. */
export function lines(bytes: Uint8Array): string[] {
  const list = decoder.decode(bytes).split(/\r?\n/);
  if (list.at(-1) === "") list.pop();
  return list;
}

/** The most bytes of one line that are shown. */
const maxLine = 2000;

/** Shows lines with their numbers, as many as max bytes hold, and says what is left. */
export function numbered(list: readonly string[], first: number, last: number, max: number): string {
  return numberedPart(list.slice(first - 1, Math.min(last, list.length)), first, list.length, max);
}

/** As numbered, of the lines from first on of a file with total lines; undefined if they are not counted. */
export function numberedPart(part: readonly string[], first: number, total: number | undefined, max: number): string {
  if (total === 0) return "(the file is empty)";
  if (part.length === 0) return `(the file has ${total ?? "fewer"} lines)`;
  const shown = cut(part.map((line, i) => `${first + i}\t${line.length > maxLine ? `${line.slice(0, maxLine)}… (cut)` : line}`), max);
  const until = first + shown.length - 1;
  return until === total && first === 1 ? shown.join("\n") : `${shown.join("\n")}\n(lines ${first}-${until} of ${total ?? "many"})`;
}

/** Joins lines, as many as max bytes hold, and says how many are left. */
export function bounded(list: readonly string[], max: number): string {
  const shown = cut(list, max);
  return shown.length === list.length ? shown.join("\n") : `${shown.join("\n")}\n(${list.length - shown.length} more)`;
}

function cut(list: readonly string[], max: number): string[] {
  let size = 0;
  const out: string[] = [];
  for (const line of list) {
    size += encoder.encode(line).length + 1;
    if (size > max && out.length > 0) break;
    out.push(line);
  }
  return out;
}
