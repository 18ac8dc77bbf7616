// Takes the pictures of docs/images/console: npm run screenshots.
import { expect, test, type Page } from "@playwright/test";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer, type TestServer } from "./server";
import { show, signIn } from "./signin";

const images = fileURLToPath(new URL("../../../docs/images/console/", import.meta.url));
const retry = `package retry

// Do calls f.
func Do(f func() error) error {
	return f()
}

// Must calls f, and stops the program if it fails.
func Must(f func() error) {
	if err := f(); err != nil {
		panic(err)
	}
}
`;
const retryEdited = `package retry

import "time"

// Do calls f until it succeeds, at most three times.
func Do(f func() error) (err error) {
	for i := range 3 {
		if err = f(); err == nil {
			return nil
		}
		time.Sleep(time.Duration(i) * time.Second)
	}
	return err
}

// Must calls f, and stops the program if it fails.
func Must(f func() error) {
	if err := Do(f); err != nil {
		panic(err)
	}
}
`;
const main = `package main

import "fmt"

// greet says hello to each name.
func greet(names ...string) {
	for i, name := range names {
		fmt.Printf("%d: hello, %s\\n", i+1, name)
	}
}

func main() {
	greet("ada", "bob")
}
`;
const settings = (limit: string) => `server:\n  address: 127.0.0.1:8080\n  limit: ${limit}\n  log: info\n`;

const editor = "/contexts/ctx_panels~editor";
const contexts = { app: { "retry/retry.go": retry, "main.go": main, "settings.yml": settings("10"), "README.md": "# app\n\nGreets people.\n", "old.txt": "not needed\n", "web/index.html": "<h1>app</h1>\n", ".github/workflows/ci.yml": "on: push\n" } };

/** The panels beside the one that is reviewed: their labels, and what each has changed. */
const others: readonly { id: string; labels: Record<string, string>; files: Record<string, string> }[] = [
  { id: "panels/docs", labels: { owner: "ada", task: "1198" }, files: { "README.md": "# app\n\nGreets everybody.\n\nRun it with `go run .`.\n" } },
  { id: "panels/terminal", labels: { owner: "ada" }, files: {} },
  { id: "agents/tests", labels: { owner: "bob", task: "1204" }, files: { "retry/retry_test.go": "package retry\n\nimport \"testing\"\n\nfunc TestDo(t *testing.T) {\n\tif err := Do(func() error { return nil }); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n" } },
  { id: "agents/upgrade", labels: { owner: "bob", task: "1211" }, files: { "go.mod": "module app\n\ngo 1.26\n" } },
  { id: "agents/triage", labels: { priority: "high" }, files: {} },
  { id: "ci/1204", labels: {}, files: {} },
  { id: "ci/1211", labels: {}, files: { "web/index.html": "<!doctype html>\n<title>app</title>\n<h1>app</h1>\n" } },
  { id: "people/cyd", labels: { owner: "cyd" }, files: { "web/index.html": "<h1>The app</h1>\n" } },
];

interface View {
  name: string;
  route: string;
  /** What is shown when the view is ready. */
  ready: string;
  then?: (page: Page) => Promise<void>;
}

const views: readonly View[] = [
  { name: "contexts", route: "/contexts", ready: "6 changes", then: (page) => expect(page.getByRole("row").nth(5)).toContainText(/\d change|none/) },
  { name: "files", route: `${editor}/files/app/main.go`, ready: "package" },
  {
    name: "changes", route: `${editor}/changes/${encodeURIComponent("/app/retry/retry.go")}`, ready: "Hunk 1 of",
    then: (page) => expect(page.getByText("Please wait longer")).toBeVisible(),
  },
  {
    name: "apply", route: `${editor}/changes/${encodeURIComponent("/app/retry/retry.go")}`, ready: "Hunk 1 of",
    then: async (page) => {
      await page.keyboard.press("m");
      await page.getByLabel("The files, and a commit of").check();
      await page.getByLabel("Commit message").fill("Retry three times");
      await page.getByRole("button", { name: "Add a check" }).click();
      await page.getByRole("textbox", { name: "Check 1" }).fill("grep -q 'range 3' app/retry/retry.go && echo it retries");
      await page.getByRole("button", { name: "Dry run" }).click();
      await expect(page.getByRole("dialog")).toContainText("1 file would change");
      await page.getByLabel("Commit message").focus();
      await page.locator(".dialog-body").evaluate((body) => { body.scrollTop = 0; });
    },
  },
  { name: "conflicts", route: `${editor}/conflicts`, ready: "Conflict 1 of 1" },
  { name: "journal", route: `${editor}/journal`, ready: "Apply" },
  { name: "staged", route: `${editor}/staged`, ready: "Greet cyd" },
];

/** How many calls a second were made, one after the other, before the picture of the activity. */
const load = [4, 9, 15, 12, 22, 30, 26, 34, 28, 18, 24, 20, 14, 17, 11, 8, 13, 9];

// The load alone takes a minute and a half.
test.describe.configure({ timeout: 600_000 });

let server: TestServer;

