import { createHash } from "node:crypto";
import { mkdir, readlink, symlink } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { startServer, type Panel, type Server } from "../server/index.js";
import type { ZoneLayoutOptions } from "../zones/zones.js";
import { SandboxError } from "./errors.js";
import type { ServedGit } from "./git.js";
import type { DirectOptions, SandboxedOptions } from "./options.js";

/** A sandbox's panel, and the server that has it. */
export interface Hosted {
  server: Server;
  panel: Panel;
  git: ServedGit;
}

/** What to start and open. */
interface Plan {
  workspace: string;
  contextsDir?: string;
  args: string[];
  panelId: string;
  layout: ZoneLayoutOptions;
}

/** Starts the server of a sandbox, or attaches to one that runs, and opens its panel. */
export async function openHosted(options: SandboxedOptions | DirectOptions): Promise<Hosted> {
  const plan = options.mode === "sandboxed" ? planSandboxed(options) : await planDirect(options);
  const { workspace, contextsDir, args, panelId, layout } = plan;
  const server = await startServer({ workspace, contextsDir, bin: options.bin, args: [...args, ...(options.args ?? [])] });
  try {
    const panel = await server.openPanel(panelId, { zones: layout, exec: options.exec });
    if (contextsDir !== undefined) await linkZones(contextsDir, panel.contextId, Object.keys(layout.zones));
    const root = options.mode === "sandboxed" ? "/workspace" : "/";
    return { server, panel, git: { git: panel.git, pusher: server.git(panel.contextId), root } };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** The zones are directories of a context below root. */
function planSandboxed({ root, repositories, from = "repositories" }: SandboxedOptions): Plan {
  const contextsDir = resolve(root);
  const workspace = resolve(repositories ?? dirname(contextsDir));
  const layout: ZoneLayoutOptions = { mode: "sandboxed", zones: { "/workspace": { from }, "/cache": { commit: "never" } } };
  return { workspace, contextsDir, args: ["--driver", "copy"], panelId: "sandbox", layout }; // other drivers show files only while the server runs
}

/** The zones are the given directories. Another choice of them is another panel, for a context keeps its zones. */
async function planDirect({ cache, workspace: work }: DirectOptions): Promise<Plan> {
  const workspace = resolve(".");
  const dirs = { "/workspace": resolve(work), ...(cache === undefined ? {} : { "/cache": resolve(cache) }) };
  const zones: ZoneLayoutOptions["zones"] = Object.fromEntries(Object.entries(dirs).map(([path, dir]) => {
    const inside = relative(workspace, dir) || ".";
    return [path, { dir: isOutside(inside) ? dir : inside, ...(path === "/cache" ? { commit: "never" as const } : {}) }];
  }));
  const outside = Object.values(dirs).filter((dir) => isOutside(relative(workspace, dir)));
  for (const dir of Object.values(dirs)) await mkdir(dir, { recursive: true });
  const name = createHash("sha256").update(JSON.stringify(dirs)).digest("hex").slice(0, 12);
  return { workspace, args: outside.flatMap((dir) => ["--zone-dir", dir]), panelId: `sandboxes/${name}`, layout: { mode: "direct", zones } };
}

function isOutside(path: string): boolean {
  return path.startsWith("..") || resolve(path) === path;
}

/** Gives the zones of a context their places below root: root/cache leads to root/CONTEXT/cache. */
async function linkZones(root: string, contextId: string, zones: readonly string[]): Promise<void> {
  for (const zone of zones) {
    const [path, target] = [join(root, zone), join(contextId, zone)];
    try {
      await symlink(target, path, "dir");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      if (await readlink(path).catch(() => "") !== target) throw new SandboxError(`${path} is in the way of the sandbox's ${zone}: move it`, "EEXIST", zone, error);
    }
  }
}
