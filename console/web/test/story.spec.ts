// The story of a review, twice: by mouse, and by keyboard alone.
import { expect, test, type Page } from "@playwright/test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { collectWith, startServer, type Panel, type TestServer } from "./server";
import { signIn } from "./signin";

const lines = (change: Readonly<Record<number, string>> = {}) => Array.from({ length: 90 }, (_, i) => `${change[i + 1] ?? `line ${String(i + 1)}`}\n`).join("");
const base = lines();
const edited = lines({ 10: "ten", 40: "forty", 70: "seventy" });
const approved = lines({ 10: "ten", 40: "forty" });
const remark = "Line 70 should stay.";

/** What a person does with the page. */
interface Hand {
  openChanges(page: Page, contextId: string): Promise<void>;
  decide(page: Page): Promise<void>;
  /** Applies to a branch, and stays in the dialog. */
  apply(page: Page, branch: string, message: string): Promise<void>;
  openJournal(page: Page): Promise<void>;
  /** Undoes the newest entry with its commit, and closes the dialog. */
  undo(page: Page): Promise<void>;
  backToChanges(page: Page): Promise<void>;
}

const mouse: Hand = {
  async openChanges(page, contextId) {
    await page.getByRole("link", { name: contextId, exact: true }).click();
  },
  async decide(page) {
    await page.getByRole("button", { name: "Approve: hunk 1 of 3" }).click();
    await page.getByRole("button", { name: "Approve: hunk 2 of 3" }).click();
    await page.getByRole("button", { name: "Remark: hunk 3 of 3" }).click();
    await page.getByLabel("Remark", { exact: true }).fill(remark);
    await page.getByRole("button", { name: "Reject with the remark" }).click();
  },
  async apply(page, branch, message) {
    await page.getByRole("button", { name: "Apply…" }).click();
    await page.getByLabel("Only a commit, to another branch").check();
    await page.getByLabel("Branch", { exact: true }).fill(branch);
    await page.getByLabel("Commit message").fill(message);
    await page.getByRole("button", { name: "Apply", exact: true }).click();
  },
  async openJournal(page) {
    await page.getByRole("dialog").getByRole("link", { name: "journal" }).click();
  },
  async undo(page) {
    await page.getByRole("button", { name: /^Undo entry/ }).first().click();
    await page.getByLabel("Also take its commits back").check();
    await page.getByRole("dialog").getByRole("button", { name: "Undo", exact: true }).click();
    await expect(page.getByText(/Undone, as entry/)).toBeVisible();
    await page.getByRole("dialog").locator(".dialog-foot").getByRole("button", { name: "Close" }).click();
  },
  async backToChanges(page) {
    await page.getByRole("link", { name: /^Changes/ }).click();
  },
};

const keys: Hand = {
  async openChanges(page, contextId) {
    await page.keyboard.press("/");
    await page.keyboard.type(contextId);
    await expect(page.locator("tbody tr")).toHaveCount(1);
    await tabTo(page, contextId);
    await page.keyboard.press("Enter");
  },
  async decide(page) {
    await page.keyboard.press("a");
    await page.keyboard.press("a");
    await page.keyboard.press("c");
    await expect(page.getByLabel("Remark", { exact: true })).toBeFocused();
    await page.keyboard.type(remark);
    await page.keyboard.press("Control+Enter");
  },
  async apply(page, branch, message) {
    await page.keyboard.press("m");
    await tabTo(page, "The files of the workspace");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Tab");
    await page.keyboard.type(branch);
    await page.keyboard.press("Tab");
    await page.keyboard.type(message);
    await tabTo(page, "Apply");
    await page.keyboard.press("Enter");
  },
  async openJournal(page) {
    await tabTo(page, "journal");
    await page.keyboard.press("Enter");
  },
  async undo(page) {
    await tabTo(page, /^Undo entry/);
    await page.keyboard.press("Enter");
    await tabTo(page, /^Also take its commits back/);
    await page.keyboard.press("Space");
    await expect(page.getByRole("region", { name: "What it will do" })).toContainText("commit on"); // the plan is made anew
    await tabTo(page, "Undo");
    await page.keyboard.press("Enter");
    await expect(page.getByText(/Undone, as entry/)).toBeVisible();
    await page.keyboard.press("Escape");
  },
  async backToChanges(page) {
    await page.keyboard.press("2");
  },
};

