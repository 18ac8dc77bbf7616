import { env } from "node:process";
import { defineConfig } from "@playwright/test";
import { chromiumPath, flags } from "./test/chromium";

// The tests share a machine with others: what is expected to happen has time to.
export default defineConfig({
  testDir: "test",
  testMatch: env.CONSOLE_SCREENSHOTS ? "screenshots.ts" : "*.spec.ts",
  globalSetup: "./test/build.ts",
  fullyParallel: true,
  workers: 2,
  reporter: "list",
  timeout: 300_000,
  expect: { timeout: 60_000 },
  use: { launchOptions: { executablePath: chromiumPath(), args: env.CONSOLE_SCREENSHOTS ? [...flags, "--disable-lcd-text"] : flags }, viewport: { width: 1280, height: 800 } },
});
