// Bundles the three parts of the example into dist.
import { copyFile } from "node:fs/promises";
import { fileURLToPath, URL } from "node:url";
import { build } from "esbuild";
import { ctxfs } from "@ctxfs/client/esbuild";

const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const common = { absWorkingDir: at("."), bundle: true, logLevel: "warning" };

// The main process runs from node_modules; Electron itself is never bundled.
await build({ ...common, entryPoints: [at("main.ts")], outfile: at("dist/main.js"), platform: "node", format: "esm", packages: "external" });
// A sandboxed preload is one CommonJS file.
await build({ ...common, entryPoints: [at("preload.ts")], outfile: at("dist/preload.cjs"), platform: "browser", format: "cjs", external: ["electron"] });
// In the page the plug-in gives fs by ctxfs. A page of a file loads scripts, and not everywhere modules.
await build({ ...common, entryPoints: [at("renderer.ts")], outfile: at("dist/renderer.js"), platform: "browser", format: "iife", plugins: [ctxfs()] });
await copyFile(at("index.html"), at("dist/index.html"));
