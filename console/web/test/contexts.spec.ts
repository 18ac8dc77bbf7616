import { expect, test, type Page } from "@playwright/test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startServer, type TestServer } from "./server";

let server: TestServer;

test.beforeAll(async () => {
  server = await startServer({
    repositories: {
      app: { "main.go": "package main\n\nfunc main() {}\n", "README.md": "# app\n", "src/deep/note.txt": "deep\n", "numbers.txt": numbers(300_000), "page.html": "<img src=x onerror=document.title='owned'>\n" },
    },
  });
  await writeFile(join(server.workspace, "app", "dot.png"), png());
  await writeFile(join(server.workspace, "app", "data.bin"), Buffer.from([0, 1, 2, 0x41]));
  for (const panel of ["panels/ada", "panels/bob", "panels/cyd"]) await server.openPanel(panel);
  await server.call("FsService/WriteFile", { contextId: "ctx_panels~bob", path: "/app/README.md", text: "# app\n\nBob was here.\n" });
});

test.afterAll(() => server.stop());

async function signIn(page: Page): Promise<void> {
  await page.goto(await server.consoleLink());
  await expect(page.getByRole("heading", { name: "Contexts" })).toBeVisible();
}

test("the list shows panel, state, changes and size, filters, and sorts", async ({ page }) => {
  await signIn(page);
  const bob = page.getByRole("row", { name: /ctx_panels~bob/ });
  await expect(bob).toContainText("panels/bob");
  await expect(bob).toContainText("Ready");
  await expect(bob).toContainText("1 change");
  await expect(bob).toContainText("MiB");
  await page.getByRole("button", { name: "Context", exact: true }).click();
  await expect(page.getByRole("rowheader").or(page.locator("tbody a.context-link"))).toHaveText(["ctx_panels~ada", "ctx_panels~bob", "ctx_panels~cyd"]);
  await expect(page.getByRole("columnheader", { name: "Context" })).toHaveAttribute("aria-sort", "ascending");
  await page.getByRole("button", { name: "Context", exact: true }).click();
  await expect(page.locator("tbody a.context-link")).toHaveText(["ctx_panels~cyd", "ctx_panels~bob", "ctx_panels~ada"]);
  await page.getByRole("searchbox").fill("ready cyd");
  await expect(page.locator("tbody a.context-link")).toHaveText(["ctx_panels~cyd"]);
  await page.getByRole("searchbox").fill("nothing");
  await expect(page.getByText("No context matches")).toBeVisible();
});

test("a context that opens later appears by itself", { tag: "@full" }, async ({ page }) => {
  await signIn(page);
  await server.openPanel("panels/late");
  await expect(page.getByRole("link", { name: "ctx_panels~late" })).toBeVisible();
});

test("a file is found and read by keyboard alone", { tag: "@full" }, async ({ page }) => {
  await signIn(page);
  await expect(page.locator("tbody tr").first()).toBeVisible(); // the list has the keys
  await page.keyboard.press("/");
  await page.keyboard.type("ada");
  await expect(page.locator("tbody tr")).toHaveCount(1);
  await page.keyboard.press("Tab");
  while (!(await page.evaluate(() => document.activeElement?.classList.contains("context-link")))) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "Files", exact: true }).waitFor();
  await page.keyboard.press("1");
  const tree = page.getByRole("tree", { name: "Files" });
  await expect(tree.getByRole("treeitem", { name: "app" })).toBeVisible();
  await page.keyboard.press("t");
  await expect(tree).toBeFocused();
  await page.keyboard.press("ArrowRight");
  await expect(tree.getByRole("treeitem", { name: "main.go" })).toBeVisible();
  await page.keyboard.type("src");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await expect(tree.getByRole("treeitem", { name: "deep" })).toBeVisible();
  await page.keyboard.type("deep");
  await page.keyboard.press("Enter");
  await expect(tree.getByRole("treeitem", { name: "note.txt" })).toBeVisible();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("textbox", { name: "Content of /app/src/deep/note.txt" })).toContainText("deep");
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Keys" })).toContainText("Go to the tree");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(tree).toBeFocused();
});

const shown: [file: string, expected: string][] = [
  ["main.go", "package main"],
  ["page.html", "<img src=x onerror=document.title='owned'>"],
  ["numbers.txt", "The first 1 MiB of 1.9 MiB is shown."],
  ["data.bin", "00000000  00 01 02 41"],
];

for (const [file, expected] of shown) {
  test(`the viewer shows ${file}`, { tag: "@full" }, async ({ page }) => {
    await signIn(page);
    await page.goto(`${server.url}/console/#/contexts/ctx_panels~ada/files/app/${file}`);
    await expect(page.getByRole("region", { name: `/app/${file}` }).first()).toContainText(expected);
    await expect(page.getByRole("treeitem", { name: file })).toHaveAttribute("aria-selected", "true");
    await expect(page).toHaveTitle(/^Files/);
  });
}

test("the viewer shows an image", { tag: "@full" }, async ({ page }) => {
  await signIn(page);
  await page.goto(`${server.url}/console/#/contexts/ctx_panels~ada/files/app/dot.png`);
  const image = page.getByRole("img", { name: "The image /app/dot.png" });
  await expect(image).toBeVisible();
  await expect.poll(() => image.evaluate((img: HTMLImageElement) => img.naturalWidth)).toBe(1);
});

test("a file and a context that are gone are said to be", { tag: "@full" }, async ({ page }) => {
  await signIn(page);
  await page.goto(`${server.url}/console/#/contexts/ctx_panels~ada/files/app/none.txt`);
  await expect(page.getByRole("alert")).toContainText("ENOENT");
  await page.goto(`${server.url}/console/#/contexts/ctx_none/files`);
  await expect(page.getByText("There is no such context")).toBeVisible();
});

test("a person who signs out has no way back without a new link", { tag: "@full" }, async ({ page }) => {
  await signIn(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("heading", { name: "You are signed out" })).toBeVisible();
  await page.reload();
  await expect(page.getByRole("heading", { name: "Sign in to ctxfs" })).toBeVisible();
  await page.goto(await server.consoleLink());
  await expect(page.getByRole("heading", { name: "Contexts" })).toBeVisible();
});

test("a token that ended on the server signs the page out", { tag: "@full" }, async ({ page }) => {
  await signIn(page);
  await server.ctxfs("console", "--end");
  await expect(page.getByRole("heading", { name: "Your session has ended" })).toBeVisible();
  await expect(page.getByText("ctxfs console", { exact: true })).toBeVisible();
});

test("the colours are the person's choice", { tag: "@full" }, async ({ page }) => {
  await page.emulateMedia({ colorScheme: "light" });
  await signIn(page);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByRole("button", { name: /^Colours: as the system/ }).click();
  await page.getByRole("button", { name: /^Colours: light/ }).click();
  expect(await background()).not.toBe(light);
  await page.reload();
  await expect(page.getByRole("button", { name: /^Colours: dark/ })).toBeVisible();
  expect(await background()).not.toBe(light);
});

function numbers(to: number): string {
  return Array.from({ length: to }, (_, i) => `${String(i + 1)}\n`).join("");
}

/** Makes a PNG of one point. */
function png(): Buffer {
  return Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
}
