import type { CtxFs } from "../create.js";
import type { ArchiveSource, ArchiveSummary, ExportOptions, ImportOptions } from "../fs/archives.js";
import type { ExecOptions, ProcessInfo, RunningProcess } from "../exec/process.js";
import type { Git } from "../git/git.js";
import type { Review } from "../review/review.js";
import type { OpenSite, SiteOptions } from "../pages/site.js";
import type { ZoneInfo, ZoneLayoutOptions } from "../zones/zones.js";
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
  /** Seeds the context from these repositories and folders of the workspace alone, each relative to the workspace. They keep their paths. */
  seedFrom?: readonly string[] | undefined;
  /** Refuses changes to the panel. */
  readOnly?: boolean | undefined;
  /** The panel may review the changes of other panels' contexts. Opening it again without this ends its older tokens. */
  review?: boolean | undefined;
  /** The panel may run commands in its context. Opening it again without this ends its older tokens. */
  exec?: boolean | undefined;
  /** The panel may push commits that were staged in its context. Opening it again without this ends its older tokens. */
  gitPush?: boolean | undefined;
  /** The zones of the context; those of the context-zones.yml beside the panel's template unless told, which cannot be direct. It counts when the context is made. */
  zones?: ZoneLayoutOptions | undefined;
  /** Labels that the panel gets beside those that it has. Its context gets them too if it is the panel's own, or if this opening makes it. */
  labels?: Readonly<Record<string, string>> | undefined;
  /** Life of the panel's tokens, in ms; the server's default unless told. */
  ttlMs?: number | undefined;
  /** Called while the context is made, unless it has zones: the first opening copies the workspace. */
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
  /** Commits of the panel's own changes: pull, stage, and push if it was opened with gitPush. */
  readonly git: Git;
  /** The zones of its context. */
  zones(options?: { measure?: boolean | undefined }): Promise<ZoneInfo[]>;
  /** Returns where a path is on the server's disk, for programs of the host. Rejects with ENOTSUP where the server alone sees the files. */
  resolve(path: string): Promise<string>;
  /** Sends its folder, or what is at path, as a tar or zip archive. */
  export(options?: ExportOptions & { path?: string | undefined }): ReadableStream<Uint8Array>;
  /** Extracts an archive into its folder, or into path: with zones, into one of them. If it rejects, nothing has changed, unless the server was killed. */
  import(source: ArchiveSource, options?: ImportOptions & { path?: string | undefined }): Promise<ArchiveSummary>;
  /** Runs a command in the panel's context, if it was opened with exec. */
  exec(argv: readonly string[], options?: ExecOptions): RunningProcess;
  /** The processes of its context, newest first. */
  processes(): Promise<ProcessInfo[]>;
  /** Opens a site: a URL at which browsers read the context's files. The server needs --gateway. */
  openSite(options?: SiteOptions): Promise<OpenSite>;
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
