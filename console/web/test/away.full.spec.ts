// Connections that break, servers that stop, and hidden pages.
import { expect, test, type Page } from "@playwright/test";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { startServer, type TestServer } from "./server";
import { show, signIn } from "./signin";

const files = { "a.txt": "one\n" };

async function withChange(server: TestServer): Promise<string> {
  const { contextId } = await server.openPanel("panels/away");
  await server.call("FsService/WriteFile", { contextId, path: "/app/a.txt", text: "two\n" });
  return contextId;
}

/** Runs a command in the background that counts until it is ended, and gives its ID. */
async function count(server: TestServer, contextId: string): Promise<string> {
  const script = "i=0; while :; do i=$((i+1)); echo count $i.; sleep 0.2; done";
  const { process } = await server.call<{ process: { processId: string } }>("ExecService/Start", { command: { contextId, argv: ["sh", "-c", script], onDisconnect: "ON_DISCONNECT_KEEP" } });
  return process.processId;
}

/** The numbers in the output that is shown. */
async function numbers(page: Page): Promise<number[]> {
  const text = await page.locator(".xterm-rows").innerText();
  return [...text.matchAll(/count (\d+)\./g)].map(([, n]) => Number(n));
}

/** Makes the page hidden, or visible again. Headless browsers show all pages, so the page gets the event from here. */
function see(page: Page, seen: boolean): Promise<void> {
  return page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, !seen);
}

/** Starts a proxy between a browser and a server, whose connections a test can cut. */
async function startRelay(to: string) {
  const { hostname, port } = new URL(to);
  const sockets = new Set<Socket>();
  let broken = false;
  const relay = createServer((from) => {
    const there = connect(Number(port), hostname);
    for (const [socket, other] of [[from, there], [there, from]] as const) {
      sockets.add(socket);
      socket.on("error", () => other.destroy()).on("close", () => { sockets.delete(socket); other.destroy(); });
      socket.pipe(other);
    }
    if (broken) from.destroy();
  });
  await once(relay.listen(0, "127.0.0.1"), "listening");
  const cut = (): void => {
    broken = true;
    for (const socket of sockets) socket.destroy();
  };
  return {
    proxy: { server: `http://127.0.0.1:${String((relay.address() as AddressInfo).port)}` },
    cut,
    mend: () => { broken = false; },
    stop: () => { cut(); relay.close(); },
  };
}

let server: TestServer;
let contextId: string;

test.beforeAll(async () => {
  server = await startServer({ repositories: { app: files } });
  contextId = await withChange(server);
});

test.afterAll(() => server.stop());

test("a hidden page has no streams open, and one that is seen again has missed nothing", async ({ page }) => {
  const id = await count(server, contextId);
  await signIn(page, server, `/contexts/${contextId}/processes/${id}`);
  await expect.poll(async () => (await numbers(page)).length).toBeGreaterThan(2);
  const ended = page.waitForEvent("requestfailed", (request) => request.url().endsWith("ExecService/FollowOutput"));
  await see(page, false);
  await ended;
  const before = (await numbers(page)).at(-1) ?? 0;
  const again = page.waitForRequest((request) => request.url().endsWith("ExecService/FollowOutput"));
  await see(page, true);
  await again;
  await expect.poll(async () => (await numbers(page)).at(-1)).toBeGreaterThan(before + 3);
  const shown = await numbers(page);
  expect(shown, "each line came once, in its order").toEqual(shown.map((_, i) => (shown[0] ?? 0) + i));

  await show(page, `/contexts/${contextId}/changes`);
  await expect(page.getByText("Hunk 1 of 1")).toBeVisible();
  await see(page, false);
  await server.ctxfs("approve", contextId, "/app/a.txt");
  await expect(page.getByText("○ 1 pending")).toBeVisible();
  await see(page, true);
  await expect(page.getByText("✓ 1 approved")).toBeVisible();
});

test("a broken connection is said, and the page continues where it was", async ({ browser }) => {
  const relay = await startRelay(server.url);
  const context = await browser.newContext({ proxy: relay.proxy });
  try {
    const page = await context.newPage();
    const id = await count(server, contextId);
    await signIn(page, server, `/contexts/${contextId}/processes/${id}`);
    await expect.poll(async () => (await numbers(page)).length).toBeGreaterThan(2);
    relay.cut();
    await expect(page.getByText("connection lost, trying again")).toBeVisible();
    const before = (await numbers(page)).at(-1) ?? 0;
    relay.mend();
    await expect.poll(async () => (await numbers(page)).at(-1)).toBeGreaterThan(before + 3);
    await expect(page.getByText("connection lost, trying again")).toHaveCount(0);
    const shown = await numbers(page);
    expect(shown, "each line came once, in its order").toEqual(shown.map((_, i) => (shown[0] ?? 0) + i));
  } finally {
    await context.close();
    relay.stop();
  }
});

test("a server that is gone is said, a decision that it did not take is taken back, and a new link leads back", async ({ page }) => {
  const own = await startServer({ repositories: { app: files } });
  try {
    const at = await withChange(own);
    await signIn(page, own, `/contexts/${at}/changes`);
    await expect(page.getByText("Hunk 1 of 1")).toBeVisible();
    const start = await own.leave();
    await expect(page.getByText("connection lost, trying again")).toBeVisible();
    await page.keyboard.press("a");
    await expect(page.getByRole("alert").filter({ hasText: "Not decided" })).toContainText("The server does not answer");
    await expect(page.getByText("○ 1 pending")).toBeVisible();
    await start();
    await expect(page.getByRole("heading", { name: "Your session has ended" }), "tokens live as long as the server").toBeVisible();
    await page.goto(await own.consoleLink());
    await show(page, `/contexts/${at}/changes`);
    await expect(page.getByText("Hunk 1 of 1")).toBeVisible();
    await page.keyboard.press("a");
    await expect(page.getByText("✓ 1 approved")).toBeVisible();
  } finally {
    await own.stop();
  }
});
