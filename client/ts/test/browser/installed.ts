import { build } from "esbuild";
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A program's directory that has @ctxfs/client installed, as its users have. */
export interface Installed {
  readonly dir: string;
  remove(): Promise<void>;
}

/** Makes one, with the test panels, from the sources. */
export async function install(): Promise<Installed> {
  const dir = await mkdtemp(join(tmpdir(), "ctxfs-page-"));
  const modules = join(dir, "node_modules");
  const own = join(modules, "@ctxfs/client");
  await mkdir(own, { recursive: true });
  for (const name of await readdir(join(root, "node_modules"))) await symlink(join(root, "node_modules", name), join(modules, name));
  const sources = (await readdir(join(root, "src"), { recursive: true })).filter((name) => name.endsWith(".ts"));
  await build({
    entryPoints: sources.map((name) => join(root, "src", name)), outbase: join(root, "src"), outdir: join(own, "dist/esm"),
    format: "esm", target: "es2022", bundle: false,
  });
  await cp(join(root, "package.json"), join(own, "package.json"));
  await cp(join(root, "test/browser/panels"), join(dir, "panels"), { recursive: true });
  return { dir, remove: () => rm(dir, { recursive: true }) };
}
