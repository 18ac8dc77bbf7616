import { fsOver } from "../create.js";
import { MemoryCaller } from "../memory/caller.js";
import { sandboxOver, type Sandbox } from "./sandbox.js";

export { NotFoundError, SandboxError } from "./errors.js";
export { MemoryCaller } from "../memory/caller.js";
export { sandboxOver, type Sandbox } from "./sandbox.js";

/**
 * Makes a sandbox in this process's memory, with the zones /cache and /workspace: for tests, and for workers without a server. It ends
 * with the process. It behaves as a disk does, links, handles, watches and errors included, but has no permissions: all is root's.
 */
export function createMemorySandbox(): Sandbox {
  const zones = ["/cache", "/workspace"];
  return sandboxOver(fsOver(new MemoryCaller(zones)), zones);
}
