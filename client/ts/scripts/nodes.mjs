// Runs the tests on several versions of Node: `node scripts/nodes.mjs [--install] [TESTS…]`. It runs those that are in
// bin/node of the repository; with --install it installs what is missing there, from the npm registry, which carries Node's
// binaries as packages. The package has to be built.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { arch, argv, exit, platform, stderr } from "node:process";
import { fileURLToPath } from "node:url";

const majors = [22, 24, 26];
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = join(root, "../../bin/node");
const name = `node-${platform === "win32" ? "win" : platform}-${arch}`;
const tests = argv.slice(2).filter((arg) => arg !== "--install");
const failed = [];

for (const major of majors) {
  const dir = join(bin, String(major));
  const node = join(dir, "node_modules", name, "bin", platform === "win32" ? "node.exe" : "node");
  if (!existsSync(node) && argv.includes("--install")) {
    execFileSync("npm", ["install", "--prefix", dir, "--no-audit", "--no-fund", "--loglevel=error", `${name}@${major}`], { stdio: "inherit", shell: platform === "win32" });
  }
  if (!existsSync(node)) {
    stderr.write(`nodes: Node ${major} is not installed (make test-nodes installs it)\n`);
    continue;
  }
  stderr.write(`nodes: ${execFileSync(node, ["--version"], { encoding: "utf8" })}`);
  try {
    execFileSync(node, [join(root, "node_modules/vitest/vitest.mjs"), "run", ...tests], { cwd: root, stdio: "inherit" });
  } catch {
    failed.push(major);
  }
}
if (failed.length > 0) {
  stderr.write(`nodes: the tests failed on Node ${failed.join(", ")}\n`);
  exit(1);
}
