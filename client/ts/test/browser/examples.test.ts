import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import * as nodefs from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { env, execPath } from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startChromium } from "./chromium.js";
import { install, type Installed } from "./installed.js";

vi.setConfig({ testTimeout: 90_000 });

const examples = fileURLToPath(new URL("../../examples", import.meta.url));
let installed: Installed;
let browser: Browser;
const started: ChildProcess[] = [];

beforeAll(async () => {
  installed = await install();
  browser = await startChromium();
  for (const name of ["browser", "react", "electron"]) await nodefs.cp(join(examples, name), join(installed.dir, name), { recursive: true });
}, 60_000);
afterAll(async () => {
  await browser.close();
  for (const child of started.filter((c) => c.exitCode === null)) {
    child.kill();
    await once(child, "exit");
  }
  await installed.remove();
});

/** Runs an example's server on a workspace of its own, as npm start does; gives the address that it prints. */
async function start(name: string): Promise<{ address: string; folder: string }> {
  const own = join(installed.dir, `workspace-${name}`);
  await nodefs.mkdir(join(own, "repo", ".git"), { recursive: true });
  await nodefs.writeFile(join(own, "repo", "hello.txt"), "hello\n");
  const child = spawn(execPath, ["serve.mjs", own], {
    cwd: join(installed.dir, name), env: { ...env, PORT: String(await freePort()) }, stdio: ["ignore", "pipe", "inherit"],
  });
  started.push(child);
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith("open ")) return { address: line.slice("open ".length), folder: join(own, ".contexts", `ctx_examples~${name}`) };
  }
  throw new Error(`the example ${name} ended before it was ready`);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "localhost");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

test("the browser example saves what is typed", async () => {
  const { address, folder } = await start("browser");
  const page = await browser.newPage();
  await page.goto(address);
  await page.locator("#files li").first().waitFor();
  expect(await page.locator("#context").innerText()).toBe("ctx_examples~browser");
  await page.locator("#notes").fill("typed");
  await page.locator("#save").click();
  await page.getByText("saved, 5 bytes").waitFor();
  await page.getByText("notes.md", { exact: true }).last().waitFor();
  expect(await nodefs.readFile(join(folder, "notes.md"), "utf8")).toBe("typed");
  await page.reload();
  await expect.poll(() => page.locator("#notes").inputValue()).toBe("typed");
});

test("the React example shows the partition, and follows changes", async () => {
  const { address, folder } = await start("react");
  const page = await browser.newPage();
  await page.goto(address);
  await page.getByText("persist:ctx_examples~react").waitFor();
  await page.getByRole("button").click();
  await page.getByText("clicks.txt", { exact: true }).waitFor();
  expect(await nodefs.readFile(join(folder, "clicks.txt"), "utf8")).toBe("click\n");
  await nodefs.writeFile(join(folder, "from-disk.txt"), "");
  await page.getByText("from-disk.txt", { exact: true }).waitFor();
});

test("the Electron example is bundled, its page and preload without anything of Node", async () => {
  const dir = join(installed.dir, "electron");
  await promisify(execFile)(execPath, ["build.mjs"], { cwd: dir });
  expect((await nodefs.readdir(join(dir, "dist"))).sort()).toEqual(["index.html", "main.js", "preload.cjs", "renderer.js"]);
  const preload = await nodefs.readFile(join(dir, "dist/preload.cjs"), "utf8");
  expect([...preload.matchAll(/require\("([^"]+)"\)/g)].map(([, name]) => name)).toEqual(["electron"]);
  expect(await nodefs.readFile(join(dir, "dist/main.js"), "utf8")).toContain('from "@ctxfs/client/electron-main"');
});
