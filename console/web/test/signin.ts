import { expect, type Page } from "@playwright/test";
import type { TestServer } from "./server";

/** Signs a page in with a new link, and shows a route: "/contexts". What the page's policy refuses, and what a script fails with, is added to the list that it gives. */
export async function signIn(page: Page, server: TestServer, route = "/contexts"): Promise<string[]> {
  const problems: string[] = [];
  page.on("console", (message) => { if (/Content.Security.Policy|TrustedHTML|TrustedScript/i.test(message.text())) problems.push(message.text()); });
  page.on("pageerror", (error) => { problems.push(String(error)); });
  await page.goto(await server.consoleLink());
  await expect(page.getByRole("heading", { name: "Contexts" })).toBeVisible();
  if (route !== "/contexts") await show(page, route);
  return problems;
}

/** Shows a route of the page. */
export async function show(page: Page, route: string): Promise<void> {
  await page.evaluate((to) => { location.hash = `#${to}`; }, route);
}
