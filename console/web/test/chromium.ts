import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { env } from "node:process";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** The flags that the tests start Chromium with. */
export const flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

/** The Chromium that CHROMIUM names, or that is on PATH. Without one the tests fail, and say how to get it. */
export function chromiumPath(): string {
  const named = env.CHROMIUM;
  if (named) return named;
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
