import { fsOver } from "../create.js";
import { MemoryCaller } from "../memory/caller.js";
import { BrowserCaller } from "../opfs/caller.js";
import { sandboxOver, type Sandbox } from "./sandbox.js";

export { NotFoundError, SandboxError } from "./errors.js";
export { MemoryCaller } from "../memory/caller.js";
export { sandboxOver, type Sandbox } from "./sandbox.js";

const zones = ["/cache", "/workspace"];

/**
 * Makes a sandbox in this process's memory, with the zones /cache and /workspace: for tests, and for workers without a server. It ends
 * with the process. It behaves as a disk does, links, handles, watches and errors included, but has no permissions: all is root's.
 */
export function createMemorySandbox(): Sandbox {
  return sandboxOver(fsOver(new MemoryCaller(zones)), zones);
}

/** Options of createBrowserSandbox. */
export interface BrowserSandboxOptions {
  /** Names the workspace within the page's origin: 1 to 64 of A-Z, a-z, 0-9, ".", "_" and "-". */
  workspaceId: string;
}

/**
 * Makes a sandbox in the browser's own storage for the page's origin, with the zones /cache and /workspace: it is there when the page is
 * opened again. One page at a time has a workspace: calls of a second one reject with EBUSY until sandbox.fs.disconnect() of the first or
 * its end. Calls reject with ENOSPC when the browser gives no more space; what was written then stays in memory, and is kept when there is
 * space again.
 */
export function createBrowserSandbox({ workspaceId }: BrowserSandboxOptions): Sandbox {
  if (!/^(?!\.+$)[A-Za-z0-9._-]{1,64}$/.test(workspaceId)) throw new TypeError(`workspaceId ${JSON.stringify(workspaceId)} is not 1 to 64 of A-Z, a-z, 0-9, ".", "_" and "-"`);
  return sandboxOver(fsOver(new BrowserCaller(workspaceId, zones)), zones);
}
