import { build } from "esbuild";
import { execFile } from "node:child_process";
import * as nodefs from "node:fs/promises";
import { join } from "node:path";
import { execPath } from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { install } from "../browser/installed.js";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

// Electron itself cannot be had everywhere; its module is replaced by one that does what its documentation says.
test("the Electron example's main process gives each window its panel, and ends", async () => {
  const installed = await install();
  const { dir } = installed;
  const workspace = join(dir, "workspace");
  await nodefs.mkdir(join(workspace, "repo", ".git"), { recursive: true });
  await build({
    entryPoints: [at("../../examples/electron/main.ts")], outfile: join(dir, "main.mjs"), bundle: true, platform: "node", format: "esm",
    alias: { "electron": at("electron.fake.ts"), "#platform": at("../../src/platform/node.ts") },
    external: ["@ctxfs/client", "@grpc/grpc-js", "@bufbuild/protobuf"], logLevel: "error",
  });
  const { stdout } = await promisify(execFile)(execPath, [join(dir, "main.mjs"), workspace]);
  const lines = stdout.trim().split("\n");
  const saw = lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as unknown);
  const panel = (contextId: string): object => ({ info: { contextId, partition: `persist:${contextId}` }, partition: `persist:${contextId}`, same: true });
  expect(saw).toHaveLength(2);
  expect(saw).toEqual(expect.arrayContaining([panel("ctx_examples~editor"), panel("ctx_examples~terminal")]));
  expect(lines.at(-1)).toBe("quit");
  for (const name of ["editor", "terminal"]) {
    expect(await nodefs.readFile(join(workspace, ".contexts", `ctx_examples~${name}`, "visits.txt"), "utf8")).toBe("a visit\n");
  }
  await installed.remove();
});
