import type { CtxFs } from "../create.js";
import type { CallbackFs } from "../fs/callbacks.js";

/** The functions that Node has with callbacks and as promises. */
type Both = keyof CallbackFs & keyof CtxFs;

/** Node's fs: with callbacks, and with promises where the last argument is no function. */
export type ModuleFs = CallbackFs & { readonly [K in Exclude<Both, "constants" | "promises" | "watch">]: CallbackFs[K] & CtxFs[K] } & Pick<CtxFs, "promises" | "info" | "disconnect">;

type AnyFunction = (...args: unknown[]) => unknown;

/** Makes the object that stands for the module fs. */
export function moduleOf(fs: CtxFs): ModuleFs {
  const withCallbacks = fs.callbacks as unknown as Record<string, unknown>;
  const withPromises = fs as unknown as Record<string, unknown>;
  const module: Record<string, unknown> = { ...withCallbacks, promises: fs, info: () => fs.info(), disconnect: () => fs.disconnect() };
  for (const [name, called] of Object.entries(withCallbacks)) {
    const promised = withPromises[name];
    if (name === "watch" || typeof called !== "function" || typeof promised !== "function") continue;
    module[name] = (...args: unknown[]) => ((typeof args.at(-1) === "function" ? called : promised) as AnyFunction)(...args);
  }
  return module as unknown as ModuleFs;
}
