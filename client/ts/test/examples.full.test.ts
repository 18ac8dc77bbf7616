import { execFile, execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import * as nodefs from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { env, execPath } from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startChromium } from "./browser/chromium.js";

/*
 * The examples, run as a user runs them: outside of the repository, with the packed tarball of this package and their other
 * dependencies from the registry. `npm test` builds this package before.
 */


const run = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));
const names = ["browser", "electron", "isomorphic-git", "node", "react", "reports"];
const started: ChildProcess[] = [];
let dir: string;

beforeAll(async () => {
  dir = await nodefs.mkdtemp(join(tmpdir(), "ctxfs-examples-"));
  const { stdout } = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", dir], { cwd: root });
  const [packed] = JSON.parse(stdout) as [{ filename: string }];
  // One folder with all examples as its workspaces needs one installation.
  await nodefs.writeFile(join(dir, "package.json"), JSON.stringify({ private: true, workspaces: names }));
  for (const name of names) {
    await copyExample(name, dir);
    const manifest = join(dir, name, "package.json");
    await nodefs.writeFile(manifest, (await nodefs.readFile(manifest, "utf8")).replace("file:../..", `file:../${packed.filename}`));
  }
  await run("npm", ["install", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: dir });
});
afterAll(async () => {
  for (const child of started.filter((c) => c.exitCode === null)) {
    child.kill();
    await once(child, "exit");
  }
  await nodefs.rm(dir, { recursive: true });
});

/** Copies an example's own files. */
async function copyExample(name: string, to: string): Promise<void> {
  await nodefs.cp(join(root, "examples", name), join(to, name), {
    recursive: true, filter: (path) => !["node_modules", "dist"].some((made) => path.endsWith(`/${made}`)),
  });
}

/** Makes a workspace with one repository for an example. */
async function workspaceFor(name: string): Promise<string> {
  const workspace = join(dir, `workspace-${name}`);
  execFileSync("git", ["init", "-q", join(workspace, "repo")]);
  await nodefs.mkdir(join(workspace, "repo", "docs"));
  await nodefs.writeFile(join(workspace, "repo", "docs", "a.md"), "# A\n");
  return workspace;
}

/** Runs an example to its end. */
async function example(name: string): Promise<string> {
  return (await run(execPath, ["main.mjs", await workspaceFor(name)], { cwd: join(dir, name) })).stdout;
}

/** Runs an example's server, as npm start does. Returns the address that it prints. */
async function start(name: string): Promise<{ address: string; folder: string }> {
  const workspace = await workspaceFor(name);
  const child = spawn(execPath, ["serve.mjs", workspace], {
    cwd: join(dir, name), env: { ...env, PORT: String(await freePort()) }, stdio: ["ignore", "pipe", "inherit"],
  });
  started.push(child);
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith("open ")) return { address: line.slice("open ".length), folder: join(workspace, ".contexts", `ctx_examples~${name}`) };
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

test("the Node example runs", async () => {
  const stdout = await example("node");
  expect(stdout).toContain("started a server\n");
  expect(stdout).toContain("ctx_examples~node holds [ 'repo' ]");
  expect(stdout).toContain("repo/docs/a.md 4\n");
});

test("the isomorphic-git example runs", async () => {
  const stdout = await example("isomorphic-git");
  expect(stdout).toContain("status: [ [ 'readme.md', 1, 2, 1 ] ]");
  expect(stdout).toMatch(/[0-9a-f]{8} Go on\n[0-9a-f]{8} Begin\n$/);
});

