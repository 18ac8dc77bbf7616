import { loadHost, makeDialer } from "#platform";
import { fsOver, type CtxFs } from "../create.js";
import { requireKnown } from "../errors/options.js";
import { Client } from "../session/client.js";
import type { Dialer } from "../session/link.js";
import { SandboxError } from "./errors.js";
import { servedGit } from "./git.js";
import type { Hosted } from "./host.js";
import type { DirectOptions, PanelOptions, SandboxedOptions, SandboxOptions } from "./options.js";
import { sandboxOf, usualZones, type Sandbox } from "./sandbox.js";

/**
 * Makes a sandbox. With mode "sandboxed" or "direct" its first call starts a ctxfs server, or attaches to one that runs; close() ends a
 * server that was started. With a panel it is the panel's files. Throws for options that do not exist.
 */
export function createSandbox(options: SandboxOptions): Sandbox {
  if ("panel" in options) return overPanel(options);
  if (options.mode === "sandboxed") {
    requireKnown(options, ["mode", "root", "repositories", "from", "bin", "args", "exec"]);
    return hosted(options, usualZones);
  }
  requireKnown(options, ["mode", "workspace", "cache", "bin", "args", "exec"]);
  if ((options.mode as string) !== "direct") throw new TypeError(`unknown mode ${JSON.stringify(options.mode)}: the modes are sandboxed and direct`);
  const hint = 'give createSandbox a directory for downloads: cache: "./downloads"';
  return hosted(options, options.cache === undefined ? ["/workspace"] : usualZones, hint);
}

function overPanel(options: PanelOptions): Sandbox {
  requireKnown(options, ["panel"]);
  const { panel } = options;
  const { fs } = panel;
  const open = async () => {
    const seeded = (await fs.zones()).find(({ from }) => from.length > 0);
    return { git: fs.git, pusher: fs.git, root: seeded?.path ?? "/" };
  };
  return sandboxOf({
    fs, git: servedGit(open), zones: async () => (await fs.zones()).map(({ path }) => path).sort(),
    resolve: panel.resolve?.bind(panel) ?? ((path) => Promise.reject(new SandboxError("the real path of a panel's file is for hosts: use the panel that openPanel returned", "EACCES", path))),
  });
}

function hosted(options: SandboxedOptions | DirectOptions, zones: readonly string[], zoneHint?: string): Sandbox {
  let opening: Promise<Hosted> | undefined;
  const open = (): Promise<Hosted> => (opening ??= begin(options).catch((error: unknown) => {
    opening = undefined;
    throw error;
  }));
  const close = async (): Promise<void> => {
    const opened = await opening?.catch(() => undefined);
    await opened?.panel.fs.disconnect();
    await opened?.server.stop();
  };
  return sandboxOf({
    fs: fsOf(open), zones, zoneHint, ready: open, close,
    git: servedGit(async () => (await open()).git),
    resolve: async (path) => (await open()).panel.resolve(path),
  });
}

async function begin(options: SandboxedOptions | DirectOptions): Promise<Hosted> {
  if (!loadHost) throw new TypeError("a page cannot start a server: give createSandbox a panel, or use createBrowserSandbox or createMemorySandbox");
  return (await loadHost()).openHosted(options);
}

/** Makes the fs of a panel that is opened at the first call. */
function fsOf(open: () => Promise<Hosted>): CtxFs {
  let dialer: Promise<Dialer> | undefined;
  const dial = (): Promise<Dialer> => (dialer ??= open().then(({ server }) => makeDialer(server.address), (error: unknown) => {
    dialer = undefined;
    throw error;
  }));
  let opened = false;
  const token = async (): Promise<string> => {
    const { panel } = await open();
    if (opened) return panel.renewToken();
    opened = true;
    return panel.token;
  };
  return fsOver(new Client({
    token,
    dialer: {
      dial: async (current) => (await dial()).dial(current),
      tokenInOpen: false,
      content: async (current, request) => (await dial()).content?.(current, request),
      close: () => { dialer?.then((d) => { d.close(); }, () => undefined); },
    },
  }));
}