test.beforeAll(async () => {
  await mkdir(images, { recursive: true });
  server = await startServer({ repositories: contexts });
  await server.call("PanelService/OpenPanel", { panelId: "panels/editor", labels: { owner: "ada", task: "1204" } });
  for (const { id, labels, files } of others) {
    const { contextId } = await server.call<{ contextId: string }>("PanelService/OpenPanel", { panelId: id, labels });
    for (const [path, text] of Object.entries(files)) await server.call("FsService/WriteFile", { contextId, path: `/app/${path}`, text });
  }
  const contextId = "ctx_panels~editor";
  const write = (path: string, text: string) => server.call("FsService/WriteFile", { contextId, path, text });
  await write("/app/main.go", main.replace('"ada", "bob"', '"ada", "bob", "cyd"'));
  await server.call("GitService/Stage", { contextId, repo: "/app", files: ["/app/main.go"], branch: "agent/greet", message: "Greet cyd\n\nShe came later." });
  await write("/app/README.md", "# app\n\nGreets people. Calls that fail are made again.\n");
  const apply = { contextId, approve: true, target: "APPLY_TARGET_BRANCH", commit: { message: "Describe retries", branch: "agent/docs" }, selection: { changes: { changes: [{ path: "/app/README.md" }] } } };
  await server.call("ReviewService/Apply", apply);
  await write("/app/retry/retry.go", retryEdited);
  await write("/app/.github/workflows/ci.yml", "on: [push, pull_request]\n");
  await server.call("FsService/Rm", { contextId, path: "/app/old.txt" });
  await server.call("FsService/WriteFile", { contextId, path: "/app/logo.bin", data: "AAEC" });
  await write("/app/settings.yml", settings("100"));
  await writeFile(join(server.workspace, "app", "settings.yml"), settings("50"));
  await server.call("ReviewService/Rebase", { contextId, onConflict: "ON_CONFLICT_RECORD" });
  await server.call("ReviewService/SubmitReview", { contextId, title: "Retry calls that fail", message: "Three times, with a growing pause." });
  const diff = await server.collect<{ hunk?: { hunkId: string } }>("ReviewService/GetDiff", { contextId, paths: ["/app/retry/retry.go"] });
  const [first, second] = diff.flatMap(({ hunk }) => hunk?.hunkId ?? []);
  const decide = (hunk: string | undefined, decision: string, comment = "") => server.call("ReviewService/Decide", { contextId, decision, comment, selection: { changes: { changes: [{ path: "/app/retry/retry.go", hunkIds: [hunk] }] } } });
  await decide(first, "DECISION_APPROVED");
  await decide(second, "DECISION_REJECTED", "Please wait longer between the calls.");
});

test.afterAll(() => server.stop());

/** Spreads the ages of the contexts: all of them began a moment ago. */
async function spreadAges(page: Page): Promise<void> {
  await page.route("**/v1/ContextService/ListContexts", async (route) => {
    const response = await route.fetch();
    const { contexts: list } = await response.json() as { contexts: { contextId: string; createdNs: string; usedNs: string }[] };
    const known = ["panels/editor", ...others.map(({ id }) => id)].map((id) => `ctx_${id.replace("/", "~")}`);
    const aged = list.map((one) => {
      const at = known.indexOf(one.contextId);
      const before = (ns: string, minutes: number) => String(BigInt(ns) - BigInt(minutes) * 60_000_000_000n);
      return { ...one, createdNs: before(one.createdNs, 50 + at * at * 37), usedNs: before(one.usedNs, at * at * 4) };
    });
    await route.fulfill({ response, json: { contexts: aged } });
  });
}

/** Makes calls as people and agents do, some of them in error, for a minute and a half. */
async function work(): Promise<void> {
  for (const [i, calls] of load.entries()) {
    // clock: the pictures show the load of these seconds
    const until = performance.now() + 5000;
    for (let n = 0; n < calls * 5; n++) {
      const missing = (i * 7 + n) % 23 === 0;
      await server.call("FsService/ReadFile", { contextId: "ctx_panels~docs", path: missing ? "/app/missing" : "/app/main.go", flag: "r" }).catch(() => undefined);
      // clock: as above
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, until - performance.now()) / (calls * 5 - n)));
    }
  }
}

let working: Promise<void> | undefined;

async function activity(page: Page): Promise<void> {
  await show(page, "/activity");
  await expect(page.getByText("Running calls")).toBeVisible();
  await (working ??= work());
}

async function terminal(page: Page): Promise<void> {
  await show(page, `${editor}/processes`);
  await page.getByRole("button", { name: "New terminal" }).click();
  await expect(page.locator(".xterm-rows")).toContainText("$");
  await page.keyboard.type("cd app && ls --color\n");
  await expect(page.locator(".xterm-rows")).toContainText("settings.yml");
  await page.keyboard.type("grep -n --color=always func retry/retry.go\n");
  await expect(page.locator(".xterm-rows")).toContainText("17:func Must");
}

for (const colorScheme of ["light", "dark"] as const) {
  for (const [width, viewport] of [["wide", { width: 1280, height: 800 }], ["narrow", { width: 390, height: 760 }]] as const) {
    test(`${colorScheme} and ${width}`, async ({ browser }) => {
      const page = await browser.newPage({ colorScheme, viewport });
      const picture = async (name: string) => {
        await expect(page.locator(".spinner")).toHaveCount(0);
        await page.screenshot({ path: `${images}${name}-${colorScheme}-${width}.png` });
      };
      await spreadAges(page);
      await signIn(page, server);
      for (const { name, route, ready, then } of views) {
        await show(page, route);
        await expect(page.getByText(ready).first()).toBeVisible();
        await then?.(page);
        await picture(name);
        while (await page.getByRole("dialog").count()) await page.keyboard.press("Escape"); // the first one stops a check
      }
      await terminal(page);
      await picture("terminal");
      await activity(page);
      await picture("activity");
      await page.close();
    });
  }
}
