// Runs the tests on each version of Node but the one that runs this: `node scripts/nodes.mjs [TESTS…]`. It installs them into bin/node of the
// repository, from the npm registry, which carries Node's binaries as packages. The package has to be built. The attacks, previews and stores of
// pages are left out: they run in the browser.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { arch, argv, exit, platform, stderr, versions } from "node:process";
import { fileURLToPath } from "node:url";

const majors = [20, 22, 24, 26].filter((major) => major !== parseInt(versions.node));
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = join(root, "../../bin/node");
const name = `node-${platform === "win32" ? "win" : platform}-${arch}`;
const failed = [];

for (const major of majors) {
  const dir = join(bin, String(major));
  const node = join(dir, "node_modules", name, "bin", platform === "win32" ? "node.exe" : "node");
  if (!existsSync(node)) {
    stderr.write(`nodes: installing Node ${major} into ${dir}\n`);
    execFileSync("npm", ["install", "--prefix", dir, "--no-audit", "--no-fund", "--loglevel=error", `${name}@${major}`], { stdio: "inherit", shell: platform === "win32" });
  }
  stderr.write(`nodes: ${execFileSync(node, ["--version"], { encoding: "utf8" })}`);
  try {
    execFileSync(node, [join(root, "node_modules/vitest/vitest.mjs"), "run", "--exclude", "test/browser/*.full.test.ts", ...argv.slice(2)], { cwd: root, stdio: "inherit" });
  } catch {
    failed.push(major);
  }
}
if (failed.length > 0) {
  stderr.write(`nodes: the tests failed on Node ${failed.join(", ")}\n`);
  exit(1);
}
