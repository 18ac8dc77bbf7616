// Every view and every dialog passes axe, in light and dark, on a wide page and on a phone, and each dialog gives the focus back.
import AxeBuilder from "@axe-core/playwright";
import { expect, test, type Locator, type Page } from "@playwright/test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startServer, type TestServer } from "./server";
import { show, signIn } from "./signin";

const wide = { width: 1280, height: 800 };
const phone = { width: 390, height: 760 };
let server: TestServer;

test.beforeAll(async () => {
  const lines = Array.from({ length: 60 }, (_, i) => `const line${String(i)} = ${String(i)}; // a line`).join("\n");
  server = await startServer({ repositories: { app: { "a.ts": lines, "b.go": "package b\n\nfunc B() int { return 1 }\n", "both.txt": "one\ntwo\nthree\n", "index.html": "<!doctype html><html lang=en><title>App</title><h1>App</h1>\n" } } });
  const { contextId } = await server.openPanel("panels/axe");
  const write = (path: string, text: string) => server.call("FsService/WriteFile", { contextId, path, text });
  await write("/app/a.ts", lines.replace("= 10;", "= 'ten';").replace("= 40;", "= 'forty';"));
  await write("/app/b.go", "package b\n\nfunc B() int { return 2 }\n");
  await server.call("GitService/Stage", { contextId, repo: "/app", files: ["/app/b.go"], branch: "agent/two", message: "Return 2" });
  await server.call("ReviewService/Apply", { contextId, approve: true, selection: { changes: { changes: [{ path: "/app/b.go" }] } } });
  await write("/app/both.txt", "one\npanel\nthree\n");
  await writeFile(join(server.workspace, "app", "both.txt"), "one\nuser\nthree\n");
  await server.call("ReviewService/Rebase", { contextId, onConflict: "ON_CONFLICT_RECORD" });
  await server.call("ReviewService/SubmitReview", { contextId, title: "Words for numbers", message: "Two of them." });
});

test.afterAll(() => server.stop());

const context = "/contexts/ctx_panels~axe";

const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"];

/**
 * What axe cannot decide on: the contrast of signs such as ✕ and of what lies under something else, and whether a sign that is a button's text is a
 * part of its name.
 */
const undecided = ["color-contrast", "label-content-name-mismatch"];

/** Checks what is shown by all rules, on both widths and in both colours. */
async function passes(page: Page, what: string): Promise<void> {
  for (const [viewport, colorScheme] of [[wide, "light"], [wide, "dark"], [phone, "dark"], [phone, "light"]] as const) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    await expect(page.locator(".spinner")).toHaveCount(0);
    const { violations, incomplete } = await new AxeBuilder({ page }).withTags(rules).analyze();
    const told = ({ id, nodes }: (typeof violations)[number]) => `${what}, ${colorScheme}, ${String(viewport.width)}: ${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary ?? ""}`).join("\n")}`;
    expect([...violations, ...incomplete.filter(({ id }) => !undecided.includes(id))].map(told)).toEqual([]);
  }
  await page.setViewportSize(wide);
}

async function view(page: Page, route: string, ready: string): Promise<void> {
  await show(page, route);
  await expect(page.getByText(ready).first()).toBeVisible();
  await passes(page, route);
}

/** Opens a dialog by the keyboard, checks it, and closes it. */
async function dialog(page: Page, opener: Locator, prepare: (dialog: Locator) => Promise<void> = () => Promise.resolve(), end: (dialog: Locator) => Promise<void> = () => Promise.resolve()): Promise<void> {
  await opener.focus();
  await page.keyboard.press("Enter");
  const opened = page.getByRole("dialog");
  await expect(opened).toBeVisible();
  await prepare(opened);
  await passes(page, await opened.getByRole("heading").first().innerText());
  await end(opened);
  await page.keyboard.press("Escape");
  await expect(opened).toHaveCount(0);
  await expect(opener).toBeFocused();
}

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });

test("contexts, files, and the page of who is not signed in", async ({ page }) => {
  await signIn(page, server);
  await view(page, "/contexts", "changes");
  await dialog(page, button(page, "Keys"));
  await view(page, `${context}/files/app/a.ts`, "const");
  await button(page, "Sign out").click();
  await expect(page.getByRole("heading", { name: "You are signed out" })).toBeVisible();
  await passes(page, "signed out");
});

test("changes and their dialogs", async ({ page }) => {
  await signIn(page, server);
  await view(page, `${context}/changes/${encodeURIComponent("/app/a.ts")}`, "Hunk 1 of 2");
  await page.keyboard.press("a");
  await page.keyboard.press("r");
  await expect(page.getByText("✕ rejected").first()).toBeVisible();
  await passes(page, "decided");
  await page.keyboard.press("v");
  await expect(page.locator(".rv-form-unified")).toBeVisible();
  await passes(page, "unified");
  await dialog(page, button(page, "Remark"));
  await dialog(page, button(page, "Approve all…"));
  await dialog(page, button(page, "Apply…"), async (apply) => {
    await apply.getByLabel("The files, and a commit of").check();
    await apply.getByLabel("Commit message").fill("Words");
    await apply.getByRole("button", { name: "Add a check" }).click();
    await apply.getByRole("textbox", { name: "Check 1" }).fill("echo it runs; sleep 1000");
    await apply.getByRole("button", { name: "Apply", exact: true }).click();
    await expect(apply.getByText("… running")).toBeVisible();
    await expect(apply.getByLabel(/^Output of/)).toContainText("it runs");
  }, async (apply) => {
    // The first Escape stops the check, and the dialog shows how that ended.
    await page.keyboard.press("Escape");
    await expect(apply.getByRole("alert")).toContainText("You stopped it");
  });
});

test("conflicts, the journal, and staged commits", async ({ page }) => {
  await signIn(page, server);
  await view(page, `${context}/conflicts`, "Conflict 1 of 1");
  await dialog(page, button(page, "Rebase…"), async (rebase) => {
    await rebase.getByRole("button", { name: "Dry run" }).click();
    await expect(rebase.getByText("Dry run").last()).toBeVisible();
  });
  await view(page, `${context}/journal`, "Apply");
  await dialog(page, page.getByRole("button", { name: /^Undo entry/ }).last(), (undo) => expect(undo.getByRole("region", { name: "What it will do" })).toBeVisible());
  await view(page, `${context}/staged`, "return 2");
  await dialog(page, button(page, "Push…"), async (push) => {
    await push.getByRole("button", { name: "Push", exact: true }).click();
    await expect(push.getByRole("alert")).toBeVisible();
  });
  await dialog(page, button(page, "Discard…"));
});

test("processes, terminals, sites, and activity", async ({ page }) => {
  const { process } = await server.call<{ process: { processId: string } }>("ExecService/Start", { command: { contextId: "ctx_panels~axe", argv: ["sh", "-c", "echo text; echo more >&2"], onDisconnect: "ON_DISCONNECT_KEEP" } });
  await signIn(page, server);
  await view(page, "/processes", "Processes");
  await view(page, `${context}/processes/${process.processId}`, "exited with 0");
  await view(page, `${context}/processes`, "Processes");
  await dialog(page, button(page, "Run a command…"));
  await button(page, "New terminal").click();
  await expect(page.locator(".xterm-rows")).toContainText("$");
  await page.keyboard.type("echo wo${x}rds\n");
  await expect(page.locator(".xterm-rows")).toContainText("words");
  await passes(page, "live terminal");
  await dialog(page, button(page, "Kill…"));
  await view(page, `${context}/sites`, "Sites");
  await dialog(page, button(page, "Open a site…"));
  await view(page, "/activity", "Running calls");
});