/** Presses Tab until the focus is on what has this name. */
async function tabTo(page: Page, name: string | RegExp): Promise<void> {
  const seen: string[] = [];
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate(() => {
      const element = document.activeElement as HTMLInputElement | null;
      return (element?.ariaLabel ?? element?.labels?.[0]?.textContent ?? element?.textContent ?? "").trim();
    });
    if (typeof name === "string" ? focused === name : name.test(focused)) return;
    seen.push(focused.slice(0, 40));
  }
  throw new Error(`no Tab leads to ${String(name)}: ${seen.join(", ")}`);
}

let server: TestServer;

test.beforeAll(async () => {
  const files = { "a.txt": base };
  server = await startServer({ repositories: { mouse: files, keys: files } });
});

test.afterAll(() => server.stop());

/** What the panel reads of the decisions on its hunks, with its own token. */
async function panelReads(panel: Panel): Promise<{ decision?: string; comment?: string }[]> {
  const parts = await collectWith<{ hunk?: { decision?: string; comment?: string } }>(server.url, panel.token, "ReviewService/GetDiff", {});
  return parts.flatMap(({ hunk }) => (hunk ? [{ decision: hunk.decision, comment: hunk.comment }] : []));
}

for (const [name, hand] of Object.entries({ mouse, keys })) {
  test(`by ${name}: two of three hunks go to a branch, the panel reads the remark on the third, and the apply is undone`, async ({ page }) => {
    const git = (...args: string[]) => server.git(name, ...args);
    const panel = await server.openPanel(`panels/${name}`);
    const file = join(server.folder(panel.contextId), name, "a.txt");
    await collectWith(server.url, panel.token, "FsService/WriteFile", { path: `/${name}/a.txt`, text: edited });
    const problems = await signIn(page, server);

    await hand.openChanges(page, panel.contextId);
    await expect(page.getByText("Hunk 1 of 3 · line 10")).toBeVisible();
    await hand.decide(page);
    await expect(page.getByRole("dialog")).toHaveCount(0);
    await expect(page.getByText(`“${remark}”`)).toBeVisible();
    const decided = [{ decision: "DECISION_APPROVED" }, { decision: "DECISION_APPROVED" }, { decision: "DECISION_REJECTED", comment: remark }];
    await expect.poll(() => panelReads(panel)).toEqual(decided);

    const before = await git("rev-parse", "main");
    await hand.apply(page, `agent/${name}`, "Write two numbers as words");
    await expect(page.getByText("Applied 1 file.")).toBeVisible();
    expect(await git("log", "--format=%P %s", `main..agent/${name}`)).toBe(`${before} Write two numbers as words`);
    expect(`${await git("show", `agent/${name}:a.txt`)}\n`).toBe(approved);
    expect(await git("status", "--porcelain"), "the branch that is checked out and its files are as before").toBe("");
    expect(await git("rev-parse", "main")).toBe(before);
    expect(await readFile(join(server.workspace, name, "a.txt"), "utf8")).toBe(base);
    expect(await readFile(file, "utf8"), "the context keeps all that the agent did").toBe(edited);
    expect(await panelReads(panel), "what is left is the hunk with the remark").toEqual([decided[2]]);

    await hand.openJournal(page);
    await expect(page.getByRole("row", { name: /Apply/ })).toBeVisible();
    await hand.undo(page);
    await expect(page.getByRole("dialog")).toHaveCount(0);
    expect(`${await git("show", `agent/${name}:a.txt`)}\n`).toBe(base);
    expect(await git("rev-list", "--count", `main..agent/${name}`), "undoing is a further commit").toBe("2");
    expect(await readFile(file, "utf8")).toBe(edited);
    await hand.backToChanges(page);
    await expect(page.getByText("Hunk 1 of 3 · line 10")).toBeVisible();
    expect(problems).toEqual([]);
  });
}
