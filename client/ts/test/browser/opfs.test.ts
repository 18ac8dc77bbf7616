import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bundle } from "./bundles.js";
import { setStage, type Stage } from "./stage.js";


let stage: Stage;
beforeAll(async () => { stage = await setStage(); });
afterAll(async () => { await stage.stop(); });

const reported = (page: Page): Promise<unknown> => page.evaluate(() => (globalThis as unknown as { reported: Promise<unknown> }).reported);

test("a workspace in the browser's storage is there in the next page, and in another one at the same time", async () => {
  const script = await bundle(stage.installed.dir, "opfs.ts");
  const context = await stage.newContext();

  /** Opens a page of the one browser profile. */
  const next = async (step: string): Promise<Page> => {
    const page = await context.newPage();
    const query = new URLSearchParams({ script, settings: JSON.stringify({ step }) });
    await page.goto(`${stage.origin}/page?${query.toString()}`);
    return page;
  };
  const first = await next("write");
  expect(await reported(first)).toEqual(["link", "moved", "other"]);
  const second = await next("second");
  expect(await reported(second)).toBe("opened");
  await second.close();
  await first.close(); // without disconnect, as when a tab is closed

  const read = await next("read");
  expect(await reported(read)).toEqual({
    names: ["link", "moved", "other"], text: "second", link: "dir/a.txt", mode: 0o640, nlink: 2, mtimeMs: 1500, sum: 5_000_000, sevens: true, tail: 4,
  });
  await read.close();
  const stored = await next("stored");
  expect(await reported(stored), "the content of the one file with content").toBe(1);
  await context.close();
});
