import { build as esbuild, type BuildOptions } from "esbuild";
import { join } from "node:path";
import { build as vite, createServer, type ViteDevServer } from "vite";
import { ctxfs as esbuildPlugin } from "../../src/esbuild.js";
import { ctxfs as vitePlugin } from "../../src/vite.js";

/** Bundles panels/NAME for pages by esbuild and the plug-in; gives the script's address. */
export async function bundle(dir: string, name: string, options: BuildOptions = {}): Promise<string> {
  const outfile = `/esbuild/${name.replace(/\.tsx?$/, ".js")}`;
  await esbuild({
    entryPoints: [join(dir, "panels", name)], outfile: join(dir, outfile), absWorkingDir: dir,
    bundle: true, platform: "browser", format: "esm", target: "es2022", plugins: [esbuildPlugin()], jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' }, logLevel: "error", ...options,
  });
  return outfile;
}

/** Bundles panels/NAME for pages by Vite and the plug-in; gives the script's address. */
export async function bundleByVite(dir: string, name: string): Promise<string> {
  const out = name.replace(/\.tsx?$/, ".js");
  await vite({
    root: dir, configFile: false, logLevel: "error", plugins: [vitePlugin()], publicDir: false,
    build: {
      outDir: join(dir, "vite"), emptyOutDir: false, minify: true, target: "es2022", modulePreload: false,
      rollupOptions: { input: join(dir, "panels", name), output: { entryFileNames: out } },
    },
  });
  return `/vite/${out}`;
}

/** Vite's server for development, with the plug-in, as a middleware. */
export function serveByVite(dir: string): Promise<ViteDevServer> {
  return createServer({
    root: dir, configFile: false, logLevel: "error", appType: "custom", plugins: [vitePlugin()], publicDir: false,
    server: { middlewareMode: true, ws: false }, optimizeDeps: { entries: ["panels/imports-fs.ts"] },
  });
}
