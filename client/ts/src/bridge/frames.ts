/**
 * What travels through a port of the bridge. A port carries one link at a time: a panel whose session was lost opens
 * the next one, by a higher number. Frames of an older link are late and are ignored.
 *
 * From the panel: open, data, ack, close. From the host: opened, data, ack, closed.
 */
export type Frame =
  /** Begin a link. */
  | readonly ["open", number]
  /** The link is there; whether ArrayBuffers may be transferred to the host. */
  | readonly ["opened", number, boolean]
  /** An encoded SessionRequest or SessionResponse. */
  | readonly ["data", number, ArrayBuffer]
  /** So many bytes of data have gone on: as many more may come. */
  | readonly ["ack", number, number]
  /** End the link. */
  | readonly ["close", number]
  /** The link has ended, and why. */
  | readonly ["closed", number, string];

/** Checks a message that came through a port. undefined when it is no frame. */
export function frameOf(message: unknown): Frame | undefined {
  if (!Array.isArray(message)) return undefined;
  const [kind, link, value] = message as unknown[];
  if (typeof kind !== "string" || !Number.isSafeInteger(link) || (link as number) <= 0) return undefined;
  return isValue(kind, value) ? (message as unknown as Frame) : undefined;
}

function isValue(kind: string, value: unknown): boolean {
  switch (kind) {
    case "open": case "close": return value === undefined;
    case "opened": return typeof value === "boolean";
    case "data": return isBuffer(value);
    case "ack": return Number.isSafeInteger(value) && (value as number) > 0;
    case "closed": return typeof value === "string";
    default: return false;
  }
}

/** instanceof would not know one of another page's realm. What came through a port cannot lie about its class. */
function isBuffer(value: unknown): boolean {
  return Object.prototype.toString.call(value) === "[object ArrayBuffer]";
}

/** The bytes alone in an ArrayBuffer: the one that they fill, or a copy when they are a part of a larger one. */
export function tight(bytes: Uint8Array): ArrayBuffer {
  const { buffer, byteOffset, byteLength } = bytes;
  if (buffer instanceof ArrayBuffer && byteOffset === 0 && byteLength === buffer.byteLength) return buffer;
  return new Uint8Array(bytes).buffer; // slice of a Buffer would be no copy
}
