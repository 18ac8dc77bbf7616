import type { CtxFs } from "../create.js";

/** What options of sandboxes that start a server have in common. */
interface ServerOptions {
  /** The ctxfs program; else CTXFS_BIN, else ctxfs of PATH. */
  bin?: string | undefined;
  /** Further flags of ctxfs serve. */
  args?: readonly string[] | undefined;
  /** Lets sandbox.fs.exec run commands, isolated, in the sandbox. */
  exec?: boolean | undefined;
}

/** A sandbox of its own: /cache/x is ROOT/cache/x, and /workspace/x is ROOT/workspace/x. */
export interface SandboxedOptions extends ServerOptions {
  mode: "sandboxed";
  /** The directory that keeps the sandbox, for ctxfs alone. It is created. */
  root: string;
  /** The directory whose git repositories /workspace begins with, and that commits are pushed to; the one that holds root unless told. */
  repositories?: string | undefined;
  /** Which of its repositories and folders /workspace begins with; all repositories unless told, and [] for none. */
  from?: "repositories" | readonly string[] | undefined;
}

/** A sandbox on directories of the user's own: what is written there is theirs at once. */
export interface DirectOptions extends ServerOptions {
  mode: "direct";
  /** The directory of /workspace. It is created. */
  workspace: string;
  /** The directory of /cache; without it there is no /cache. */
  cache?: string | undefined;
}

/** A sandbox over a panel of a server. */
export interface PanelOptions {
  /** A panel of openPanel or, in a page, its fs alone: { fs }. */
  panel: {
    readonly fs: CtxFs;
    /** Where a path is on the server's disk: hosts know it. */
    resolve?(path: string): Promise<string>;
  };
}

/** Options of createSandbox. */
export type SandboxOptions = SandboxedOptions | DirectOptions | PanelOptions;
