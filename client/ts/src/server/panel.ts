import type { CtxFs } from "../create.js";
import type { ExecOptions, ProcessInfo, RunningProcess } from "../exec/process.js";
import type { Review } from "../review/review.js";
import { SeedPhase } from "../gen/ctxfs/v1/context_pb.js";
import type { SeedProgress } from "../gen/ctxfs/v1/context_pb.js";

/** How far the making of a context is. */
export interface Progress {
  /** waiting (another process seeds), scanning, layering, copying or recording. */
  phase: "unknown" | "waiting" | "scanning" | "building" | "layering" | "copying" | "recording";
  /** Files and bytes done in this step. */
  filesDone: number;
  bytesDone: number;
  /** Files and bytes to do; 0 while that is not known. */
  filesTotal: number;
  bytesTotal: number;
}

/** Options of openPanel. */
export interface OpenPanelOptions {
  /** Shares this context instead of the panel's own. */
  contextId?: string | undefined;
  /** Refuses changes to the panel. */
  readOnly?: boolean | undefined;
  /** The panel may review the changes of other panels' contexts. Opening it again without this ends its older tokens. */
  review?: boolean | undefined;
  /** The panel may run commands in its context. Opening it again without this ends its older tokens. */
  exec?: boolean | undefined;
  /** Life of the panel's tokens, in ms; the server's default unless told. */
  ttlMs?: number | undefined;
  /** Called while the context is made: the first opening copies the workspace. */
  onProgress?: ((progress: Progress) => void) | undefined;
}

/** An open panel. */
export interface Panel {
  /** Its ID: "panels/editor". */
  readonly panelId: string;
  /** Its context. */
  readonly contextId: string;
  /** Its folder on the server's disk, for programs that the host runs there. */
  readonly folder: string;
  /** Its token, for a page or another process. It expires; renewToken gives a further one. */
  readonly token: string;
  /** Electron's session partition: "persist:" and the context ID. */
  readonly partition: string;
  /** The panel's files. The client renews the token. */
  readonly fs: CtxFs;
  /** The review of the panel's own changes. */
  readonly review: Review;
  /** Runs a command in the panel's context, if it was opened with exec. */
  exec(argv: readonly string[], options?: ExecOptions): RunningProcess;
  /** The processes of its context, newest first. */
  processes(): Promise<ProcessInfo[]>;
  /** Gives a further token; older ones live until they expire. */
  renewToken(): Promise<string>;
  /** Revokes the panel's tokens and closes its handles. Its context and its files stay. */
  close(): Promise<void>;
  /** Ends fs's connection; the panel stays open for other holders of its token. */
  [Symbol.asyncDispose](): Promise<void>;
}

const phases: Readonly<Record<SeedPhase, Progress["phase"]>> = {
  [SeedPhase.UNSPECIFIED]: "unknown", [SeedPhase.WAITING]: "waiting", [SeedPhase.SCANNING]: "scanning",
  [SeedPhase.BUILDING]: "building", [SeedPhase.LAYERING]: "layering", [SeedPhase.COPYING]: "copying", [SeedPhase.RECORDING]: "recording",
};

/** What the server says of a seeding, in numbers. */
export function progressOf(p: SeedProgress): Progress {
  return {
    phase: phases[p.phase], filesDone: Number(p.filesDone), filesTotal: Number(p.filesTotal),
    bytesDone: Number(p.bytesDone), bytesTotal: Number(p.bytesTotal),
  };
}
