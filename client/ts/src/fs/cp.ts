import { nodeMajor } from "#platform";
import { constants } from "./constants.js";
import { fsError } from "../errors/fs.js";
import { nodeError } from "../errors/node.js";
import { systemError, type SystemError } from "../errors/system.js";
import { FileType, type Stat } from "../gen/ctxfs/v1/fs_types_pb.js";
import { renamed, type Core } from "./core.js";
import { pathFields, pathOf, twoPathFields, type VirtualPath } from "./paths.js";
import { dirname, isWithin, join, resolve } from "./posix.js";
import { option, requireBoolean, requireFunction, requireInteger, requireObject } from "./validate.js";

type Filter = (src: string, dest: string) => boolean | Promise<boolean>;

interface CpOptions {
  dereference: boolean;
  errorOnExist: boolean;
  force: boolean;
  preserveTimestamps: boolean;
  recursive: boolean;
  verbatimSymlinks: boolean;
  mode: number;
  filter: Filter | undefined;
}

/** Copies as Node's cp does. The server copies trees; with a filter, which runs here, it copies entry by entry. */
export async function copyTree(core: Core, source: unknown, destination: unknown, given: unknown): Promise<void> {
  const options = cpOptions(given);
  const src = pathOf(source, "src");
  const dest = pathOf(destination, "dest");
  const found = await checkPair(core, src, dest, options);
  if (!found) return;
  if (found.src.type === FileType.DIRECTORY && !options.recursive) {
    throw cpError("ERR_FS_EISDIR", "EISDIR", src.shown, `${src.shown} is a directory (not copied)`);
  }
  if (!found.dest) await core.caller.call("mkdir", { path: dirname(resolve(dest.shown)), recursive: true });
  if (nodeMajor >= 22 && found.dest && tellsOfEach(options, found)) throw cpError("ERR_FS_CP_EEXIST", "EEXIST", dest.shown, `${dest.shown} already exists`);
  if (!options.filter && !tellsOfEach(options, found)) return copyWhole(core, src, dest, found, options);
  await copyEntry(core, src, dest, found, options);
}

function cpOptions(given: unknown): CpOptions {
  const o = given === undefined ? {} : requireObject(given, "options");
  const flag = (name: string, def: boolean): boolean => requireBoolean(option(o, name, def), `options.${name}`);
  const options = {
    dereference: flag("dereference", false), errorOnExist: flag("errorOnExist", false), force: flag("force", true),
    preserveTimestamps: flag("preserveTimestamps", false), recursive: flag("recursive", false), verbatimSymlinks: flag("verbatimSymlinks", false),
    mode: requireInteger(o.mode ?? 0, "mode", 0, 7),
    filter: o.filter === undefined ? undefined : (requireFunction(o.filter, "options.filter") as unknown as Filter),
  };
  if (options.dereference && options.verbatimSymlinks) {
    const why = 'Option "dereference" cannot be used in combination with option "verbatimSymlinks"';
    throw nodeError(TypeError, "ERR_INCOMPATIBLE_OPTION_PAIR", why);
  }
  return options;
}

interface Pair { src: Stat; dest: Stat | undefined }

/** Looks at source and destination, and throws what Node throws when they do not fit; undefined when the filter leaves them out. */
async function checkPair(core: Core, src: VirtualPath, dest: VirtualPath, options: CpOptions): Promise<Pair | undefined> {
  if (options.filter && !await options.filter(src.shown, dest.shown)) return undefined;
  const kind = options.dereference ? "stat" : "lstat";
  const [from, to] = await Promise.all([
    core.caller.call(kind, pathFields(src)),
    core.caller.call(kind, pathFields(dest)).catch((error: unknown) => {
      if ((error as SystemError).code === "ENOENT") return undefined;
      throw error;
    }),
  ]);
  if (!from.stat) throw new Error("the server gave no attributes");
  checkTypes(src.shown, dest.shown, from.stat, to?.stat);
  return { src: from.stat, dest: to?.stat };
}

function checkTypes(src: string, dest: string, from: Stat, to: Stat | undefined): void {
  const directory = from.type === FileType.DIRECTORY;
  if (to && to.ino === from.ino && to.dev === from.dev) {
    throw cpError("ERR_FS_CP_EINVAL", "EINVAL", dest, "src and dest cannot be the same");
  }
  if (to && directory && to.type !== FileType.DIRECTORY) {
    throw cpError("ERR_FS_CP_DIR_TO_NON_DIR", "EISDIR", dest, `cannot overwrite non-directory ${dest} with directory ${src}`);
  }
  if (to && !directory && to.type === FileType.DIRECTORY) {
    throw cpError("ERR_FS_CP_NON_DIR_TO_DIR", "ENOTDIR", dest, `cannot overwrite directory ${dest} with non-directory ${src}`);
  }
  const special = specials.get(from.type);
  if (special) throw cpError(special[0], "EINVAL", dest, `cannot copy ${special[1]}: ${dest}`);
  if (directory && isWithin(resolve(src), resolve(dest))) {
    throw cpError("ERR_FS_CP_EINVAL", "EINVAL", dest, `cannot copy ${src} to a subdirectory of self ${dest}`);
  }
}

