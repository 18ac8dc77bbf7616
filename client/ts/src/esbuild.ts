import type { Plugin } from "esbuild";
import { entryOf } from "./modules/names.js";

/** An esbuild plug-in that gives fs, node:fs, fs/promises and node:fs/promises by ctxfs. */
export function ctxfs(): Plugin {
  return {
    name: "ctxfs",
    setup(build) {
      build.onResolve({ filter: /^(node:)?fs(\/promises)?$/ }, async ({ path, kind, importer, resolveDir }) => {
        const entry = entryOf(path) ?? path;
        // A library may stand where it cannot see the program's packages.
        const own = await build.resolve(entry, { kind, importer, resolveDir: build.initialOptions.absWorkingDir ?? process.cwd() });
        return own.errors.length === 0 ? own : build.resolve(entry, { kind, importer, resolveDir });
      });
    },
  };
}

export default ctxfs;
