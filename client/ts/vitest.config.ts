import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { "#platform": fileURLToPath(new URL("src/platform/node.ts", import.meta.url)) } },
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/setup.ts"],
    // These only stop a hang: a machine that is busy may take a minute for what takes a moment elsewhere.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    pool: "forks",
    maxWorkers: 2,
    minWorkers: 1,
  },
});
