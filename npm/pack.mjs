// Packs ctxfs, its platforms' packages with the binaries of goreleaser, and @ctxfs/client:
//   node npm/pack.mjs dist/artifacts.json OUT
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const version = readFileSync(join(root, "VERSION"), "utf8").trim();
const [artifacts, out] = argv.slice(2).map((name) => resolve(name));
const common = {
  version, license: "Apache-2.0", homepage: "https://github.com/ctxfs/ctxfs",
  repository: { type: "git", url: "git+https://github.com/ctxfs/ctxfs.git" },
};
const pack = (dir) => execFileSync("npm", ["pack", "--silent", "--pack-destination", out], { cwd: dir, stdio: ["ignore", "ignore", "inherit"], shell: process.platform === "win32" });

const client = JSON.parse(readFileSync(join(root, "client/ts/package.json"), "utf8"));
if (client.version !== version) throw new Error(`client/ts/package.json has version ${client.version}, VERSION says ${version}`);
mkdirSync(out, { recursive: true });
const scratch = mkdtempSync(join(tmpdir(), "ctxfs-npm-"));
try {
  const optionalDependencies = {};
  // goreleaser lists them in the order in which they were ready.
  const binaries = JSON.parse(readFileSync(artifacts, "utf8")).filter(({ type }) => type === "Binary").sort((a, b) => (a.path < b.path ? -1 : 1));
  for (const { path, goos, goarch } of binaries) {
    const os = goos === "windows" ? "win32" : goos;
    const cpu = goarch === "amd64" ? "x64" : goarch;
    const name = `@ctxfs/${os}-${cpu}`;
    const dir = join(scratch, `${os}-${cpu}`);
    mkdirSync(join(dir, "bin"), { recursive: true });
    cpSync(resolve(root, path), join(dir, "bin", os === "win32" ? "ctxfs.exe" : "ctxfs"));
    cpSync(join(root, "LICENSE"), join(dir, "LICENSE"));
    writeFileSync(join(dir, "README.md"), `# ${name}\n\nThe program of [ctxfs](https://www.npmjs.com/package/ctxfs) for ${goos} on ${goarch}. Install \`ctxfs\`.\n`);
    writeFileSync(join(dir, "package.json"), JSON.stringify({
      name, ...common, description: `The ctxfs program for ${goos} on ${goarch}`, os: [os], cpu: [cpu], files: ["bin"], preferUnplugged: true,
    }, null, 2));
    optionalDependencies[name] = version;
    pack(dir);
  }
  const main = join(scratch, "ctxfs");
  cpSync(join(root, "npm/ctxfs"), main, { recursive: true });
  cpSync(join(root, "LICENSE"), join(main, "LICENSE"));
  writeFileSync(join(main, "package.json"), JSON.stringify({
    name: "ctxfs", ...common, description: "Private folders of a workspace for agents and windows", bin: { ctxfs: "bin/ctxfs.js" },
    files: ["bin"], engines: { node: ">=20" }, optionalDependencies,
  }, null, 2));
  pack(main);
  pack(join(root, "client/ts"));
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
