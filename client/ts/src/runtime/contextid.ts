/** The longest ID, in bytes. */
const longest = 200;
const instance = /^[A-Za-z0-9._~-]+$/;
const template = /^safe_tpl_([0-9a-f]{12})_(.+)$/;

/** What a context ID says. */
export interface ParsedContextId {
  /** Unsafe contexts are not seeded, and are not for safe panels. */
  mode: "safe" | "unsafe";
  /** The 12 hex digits of a template's context; null for others. */
  templateSpecHash: string | null;
  instanceId: string;
}

/**
 * Takes a context ID apart. The forms are ctx_NAME, safe_tpl_HASH12_NAME and unsafe_noctx_NAME; the server reads them by
 * the same rules. Throws an error of code EINVAL for anything else.
 */
export function parseContextId(id: string): ParsedContextId {
  const parts = split(id);
  if (id === "") throw bad(id, "it is empty");
  if (id.length > longest) throw bad(`${id.slice(0, 32)}...`, `it is longer than ${longest} bytes`);
  if (!parts) throw bad(id, "the forms are ctx_NAME, safe_tpl_HASH12_NAME and unsafe_noctx_NAME");
  if (!instance.test(parts.instanceId) || /^\.+$/.test(parts.instanceId)) {
    throw bad(id, "a name has only A-Z a-z 0-9 . _ ~ -, and not dots alone");
  }
  return parts;
}

/**
 * Gives the context ID of a panel that was opened without an explicit one: "ctx_" and the panel's ID with "/" and ":"
 * replaced by "~". Throws an error of code EINVAL when it has none.
 */
export function contextIdForPanel(panelId: string): string {
  const id = `ctx_${panelId.replace(/[/:]/g, "~")}`;
  if (!panelId.includes("..") && isContextId(id)) return id;
  throw invalid(
    `panel ID ${JSON.stringify(panelId.slice(0, 80))} has no context ID of its own: `
    + "use 1 to 196 of A-Z a-z 0-9 . _ ~ - / :, without '..', or name an explicit contextId",
  );
}

function split(id: string): ParsedContextId | undefined {
  const [, templateSpecHash, instanceId] = template.exec(id) ?? [];
  if (templateSpecHash !== undefined && instanceId !== undefined) return { mode: "safe", templateSpecHash, instanceId };
  for (const [prefix, mode] of [["ctx_", "safe"], ["unsafe_noctx_", "unsafe"]] as const) {
    if (id.startsWith(prefix)) return { mode, templateSpecHash: null, instanceId: id.slice(prefix.length) };
  }
  return undefined;
}

function isContextId(id: string): boolean {
  try {
    parseContextId(id);
    return true;
  } catch {
    return false;
  }
}

function bad(id: string, why: string): Error {
  return invalid(`bad context ID ${JSON.stringify(id)}: ${why}`);
}

function invalid(message: string): Error {
  return Object.assign(new Error(message), { code: "EINVAL" });
}
