import { expect, test, type Page } from "@playwright/test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { startServer, type TestServer } from "./server";
import { signIn } from "./signin";

const context = "ctx_panels~run";
const processes = `/contexts/${context}/processes`;
let server: TestServer;

test.beforeAll(async () => {
  server = await startServer({ repositories: { app: { "index.html": "<!doctype html><title>App</title><h1>Shown in a frame</h1>\n", "a.txt": "a\n" } } });
  await server.openPanel("panels/run");
});

test.afterAll(() => server.stop());

/** What a person reads in the terminal. */
function screen(page: Page) {
  return page.locator(".xterm-rows");
}

/** The state of the process that is shown. */
function state(page: Page) {
  return page.locator(".process .badge");
}

/** Runs a command in the background, and gives its ID. */
async function start(script: string): Promise<string> {
  const { process } = await server.call<{ process: { processId: string } }>("ExecService/Start", { command: { contextId: context, argv: ["sh", "-c", script], onDisconnect: "ON_DISCONNECT_KEEP" } });
  return process.processId;
}

test("a command runs from a form, and its output comes live and as text", async ({ page }) => {
  const problems = await signIn(page, server, processes);
  await page.getByRole("button", { name: "Run a command…" }).click();
  await page.getByRole("textbox", { name: "Command" }).fill("printf '\\033[38;2;200;30;30mred <b>text</b>\\033[0m\\n'; echo wrong >&2; while [ ! -e go ]; do sleep 0.1; done; echo done; exit 3");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await expect(screen(page)).toContainText("red <b>text</b>");
  await expect(screen(page)).toContainText("wrong");
  expect(await page.locator(".xterm-rows b").count()).toBe(0);
  const red = await page.locator(".xterm-rows span", { hasText: "red" }).evaluate((span) => (span as HTMLElement).style.color);
  expect(red, "the cell has the colour that the command gave").not.toBe("");
  await expect(state(page)).toContainText("running");
  await server.call("FsService/WriteFile", { contextId: context, path: "/go", text: "" });
  await expect(screen(page)).toContainText("done");
  await expect(state(page)).toContainText("exited with 3");
  await page.getByLabel("Show").selectOption("stderr");
  await expect(screen(page)).toContainText("wrong");
  await expect(screen(page)).not.toContainText("text");
  await page.getByText("Details and limits").click();
  await expect(page.getByRole("row", { name: /open files/ })).toContainText("4,096");
  expect(problems).toEqual([]);
});

