// Builds dist/esm (with declarations) by tsc, and dist/cjs from the same sources, file by file: so that a program that
// imports two entries has one class FileHandle, and not one for each bundle.
import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { execPath } from "node:process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const at = (...parts) => join(root, ...parts);
const filesIn = (dir, ending) => readdirSync(dir, { recursive: true }).filter((name) => name.endsWith(ending));

rmSync(at("dist"), { recursive: true, force: true });
execFileSync(execPath, [at("node_modules/typescript/bin/tsc"), "-p", at("tsconfig.json")], { stdio: "inherit" });
await build({
  entryPoints: filesIn(at("src"), ".ts").concat(filesIn(at("src"), ".tsx")).map((name) => at("src", name)),
  outbase: at("src"), outdir: at("dist/cjs"), format: "cjs", platform: "node", target: "node20", bundle: false, logLevel: "warning",
});
for (const name of filesIn(at("dist/esm"), ".d.ts")) cpSync(at("dist/esm", name), at("dist/cjs", name));
const platform = { node: "./platform/node.js", default: "./platform/browser.js" };
writeFileSync(at("dist/cjs/package.json"), JSON.stringify({ type: "commonjs", imports: { "#platform": platform } }));