test("the reports example pushes what a person agreed to, and nothing else", async () => {
  const workspace = join(dir, "workspace-reports");
  const repository = join(workspace, "reports");
  const git = (...args: string[]): string => execFileSync("git", ["-C", repository, "-c", "user.name=A", "-c", "user.email=a@example.org", ...args], { encoding: "utf8" });
  execFileSync("git", ["init", "-q", "-b", "main", repository]);
  git("config", "user.name", "A");
  git("config", "user.email", "a@example.org");
  await nodefs.writeFile(join(repository, "README.md"), "# Reports\n");
  git("add", ".");
  git("commit", "-q", "-m", "Begin");
  const answered = async (answer: string): Promise<string> => {
    const worker = run(execPath, ["main.mjs", workspace], { cwd: join(dir, "reports") });
    worker.child.stdin?.end(`${answer}\n`);
    return (await worker).stdout;
  };
  expect(await answered("no")).toMatch(/create \/workspace\/reports\/prices.md\n[^]*\+- apples 3\n[^]*discarded\n$/);
  expect(git("branch", "--list", "prices")).toBe("");
  expect(await answered("yes")).toContain("pushed to ");
  expect(git("show", "prices:prices.md")).toBe("# Prices\n\n- apples 3\n- pears 4\n");
  expect(git("status", "--porcelain")).toBe("");
});

test("the browser example saves what is typed", async () => {
  const { address, folder } = await start("browser");
  const browser = await startChromium();
  try {
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
  } finally {
    await browser.close();
  }
});

test("the React example shows the partition, and follows changes", async () => {
  const { address, folder } = await start("react");
  const browser = await startChromium();
  try {
    const page = await browser.newPage();
    await page.goto(address);
    await page.getByText("persist:ctx_examples~react").waitFor();
    await page.getByRole("button").click();
    await page.getByText("clicks.txt", { exact: true }).waitFor();
    expect(await nodefs.readFile(join(folder, "clicks.txt"), "utf8")).toBe("click\n");
    await nodefs.writeFile(join(folder, "from-disk.txt"), "");
    await page.getByText("from-disk.txt", { exact: true }).waitFor();
  } finally {
    await browser.close();
  }
});

/** Builds the Electron example that is in a folder, and looks at its bundles. */
async function buildElectron(folder: string): Promise<void> {
  await run(execPath, ["build.mjs"], { cwd: folder });
  expect((await nodefs.readdir(join(folder, "dist"))).sort()).toEqual(["index.html", "main.js", "preload.cjs", "renderer.js"]);
  const preload = await nodefs.readFile(join(folder, "dist/preload.cjs"), "utf8");
  expect([...preload.matchAll(/require\("([^"]+)"\)/g)].map(([, name]) => name)).toEqual(["electron"]);
  expect(await nodefs.readFile(join(folder, "dist/main.js"), "utf8")).toContain('from "@ctxfs/client/electron-main"');
}

test("the Electron example is bundled, its page and preload without anything of Node", () => buildElectron(join(dir, "electron")));

test("examples are bundled in a checkout too, where the package is a link", async () => {
  const checkout = join(dir, "checkout");
  await nodefs.mkdir(join(checkout, "examples"), { recursive: true });
  for (const name of ["package.json", "tsconfig.json"]) await nodefs.copyFile(join(root, name), join(checkout, name));
  for (const name of ["src", "dist", "node_modules"]) await nodefs.symlink(join(root, name), join(checkout, name));
  await nodefs.rm(join(checkout, "dist"));
  await nodefs.cp(join(root, "dist"), join(checkout, "dist"), { recursive: true });
  await copyExample("electron", join(checkout, "examples"));
  const link = join(checkout, "examples/electron/node_modules/@ctxfs/client");
  await nodefs.mkdir(dirname(link), { recursive: true });
  await nodefs.symlink(checkout, link);
  await buildElectron(join(checkout, "examples/electron"));
});

test("the examples are of the types that the package declares", async () => {
  await nodefs.writeFile(join(dir, "tsconfig.json"), JSON.stringify({
    compilerOptions: {
      target: "ES2022", lib: ["ES2023", "DOM", "DOM.Iterable", "DOM.AsyncIterable"], module: "ESNext", moduleResolution: "Bundler", strict: true, noEmit: true,
      jsx: "react-jsx", types: [], typeRoots: [],
    },
    include: ["browser", "electron", "react"],
  }));
  await run(execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", dir]).catch((error: unknown) => {
    throw new Error((error as { stdout: string }).stdout);
  });
});
