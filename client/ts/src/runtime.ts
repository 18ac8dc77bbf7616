import { ambientFs, environment, pageSettings } from "./runtime/ambient.js";
import type { ContextInfo } from "./create.js";

export { configure, type PageSettings, type PanelOptions } from "./runtime/ambient.js";
export { contextIdForPanel, parseContextId, type ParsedContextId } from "./runtime/contextid.js";
export type { ContextInfo } from "./create.js";

/**
 * The ID of the context that the imported fs works in: null while it is not known. An Electron preload, or the page by
 * globalThis.ctxfs, says it from the start, in Node CTXFS_CONTEXT; else it is known once getInfo has resolved.
 */
export let contextId: string | null = pageSettings()?.contextId ?? environment("CTXFS_CONTEXT") ?? null;

/** Returns what a panel may know of the context of the imported fs. Connects, if that has not happened. */
export async function getInfo(): Promise<ContextInfo> {
  const info = await ambientFs().info();
  contextId = info.contextId;
  return info;
}
