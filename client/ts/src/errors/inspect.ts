/** Shows a value as Node's util.inspect shows simple ones: for browsers, which have none. */
export function inspect(value: unknown, options?: { depth?: number }): string {
  if (options?.depth === -1 && typeof value === "object" && value !== null) return "[Object: null prototype] {}";
  return shown(value);
}

function shown(value: unknown): string {
  if (typeof value === "string") return quote(value);
  if (typeof value === "bigint") return `${value}n`;
  if (Object.is(value, -0)) return "-0";
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return inspectView(value as Uint8Array);
  if (Array.isArray(value)) return value.length === 0 ? "[]" : `[ ${value.map(shown).join(", ")} ]`;
  if (typeof value === "object" && value !== null) return inspectObject(value);
  if (typeof value === "function") return value.name ? `[Function: ${value.name}]` : "[Function (anonymous)]";
  return String(value);
}

function inspectObject(value: object): string {
  const entries = Object.entries(value).map(([k, v]) => `${k}: ${shown(v)}`);
  return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`;
}

function quote(text: string): string {
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") ? "`" : "'";
  // eslint-disable-next-line no-control-regex -- control characters are what is escaped
  const escaped = text.replace(/[\u0000-\u001f\u007f\\]/g, escape);
  return mark + (mark === "'" ? escaped.replaceAll("'", "\\'") : escaped) + mark;
}

const short: Readonly<Record<string, string>> = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\\": "\\\\" };

function escape(c: string): string {
  return short[c] ?? `\\x${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}

/** The first 50 bytes of a Buffer, as Node shows them; the first 100 numbers of other views. */
function inspectView(view: Uint8Array): string {
  if ("readUInt8" in view) {
    const bytes = Array.from(view.subarray(0, 50), (b) => b.toString(16).padStart(2, "0")).join(" ");
    return `<Buffer ${bytes}${more(view.length - 50, "byte")}>`;
  }
  const numbers = Array.from(view.subarray(0, 100), String).join(", ");
  const rest = view.length > 100 ? `, ... ${view.length - 100} more item${view.length > 101 ? "s" : ""}` : "";
  return `${view.constructor.name}(${view.length}) [${view.length === 0 ? "" : ` ${numbers}${rest} `}]`;
}

function more(n: number, what: string): string {
  return n > 0 ? ` ... ${n} more ${what}${n > 1 ? "s" : ""}` : "";
}
