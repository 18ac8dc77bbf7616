import { build } from "esbuild";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { install, type Installed } from "./installed.js";

let installed: Installed;
beforeAll(async () => { installed = await install(); });
afterAll(() => installed.remove());

/** Bundles an entry for browsers; gives what it is made of. */
async function modulesOf(entry: string): Promise<string[]> {
  const { metafile } = await build({
    stdin: { contents: `export * from "@ctxfs/client${entry}"`, resolveDir: installed.dir }, absWorkingDir: installed.dir,
    bundle: true, write: false, metafile: true, format: "esm", platform: "browser", external: ["electron", "react"], logLevel: "silent",
  });
  return Object.keys(metafile.inputs);
}

test.each(["", "/fs", "/fs/promises", "/runtime", "/react", "/bridge", "/electron-main", "/electron-preload"])(
  "@ctxfs/client%s is bundled for browsers, without anything of Node", async (entry) => {
    const modules = await modulesOf(entry); // which fails at an import of a module of Node
    expect(modules.filter((name) => /grpc-js|links\/(grpc|ws)\.|platform\/node|src\/server/.test(name))).toEqual([]);
  },
);

test("a preload carries nothing but itself", async () => {
  const modules = await modulesOf("/electron-preload");
  expect(modules.map((name) => name.split("/dist/esm/")[1]).filter(Boolean).sort()).toEqual(["bridge/channels.js", "electron-preload.js"]);
});

test("the entries' files are there for Node too", async () => {
  const names = ["fs", "fs/promises", "runtime", "react", "bridge", "electron-main", "esbuild", "vite"];
  const found = await Promise.all(names.map((name) => import(join(installed.dir, "node_modules/@ctxfs/client/dist/esm", fileOf(name))) as Promise<object>));
  expect(found.map((module) => Object.keys(module).length > 0)).toEqual(names.map(() => true));
});

function fileOf(name: string): string {
  if (name === "bridge") return "bridge/index.js";
  return `${name.replace("/", "-")}.js`;
}
