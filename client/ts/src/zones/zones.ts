import { requireKnown } from "../errors/options.js";
import { ZoneMode, type Zone, type ZoneLayout } from "../gen/ctxfs/v1/zone_pb.js";
import { requireOne } from "../review/review.js";
import type { Caller } from "../session/operations.js";

/** How zones are kept: in directories of the context's own folder, or as real directories of the workspace. */
export type ZoneKind = "sandboxed" | "direct";

/** A zone that is wanted. */
export interface ZoneOptions {
  /** Sandboxed: seeds the zone from all repositories of the workspace ("repositories"), or from these folders of it. At most one zone has it. */
  from?: "repositories" | readonly string[] | undefined;
  /** Direct: the directory, relative to the workspace, or absolute and below the server's --zone-dir. */
  dir?: string | undefined;
  /** Refuses changes. */
  readOnly?: boolean | undefined;
  /** "never": its files are in no status, diff, review or commit. */
  commit?: "never" | undefined;
  /** Sandboxed: how many bytes it may hold. */
  maxBytes?: number | undefined;
  /** With commit "never": `ctxfs gc` removes files that were not modified for so long, in ms. */
  keepMs?: number | undefined;
}

/** The zones of a context, by path: { mode: "sandboxed", zones: { "/workspace": { from: "repositories" }, "/cache": { commit: "never" } } }. */
export interface ZoneLayoutOptions {
  mode: ZoneKind;
  zones: Readonly<Record<string, ZoneOptions>>;
}

/** A zone of a context. */
export interface ZoneInfo {
  /** "/workspace"; "/" for a context without zones. */
  path: string;
  readOnly: boolean;
  /** Its files are never changes. */
  neverCommit: boolean;
  /** What it is seeded from. */
  from: string[];
  /** Sum of the sizes of its files; undefined unless it was measured. */
  bytes: number | undefined;
  /** How many bytes it may hold; 0 for no limit but the context's. */
  maxBytes: number;
  /** How long gc keeps its files, in ms; 0 for always. */
  keepMs: number;
  /** Its directory on the server; "" for panels. */
  dir: string;
}

const kinds = { sandboxed: ZoneMode.SANDBOXED, direct: ZoneMode.DIRECT } as const;

/** Converts how zones are kept; undefined for a context without zones. */
export function kindOf(mode: ZoneMode): ZoneKind | undefined {
  return mode === ZoneMode.SANDBOXED ? "sandboxed" : mode === ZoneMode.DIRECT ? "direct" : undefined;
}

/** Makes the message of a layout. */
export function layoutOf(layout: ZoneLayoutOptions): ZoneLayout {
  requireKnown(layout, ["mode", "zones"]);
  requireOne("mode", layout.mode, kinds);
  const zones = Object.entries(layout.zones).map(([path, zone]) => {
    requireKnown(zone, ["from", "dir", "readOnly", "commit", "maxBytes", "keepMs"]);
    const { from = [], dir = "", readOnly = false, commit, maxBytes = 0, keepMs = 0 } = zone;
    if (commit !== undefined) requireOne("commit", commit, { never: true });
    return {
      $typeName: "ctxfs.v1.ZoneSpec" as const, path, from: typeof from === "string" ? [from] : [...from], dir, readOnly, neverCommit: commit === "never",
      maxBytes: BigInt(maxBytes), keepMs: BigInt(keepMs),
    };
  });
  return { $typeName: "ctxfs.v1.ZoneLayout", mode: kinds[layout.mode], zones };
}

/** Converts a zone. */
export function zoneOf({ path, readOnly, neverCommit, from, bytes, maxBytes, keepMs, dir }: Zone): ZoneInfo {
  return { path, readOnly, neverCommit, from, bytes: bytes < 0n ? undefined : Number(bytes), maxBytes: Number(maxBytes), keepMs: Number(keepMs), dir };
}

/** Lists the zones of a context; "" is the caller's own. */
export async function listZones(caller: Caller, contextId: string, options: { measure?: boolean | undefined } = {}): Promise<ZoneInfo[]> {
  requireKnown(options, ["measure"]);
  const { zones } = await caller.call("listZones", { contextId, measure: options.measure ?? false });
  return zones.map(zoneOf);
}

/** Removes everything in a zone with commit "never". Returns how many files and links that were. */
export async function clearZone(caller: Caller, contextId: string, zone: string): Promise<number> {
  return Number((await caller.call("clearZone", { contextId, zone })).removed);
}
