import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bundle } from "./bundles.js";
import { setStage, type Stage } from "./stage.js";


let stage: Stage;
let page: Page;
beforeAll(async () => {
  stage = await setStage();
  const [one, two, own] = await Promise.all(["one", "two", "own"].map((id) => stage.host.openPanel(`react/${id}`)));
  const url = stage.server.url;
  page = await stage.open(await bundle(stage.installed.dir, "react.tsx"), { url, one: one?.token, two: two?.token, ctxfs: { url, token: own?.token } });
});
afterAll(() => stage.stop());

interface Shown { shown: string[]; show: Record<string, () => void>; bad: () => void; outside: () => void }

async function show(which: "one" | "two" | "own"): Promise<void> {
  await page.evaluate((name) => { (globalThis as unknown as Shown).show[name]?.(); }, which);
  await page.getByText(`persist:ctx_react~${which}`).waitFor();
  await page.getByText("hello", { exact: true }).waitFor();
}

test("usePanelPartition is null, then the partition, and follows the provider's fs", async () => {
  await show("one");
  await show("two");
  await show("own");
  expect(await page.evaluate(() => (globalThis as unknown as Shown).shown)).toEqual([
    "loading", "persist:ctx_react~one", "loading", "persist:ctx_react~two", "loading", "persist:ctx_react~own",
  ]);
});

test("a failure to connect reaches the error boundary", async () => {
  await page.evaluate(() => { (globalThis as unknown as Shown).bad(); });
  expect(await page.locator("#failed").innerText()).toContain("ctxfs refused the token");
});

test("a component outside of any provider is told so", async () => {
  await page.evaluate(() => { (globalThis as unknown as Shown).outside(); });
  await page.getByText("no CtxfsProvider is around this component").waitFor();
});
