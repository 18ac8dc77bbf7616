import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { env } from "node:process";
import { chromium, type Browser } from "playwright-core";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

/** Starts the Chromium that CHROMIUM names, or that is on PATH. Without one the tests fail, and say how to get it. */
export function startChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: env.CHROMIUM ?? found(), args: flags, headless: true });
}

function found(): string {
  const paths = (env.PATH ?? "").split(delimiter).flatMap((dir) => names.map((name) => join(dir, name)));
  const path = paths.find(isProgram);
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
