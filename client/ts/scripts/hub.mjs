// Makes the scripts of the gateway's hub: gateway/hub/hub.js and sw.js, which the server embeds. --check fails when they are not
// what client/ts/hub says.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const out = join(root, "../../gateway/hub");

const { outputFiles } = await build({
  entryPoints: ["hub", "sw"].map((name) => join(root, "hub", `${name}.ts`)), outdir: out, write: false, bundle: true, format: "iife",
  target: "es2022", charset: "ascii", legalComments: "none", logLevel: "warning",
});
mkdirSync(out, { recursive: true });
for (const { path, text } of outputFiles) {
  if (!process.argv.includes("--check")) {
    writeFileSync(path, text);
  } else if (readFileSync(path, "utf8") !== text) {
    process.stderr.write(`${path} is not what client/ts/hub says: run 'npm run hub' in client/ts\n`);
    process.exitCode = 1;
  }
}
