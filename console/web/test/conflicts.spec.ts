import { expect, test } from "@playwright/test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startServer, type TestServer } from "./server";
import { signIn } from "./signin";

let server: TestServer;

test.beforeAll(async () => {
  // Each test has a repository of its own, since its workspace changes.
  server = await startServer({
    repositories: {
      app: { "both.txt": "one\ntwo\nthree\n" }, sides: { "first.txt": "base\n", "second.txt": "base\n" }, drafts: { "a.txt": "one\ntwo\n", "crlf.txt": "one\r\ntwo\r\n" },
    },
  });
});

test.afterAll(() => server.stop());

test("a conflict is merged by hand, and the result is what the context holds", async ({ page }) => {
  const { contextId } = await server.openPanel("panels/conflict");
  await server.call("FsService/WriteFile", { contextId, path: "/app/both.txt", text: "one\npanel\nthree\n" });
  await writeFile(join(server.workspace, "app", "both.txt"), "one\nuser\nthree\n");
  await signIn(page, server, `/contexts/${contextId}/conflicts`);
  await page.getByRole("button", { name: "Rebase…" }).click();
  await page.getByRole("button", { name: "Rebase", exact: true }).click();
  await expect(page.getByRole("dialog")).toContainText("1 conflict");
  await page.getByRole("dialog").locator(".dialog-foot").getByRole("button", { name: "Close" }).click();
  await expect(page.getByRole("region", { name: "Workspace" })).toContainText("user");
  await expect(page.getByRole("region", { name: "Context" })).toContainText("panel");
  const resolve = page.getByRole("button", { name: "Resolve with the result" });
  await expect(resolve).toBeDisabled();
  await page.getByRole("button", { name: "Take both, conflict 1" }).click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.type("zero\n");
  await resolve.click();
  await expect(page.getByText("No conflicts")).toBeVisible();
  const read = await server.call<{ data: string }>("FsService/ReadFile", { contextId, path: "/app/both.txt" });
  expect(Buffer.from(read.data, "base64").toString()).toBe("zero\none\npanel\nuser\nthree\n");
});

test("a side of a conflict that changed meanwhile is not overwritten, and whole sides are taken by a button", { tag: "@full" }, async ({ page }) => {
  const { contextId } = await server.openPanel("panels/sides");
  const texts = ["first.txt", "second.txt"];
  const write = (name: string, text: string) => server.call("FsService/WriteFile", { contextId, path: `/sides/${name}`, text });
  const read = async (name: string) => Buffer.from((await server.call<{ data: string }>("FsService/ReadFile", { contextId, path: `/sides/${name}` })).data, "base64").toString();
  for (const name of texts) {
    await write(name, "panel\n");
    await writeFile(join(server.workspace, "sides", name), "user\n");
  }
  await server.call("ReviewService/Rebase", { contextId, onConflict: "ON_CONFLICT_RECORD" });
  await signIn(page, server, `/contexts/${contextId}/conflicts`);
  await expect(page.getByRole("heading", { name: "sides/first.txt" })).toBeVisible();
  await page.getByRole("button", { name: "Take context, conflict 1" }).click();
  await write("first.txt", "panel, newer\n");
  await page.getByRole("button", { name: "Resolve with the result" }).click();
  await expect(page.getByRole("alert")).toContainText("moved meanwhile");
  await expect(page.getByText("The panel changed the file since the conflict was recorded")).toBeVisible();
  expect(await read("first.txt")).toBe("panel, newer\n");
  await page.getByLabel("Start from").selectOption("now");
  await expect(page.getByRole("textbox", { name: "Result: sides/first.txt" })).toContainText("panel, newer");
  await page.getByRole("button", { name: "Resolve with the result" }).click();
  await expect(page.getByRole("heading", { name: "sides/second.txt" })).toBeVisible();
  expect(await read("first.txt")).toBe("panel, newer\n");
  await page.getByRole("button", { name: "Take the workspace’s" }).click();
  await expect(page.getByText("No conflicts")).toBeVisible();
  expect(await read("second.txt")).toBe("user\n");
});

test("what was merged by hand is what Resolve sends, also after another conflict was looked at, and with CRLF", { tag: "@full" }, async ({ page }) => {
  const { contextId } = await server.openPanel("panels/drafts");
  for (const [name, eol] of [["a.txt", "\n"], ["crlf.txt", "\r\n"]] as const) {
    await server.call("FsService/WriteFile", { contextId, path: `/drafts/${name}`, text: `one${eol}panel${eol}` });
    await writeFile(join(server.workspace, "drafts", name), `one${eol}user${eol}`);
  }
  await server.call("ReviewService/Rebase", { contextId, onConflict: "ON_CONFLICT_RECORD" });
  const read = async (name: string) => Buffer.from((await server.call<{ data: string }>("FsService/ReadFile", { contextId, path: `/drafts/${name}` })).data, "base64").toString();
  await signIn(page, server, `/contexts/${contextId}/conflicts`);
  const resolve = page.getByRole("button", { name: "Resolve with the result" });
  const list = page.getByRole("navigation", { name: "Conflicts" });
  await page.getByRole("button", { name: "Take both, conflict 1" }).click();
  await expect(resolve).toBeEnabled();
  await list.getByRole("button", { name: /crlf/ }).click();
  await expect(page.getByRole("heading", { name: "drafts/crlf.txt" })).toBeVisible();
  await expect(page.getByText("1 conflict left")).toBeVisible();
  await expect(resolve).toBeDisabled();
  await list.getByRole("button", { name: /a\.txt/ }).click();
  await expect(page.getByRole("heading", { name: "drafts/a.txt" })).toBeVisible();
  await expect(page.getByRole("textbox", { name: "Result: drafts/a.txt" })).toContainText("panel");
  await resolve.click();
  await expect(page.getByRole("heading", { name: "drafts/crlf.txt" })).toBeVisible();
  expect(await read("a.txt")).toBe("one\npanel\nuser\n");
  await server.call("FsService/WriteFile", { contextId, path: "/drafts/crlf.txt", text: "newer\r\n" });
  await page.getByRole("button", { name: "Take the workspace’s" }).click();
  await expect(page.getByRole("alert"), "a whole side overwrites nothing that was not seen").toContainText("moved meanwhile");
  expect(await read("crlf.txt")).toBe("newer\r\n");
  await page.getByRole("button", { name: "Take both, conflict 1" }).click();
  await resolve.click();
  await expect(page.getByText("No conflicts")).toBeVisible();
  expect(await read("crlf.txt")).toBe("one\r\npanel\r\nuser\r\n");
});
