const entries: Readonly<Record<string, string>> = {
  "fs": "@ctxfs/client/fs", "node:fs": "@ctxfs/client/fs",
  "fs/promises": "@ctxfs/client/fs/promises", "node:fs/promises": "@ctxfs/client/fs/promises",
};

/** Node's modules that ctxfs gives. */
export const modules: readonly string[] = Object.keys(entries);

/** The entry of \@ctxfs/client that takes a module's place. */
export function entryOf(module: string): string | undefined {
  return entries[module];
}
