import { env } from "node:process";
import { expect, test, type Browser } from "@playwright/test";
import { startServer, type TestServer } from "./server";
import { workOf } from "./work";

const contexts = 200;
const runs = 5;
/** make bench-console sets it: nothing else runs. */
const quiet = env.CTXFS_QUIET === "1";

/** What one opening of the console took, in ms from the start of the navigation. */
interface Opening {
  /** Until the list was painted. */
  painted: number;
  /** Until all rows in sight had their changes, drift and sizes. */
  complete: number;
  /** CPU time of the page's thread until then. */
  work: number;
}

/**
 * Opens the console as a person does: by a new link, in a browser profile with an empty cache. The time includes loading the page, its
 * sign-in, the call that lists the contexts, and painting the rows that are in sight. The page itself marks when they were painted. The rows below,
 * and changes, drift and sizes, which the server computes from the folders, come after that.
 */
async function open(browser: Browser, server: TestServer): Promise<Opening> {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const work = await workOf(page);
    await page.goto(await server.consoleLink(), { waitUntil: "commit" });
    await expect(page.locator("tbody tr")).toHaveCount(contexts);
    const times = await page.evaluate(() => new Promise<Omit<Opening, "work">>((resolve) => {
      const inSight = (row: Element): boolean => row.getBoundingClientRect().top < innerHeight;
      const look = (): void => {
        const [mark] = performance.getEntriesByName("contexts-painted");
        const rows = [...document.querySelectorAll("tbody tr")].filter(inSight);
        const isComplete = rows.every((row) => /change|none/.test(row.textContent) && /iB|\d B/.test(row.textContent));
        // clock: make bench-console judges it
        if (mark && isComplete) resolve({ painted: mark.startTime, complete: performance.now() });
        else requestAnimationFrame(look);
      };
      look();
    }));
    return { ...times, work: await work() };
  } finally {
    await context.close();
  }
}

test(`the first view lists ${contexts} contexts`, async ({ browser }) => {
  const server = await startServer({ repositories: { app: { "a.txt": "a\n", "b.txt": "b\n" } } });
  try {
    for (let first = 0; first < contexts; first += 20) await Promise.all(Array.from({ length: 20 }, (_, i) => openPanel(server, first + i)));
    const openings: Opening[] = [];
    for (let i = 0; i < runs; i++) openings.push(await open(browser, server));
    const painted = openings.map((one) => one.painted).sort((a, b) => a - b);
    const shown = openings.map((one) => `${one.painted.toFixed(0)} ms (with changes, drift and sizes ${one.complete.toFixed(0)} ms; the page's thread works ${one.work.toFixed(0)} ms)`).join(", ");
    console.log(`first view with ${contexts} contexts: ${shown}`);
    expect(Math.min(...openings.map((one) => one.work)), "ms of CPU that the page's thread takes, which other programs hardly change").toBeLessThan(1500);
    if (quiet) expect(painted[0], "the best run").toBeLessThan(1000);
  } finally {
    await server.stop();
  }
});

/** Opens a panel that is like no other one: with labels, and with changes of its own. */
async function openPanel(server: TestServer, i: number): Promise<void> {
  const { contextId } = await server.call<{ contextId: string }>("PanelService/OpenPanel", { panelId: `panels/many-${String(i)}`, labels: { task: String(1000 + i), ...(i % 3 === 0 ? { owner: "ada" } : {}) } });
  if (i % 2 === 0) await server.call("FsService/WriteFile", { contextId, path: "/app/a.txt", text: `a of ${String(i)}\n` });
  if (i % 5 === 0) await server.call("FsService/WriteFile", { contextId, path: `/app/new-${String(i)}.txt`, text: "new\n".repeat(i) });
}
