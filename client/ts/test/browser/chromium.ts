import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { env } from "node:process";
import { chromium, type Browser, type BrowserContext } from "playwright-core";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

/** How long a page may take for one thing, in ms: it only stops what hangs. */
const patience = 60_000;

/** Starts the Chromium that CHROMIUM names, or that is on PATH. Without one the tests fail, and say how to get it. */
export async function startChromium(): Promise<Browser> {
  const browser = await chromium.launch({ executablePath: env.CHROMIUM ?? found(), args: flags, headless: true, timeout: patience });
  browser.on("context", (context) => { context.setDefaultTimeout(patience); });
  return browser;
}

// The last of these flags counts. Playwright's own switches the partitions of storage off, which browsers have.
const partitions = "--disable-features=HttpsUpgrades,MediaRouter,DestroyProfileOnBrowserClose";

/**
 * Starts the same Chromium with a profile of its own in a directory. What startChromium gives has only private windows, in which a frame of
 * another site may store nothing.
 */
export async function startProfile(dir: string, ...more: string[]): Promise<BrowserContext> {
  const context = await chromium.launchPersistentContext(dir, { executablePath: env.CHROMIUM ?? found(), args: [...flags, partitions, ...more], headless: true, timeout: patience });
  context.setDefaultTimeout(patience);
  return context;
}

/** The first program with one of these names on PATH. */
export function onPath(...programs: string[]): string | undefined {
  return (env.PATH ?? "").split(delimiter).flatMap((dir) => programs.map((name) => join(dir, name))).find(isProgram);
}

function found(): string {
  const path = onPath(...names);
  if (path === undefined) throw new Error("no Chromium is on PATH: install it (Debian: apt-get install chromium), or name it by CHROMIUM");
  return path;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