test("a process gets a signal, is killed, and is removed, each after a question", { tag: "@full" }, async ({ page }) => {
  // dash loses a signal that comes while it forks: it waits for the first one without.
  const ready = await start("trap 'echo got it' USR1; sleep 1000 & echo ready; wait; while :; do sleep 0.1; done");
  await signIn(page, server, `${processes}/${ready}`);
  await expect(screen(page)).toContainText("ready");
  await page.getByLabel("Signal").selectOption("SIGUSR1");
  await page.getByRole("button", { name: "Send…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Send", exact: true }).click();
  await expect(screen(page)).toContainText("got it");
  await page.getByRole("button", { name: "Kill…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Kill", exact: true }).click();
  await expect(state(page)).toContainText("killed");
  await page.getByRole("button", { name: "Remove…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).click();
  await expect(page.getByRole("heading", { name: "Processes", exact: true })).toBeVisible();
  await expect(page.getByText(ready)).toHaveCount(0);
});

test("a terminal takes what is typed, by keyboard alone, and comes back after a reload", { tag: "@full" }, async ({ page }) => {
  const problems = await signIn(page, server, processes);
  await page.getByRole("button", { name: "New terminal" }).focus();
  await page.keyboard.press("Enter");
  await expect(screen(page)).toContainText("$");
  await page.keyboard.type("sh -c 'echo slee${x}ping; exec sleep 1000'\n");
  await expect(screen(page)).toContainText("sleeping"); // Ctrl-C reaches the command and not the shell
  await page.keyboard.press("Control+c");
  await expect(screen(page)).toContainText("^C");
  await page.keyboard.type("echo $((6*7)) wo${x}rds; tput cols >cols\n");
  await expect(screen(page)).toContainText("42 words");
  const cols = join(server.folder(context), "cols");
  await expect.poll(() => readFile(cols, "utf8").catch(() => "")).toMatch(/^\d+\n$/);
  expect(Number(await readFile(cols, "utf8"))).toBeGreaterThan(80); // as wide as the page, not as a terminal is by default
  await expect(page.getByRole("heading", { name: "shell" })).toBeVisible();
  await page.keyboard.press("Control+F6");
  await expect(page.getByRole("button", { name: "Screen reader mode" })).toBeFocused();
  await page.reload();
  await expect(screen(page)).toContainText("42 words");
  await page.keyboard.type("exit 5\n");
  await expect(state(page)).toContainText("exited with 5");
  expect(problems).toEqual([]);
});

test("a terminal takes what is pasted, and follows its size", { tag: "@full" }, async ({ page }) => {
  await signIn(page, server, processes);
  await page.getByRole("button", { name: "New terminal" }).click();
  await expect(screen(page)).toContainText("$");
  const text = `: ${"x".repeat(3000)}; echo pas"ted"`;
  await page.locator(".xterm-helper-textarea").evaluate((area, pasted) => {
    const data = new DataTransfer();
    data.setData("text/plain", pasted);
    area.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, text);
  await page.keyboard.press("Enter");
  await expect(screen(page)).toContainText("pasted");
  const id = /p-[a-z0-9]+/.exec(page.url())?.[0];
  const width = async (): Promise<number> => (await server.call<{ process: { pty: { cols: number } } }>("ExecService/GetProcess", { processId: id })).process.pty.cols;
  const wide = await width();
  await page.setViewportSize({ width: 700, height: 800 });
  await expect.poll(width).toBeLessThan(wide);
});

test("a site is opened, shown in a frame of its own origin, and closed", { tag: "@full" }, async ({ page }) => {
  const problems = await signIn(page, server, `/contexts/${context}/sites`);
  await page.getByRole("button", { name: "Open a site…" }).click();
  await page.getByRole("textbox", { name: "Folder" }).fill("app");
  await page.getByRole("button", { name: "Open", exact: true }).click();
  await expect(page.frameLocator("iframe").getByRole("heading", { name: "Shown in a frame" })).toBeVisible();
  expect(await page.locator("iframe").getAttribute("sandbox")).toContain("allow-scripts");
  await page.reload();
  await expect(page.getByText("This page did not open this one")).toBeVisible();
  await page.getByRole("button", { name: "Close…" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Close the site" }).click();
  await expect(page.getByRole("heading", { name: "No open sites" })).toBeVisible();
  expect(problems).toEqual([]);
});

test("activity shows the audit log live and filtered, and plots with their values as text", { tag: "@full" }, async ({ page }) => {
  const problems = await signIn(page, server, "/activity");
  const log = page.getByRole("region", { name: "Calls that change something" });
  await expect(log.getByRole("row", { name: /OpenPanel/ }).first()).toBeVisible();
  await server.call("FsService/WriteFile", { contextId: context, path: "/app/live.txt", text: "live\n" });
  await expect(log.getByText("/app/live.txt")).toBeVisible();
  await page.getByRole("combobox", { name: "Operation" }).fill("OpenPanel");
  await page.getByRole("button", { name: "Filter" }).click();
  await expect(log.getByText("/app/live.txt")).toHaveCount(0);
  await expect(log.getByRole("row", { name: /OpenPanel/ }).first()).toBeVisible();
  await page.getByLabel("Result").selectOption("failed");
  await expect(page.getByRole("heading", { name: "No entries" })).toBeVisible();
  for (const name of ["Operations per second", "Errors per second", "Latency", "Disk of contexts"]) {
    const plot = page.getByRole("figure", { name });
    await expect(plot.locator("canvas")).toBeVisible();
    await expect(plot.getByRole("table")).toContainText("Now");
  }
  await expect(page.getByRole("figure", { name: "Operations per second" }).getByRole("table")).toContainText("/s");
  expect(problems).toEqual([]);
});

test("a server without sites says how to get them", { tag: "@full" }, async ({ page }) => {
  const without = await startServer({ repositories: { app: { "a.txt": "a\n" } }, noSites: true });
  try {
    await without.openPanel("panels/run");
    await signIn(page, without, `/contexts/${context}/sites`);
    await expect(page.getByText("ctxfs serve --gateway")).toBeVisible();
  } finally {
    await without.stop();
  }
});

test("a link of the console that was used is refused, and ends the session of the first use", { tag: "@full" }, async ({ page, context: browser }) => {
  const link = await server.consoleLink();
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Contexts" })).toBeVisible();
  const thief = await browser.newPage();
  await thief.goto(link);
  await expect(thief.getByText("ctxfs console", { exact: false }).first()).toBeVisible();
  await expect(thief.getByRole("heading", { name: "Contexts" })).toHaveCount(0);
  await expect(page.getByRole("heading", { name: "Your session has ended" })).toBeVisible();
});

test("a link of the console that expired says how to get another", { tag: "@full" }, async ({ page }) => {
  const { url } = await server.call<{ url: string }>("ConsoleService/OpenConsole", { ttlMs: 1 });
  await page.goto(url);
  await expect(page.getByText(/expired/).first()).toBeVisible();
  await expect(page.getByText(/ctxfs console/).first()).toBeVisible();
});