/** What is no content, and cannot be copied. */
const specials = new Map<FileType, readonly [Parameters<typeof fsError>[0], string]>([
  [FileType.FIFO, ["ERR_FS_CP_FIFO_PIPE", "a FIFO pipe"]],
  [FileType.SOCKET, ["ERR_FS_CP_SOCKET", "a socket file"]],
]);

function cpError(key: Parameters<typeof fsError>[0], code: string, path: string, message: string): Error {
  return fsError(key, { code, message, path, syscall: "cp" });
}

/** Says whether each entry is copied on its own: the server does not report which entry exists already. */
function tellsOfEach({ errorOnExist, force }: CpOptions, { src, dest }: Pair): boolean {
  return errorOnExist && !force && src.type === FileType.DIRECTORY && dest !== undefined;
}

async function copyWhole(core: Core, src: VirtualPath, dest: VirtualPath, found: Pair, options: CpOptions): Promise<void> {
  if (found.src.type === FileType.SYMLINK && found.dest) return copyLinkOver(core, src, dest, found.dest, options);
  // With force the destination is removed first, so that the copy meets none.
  const mode = found.dest && options.force ? options.mode & ~constants.COPYFILE_EXCL : options.mode;
  return copyByServer(core, src, dest, found.src, { ...options, mode });
}

/** Puts a link in another link's place. What is no link is not replaced. */
async function copyLinkOver({ caller }: Core, src: VirtualPath, dest: VirtualPath, to: Stat, { verbatimSymlinks }: CpOptions): Promise<void> {
  const target = await targetOf(caller, src, verbatimSymlinks);
  const link = { ...pathFields(dest), target };
  if (to.type !== FileType.SYMLINK) {
    await caller.call("symlink", link);
    return;
  }
  const old = await targetOf(caller, dest, false);
  const { stat } = await caller.call("stat", pathFields(src));
  const directory = stat?.type === FileType.DIRECTORY;
  if (directory && isWithin(target, old)) {
    throw cpError("ERR_FS_CP_EINVAL", "EINVAL", dest.shown, `cannot copy ${target} to a subdirectory of self ${old}`);
  }
  if (directory && isWithin(old, target)) {
    throw cpError("ERR_FS_CP_SYMLINK_TO_SUBDIRECTORY", "EINVAL", dest.shown, `cannot overwrite ${old} with ${target}`);
  }
  await caller.call("unlink", pathFields(dest));
  await caller.call("symlink", link);
}

async function targetOf(caller: Core["caller"], link: VirtualPath, verbatim: boolean): Promise<string> {
  const { target } = await caller.call("readlink", pathFields(link));
  return verbatim ? target : resolve(dirname(resolve(link.shown)), target);
}

async function copyByServer({ caller }: Core, src: VirtualPath, dest: VirtualPath, from: Stat, options: CpOptions): Promise<void> {
  const { dereference, errorOnExist, force, preserveTimestamps, recursive, verbatimSymlinks, mode } = options;
  const flags = { dereference, errorOnExist, force, preserveTimestamps, recursive, verbatimSymlinks, mode };
  try {
    await caller.call("cp", { ...twoPathFields(src, dest), ...flags });
  } catch (error) {
    throw asNodeCopies(error as SystemError, dest.shown, from);
  }
}

/** Node's cp fails in the calls that it is made of. */
function asNodeCopies(e: SystemError, dest: string, from: Stat): unknown {
  if (e.syscall !== "cp") return e;
  const path = e.dest ?? e.path ?? dest;
  if (e.code === "EEXIST") return cpError("ERR_FS_CP_EEXIST", "EEXIST", path, `${path} already exists`);
  if (from.type === FileType.FILE) return renamed(e, "copyfile");
  return from.type === FileType.DIRECTORY && e.dest === dest ? systemError({ code: e.code, syscall: "mkdir", path: dest }) : e;
}

async function copyEntry(core: Core, src: VirtualPath, dest: VirtualPath, found: Pair, options: CpOptions): Promise<void> {
  if (found.src.type !== FileType.DIRECTORY) return copyWhole(core, src, dest, found, options);
  const { caller } = core;
  if (!found.dest) await caller.call("mkdir", pathFields(dest));
  const names: string[] = []; // Node's cp reads them by opendir, which does not order them
  for await (const { event } of caller.parts("opendir", pathFields(src))) names.push(...(event.value?.entries ?? []).map(({ name }) => name));
  for (const name of names) {
    const from = pathOf(join(src.shown, name));
    const to = pathOf(join(dest.shown, name));
    const inner = await checkPair(core, from, to, options);
    if (inner) await copyEntry(core, from, to, inner, options);
  }
  if (!found.dest) await caller.call("chmod", { ...pathFields(dest), modeForm: { case: "mode", value: found.src.mode & 0o7777 } });
}
