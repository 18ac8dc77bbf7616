import type { Plugin } from "vite";
import { entryOf, modules } from "./modules/names.js";

/** A Vite (and Rollup) plug-in that gives fs, node:fs, fs/promises and node:fs/promises by ctxfs. */
export function ctxfs(): Plugin {
  return {
    name: "ctxfs",
    enforce: "pre",
    config: () => ({
      resolve: { alias: modules.map((find) => ({ find: new RegExp(`^${find}$`), replacement: entryOf(find) ?? find })) },
    }),
  };
}

export default ctxfs;
