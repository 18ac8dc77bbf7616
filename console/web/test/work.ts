import type { Page } from "@playwright/test";

/** Begins to measure the CPU time of the page's thread. It returns a function that reads the ms since. */
export async function workOf(page: Page): Promise<() => Promise<number>> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const read = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration")?.value ?? NaN;
  const from = await read();
  return async () => ((await read()) - from) * 1000;
}
