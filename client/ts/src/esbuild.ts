import type { Plugin } from "esbuild";
import { entryOf } from "./modules/names.js";

/** An esbuild plug-in that gives fs, node:fs, fs/promises and node:fs/promises by ctxfs. */
export function ctxfs(): Plugin {
  return {
    name: "ctxfs",
    setup(build) {
      build.onResolve({ filter: /^(node:)?fs(\/promises)?$/ }, ({ path, kind, importer }) => {
        const from = build.initialOptions.absWorkingDir ?? process.cwd();
        return build.resolve(entryOf(path) ?? path, { kind, importer, resolveDir: from });
      });
    },
  };
}

export default ctxfs;
