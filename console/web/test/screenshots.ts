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

interface View {
  name: string;
  route: string;
  /** What is shown when the view is ready. */
  ready: string;
  then?: (page: Page) => Promise<void>;
}

const views: readonly View[] = [
  { name: "contexts", route: "/contexts", ready: "changes" },
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
  { name: "activity", route: "/activity", ready: "Running calls" },
];

let server: TestServer;

test.beforeAll(async () => {
  await mkdir(images, { recursive: true });
  server = await startServer({ repositories: contexts });
  for (const panel of ["editor", "bob", "cyd", "dan", "eve"]) await server.openPanel(`panels/${panel}`);
  const contextId = "ctx_panels~editor";
  const write = (path: string, text: string) => server.call("FsService/WriteFile", { contextId, path, text });
  await server.call("FsService/WriteFile", { contextId: "ctx_panels~cyd", path: "/app/README.md", text: "# app\n\nGreets everybody.\n\nRun it with `go run .`.\n" });
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
      await page.close();
    });
  }
}
