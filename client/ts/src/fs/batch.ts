import type { Mode } from "node:fs";
import { invalidArgType, invalidArgValue } from "../errors/node.js";
import { requireKnown } from "../errors/options.js";
import type { RequestInit } from "../session/operations.js";
import { contentBytes } from "./bytes.js";
import type { Core } from "./core.js";
import { requireEtag } from "./edit.js";
import { pathFields, pathOf, twoPathFields, type PathLike } from "./paths.js";
import { modeOf, requireBoolean, requireSignal, requireString } from "./validate.js";

/** One edit of a text: of oldText, or of the lines from startLine to endLine. */
export interface BatchEdit {
  /** Must occur exactly once, unless all is set. */
  oldText?: string | undefined;
  newText: string;
  all?: boolean | undefined;
  /** Instead of oldText: the first and the last line to replace, from 1. */
  startLine?: number | undefined;
  endLine?: number | undefined;
}

/** Conditions of a step. They must hold before the batch; otherwise it is refused with ESTALE or EEXIST, and kind "condition". */
export interface BatchConditions {
  /** The etag that the path of the step must have. mkdir and symlink do not take it. */
  ifMatch?: string | undefined;
  /** "*": nothing may have the name; of rename and copy the new one. edit, rm and chmod do not take it. */
  ifNoneMatch?: "*" | undefined;
}

/** One change of a batch. Its first property says what is done, and to which path. */
export type BatchStep = BatchConditions & (
  | { /** Writes a file, always whole. */ write: PathLike; data: string | Uint8Array; mode?: Mode | undefined }
  | { /** Edits a text file. */ edit: PathLike; edits: readonly BatchEdit[] }
  | { /** Makes a directory. */ mkdir: PathLike; recursive?: boolean | undefined; mode?: Mode | undefined }
  | { /** Removes a file, or a tree. */ rm: PathLike; recursive?: boolean | undefined; force?: boolean | undefined }
  | { /** Moves a file or directory. */ rename: PathLike; to: PathLike }
  | { /** Copies one file. */ copy: PathLike; to: PathLike }
  | { /** Makes a link. */ symlink: PathLike; target: PathLike }
  | { /** Sets permission bits. */ chmod: PathLike; mode: Mode }
);

/** Options of batch. */
export interface BatchOptions {
  /** Changes nothing, and says what would change. */
  dryRun?: boolean | undefined;
  /** Flushes the contents to the disk before the changes. */
  flush?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

/** What a batch did. */
export interface Batched {
  /** The etag that each step left; null for removals, links and directories, for a file that a later step removed, and after a dry run. */
  etags: (string | null)[];
  /** The unified diff of a dry run. */
  diff: string;
  /** The diff is longer: only its first MiB is here. */
  diffTruncated: boolean;
}

/**
 * Carries out up to 1,000 steps in order: all of them or none, also if the server is killed. If one fails nothing is changed, and the error
 * has its index as step. All contents together must fit into one request.
 */
export type Batch = (steps: readonly BatchStep[], options?: BatchOptions) => Promise<Batched>;

type Change = NonNullable<NonNullable<RequestInit<"batch">["steps"]>[number]["change"]>;
type Fields = Record<string, unknown>;

/** Makes batch over what calls the server. */
export function batchFunction({ caller }: Core): Batch {
  return async function batch(steps, options = {}) {
    if (!Array.isArray(steps)) throw invalidArgType("steps", ["Array"], steps);
    requireKnown(options, ["dryRun", "flush", "signal"]);
    const request = {
      steps: steps.map((step: unknown, index) => ({ change: changeOf(step, `steps[${index}]`) })),
      dryRun: requireBoolean(options.dryRun ?? false, "options.dryRun"), flush: requireBoolean(options.flush ?? false, "options.flush"),
    } as RequestInit<"batch">;
    const { results, diff, diffTruncated } = await caller.call("batch", request, { signal: requireSignal(options.signal, "options.signal") });
    return { etags: results.map(({ etag }) => etag || null), diff, diffTruncated };
  };
}

/** What each kind of step becomes: the request of the method of that name. */
const kinds: Readonly<Record<string, (s: Fields, name: string) => { case: Change["case"]; value: Fields }>> = {
  write: (s, name) => ({
    case: "writeFile",
    value: { ...one(s["write"], `${name}.write`), ...modeForm(s, name, 0o666), content: { case: "data", value: contentBytes(s["data"], "utf8", `${name}.data`) } },
  }),
  edit: (s, name) => ({ case: "editFile", value: { ...one(s["edit"], `${name}.edit`), edits: editsOf(s["edits"], `${name}.edits`) } }),
  mkdir: (s, name) => ({ case: "mkdir", value: { ...one(s["mkdir"], `${name}.mkdir`), ...modeForm(s, name, 0o777), recursive: flag(s, name, "recursive") } }),
  rm: (s, name) => ({ case: "rm", value: { ...one(s["rm"], `${name}.rm`), recursive: flag(s, name, "recursive"), force: flag(s, name, "force") } }),
  rename: (s, name) => ({ case: "rename", value: two(s["rename"], s["to"], name, "rename") }),
  copy: (s, name) => ({ case: "copyFile", value: two(s["copy"], s["to"], name, "copy") }),
  symlink: (s, name) => {
    const target = pathOf(s["target"], `${name}.target`);
    return { case: "symlink", value: { ...one(s["symlink"], `${name}.symlink`), target: target.path, rawTarget: target.raw } };
  },
  chmod: (s, name) => ({ case: "chmod", value: { ...one(s["chmod"], `${name}.chmod`), ...modeForm(s, name) } }),
};

/** The conditions that do not apply to a kind of step. */
const refused: Readonly<Record<string, readonly (keyof BatchConditions)[]>> = {
  edit: ["ifNoneMatch"], mkdir: ["ifMatch"], rm: ["ifNoneMatch"], symlink: ["ifMatch"], chmod: ["ifNoneMatch"],
};

function changeOf(step: unknown, name: string): { case: Change["case"]; value: Fields } {
  if (typeof step !== "object" || step === null) throw invalidArgType(name, ["Object"], step);
  const fields = step as Fields;
  const named = Object.keys(fields).filter((key) => key in kinds);
  const does = named.length === 1 ? named[0] ?? "" : "";
  const kind = kinds[does];
  if (!kind) throw new TypeError(`${name} needs exactly one of ${Object.keys(kinds).join(", ")}`);
  const change = kind(fields, name);
  const { ifMatch, ifNoneMatch } = fields;
  for (const condition of refused[does] ?? []) {
    if (fields[condition] !== undefined) throw invalidArgValue(`${name}.${condition}`, fields[condition], `does not apply to ${does}`);
  }
  if (ifMatch !== undefined) change.value["ifMatch"] = requireEtag(ifMatch, `${name}.ifMatch`);
  if (ifNoneMatch !== undefined) change.value["to" in fields ? "destIfNoneMatch" : "ifNoneMatch"] = requireString(ifNoneMatch, `${name}.ifNoneMatch`);
  return change;
}

function one(path: unknown, name: string): Fields {
  return pathFields(pathOf(path, name));
}

function two(from: unknown, to: unknown, name: string, kind: string): Fields {
  return twoPathFields(pathOf(from, `${name}.${kind}`), pathOf(to, `${name}.to`));
}

function modeForm(s: Fields, name: string, def?: number): Fields {
  return { modeForm: { case: "mode", value: modeOf(s["mode"], `${name}.mode`, def) } };
}

function flag(s: Fields, name: string, key: string): boolean {
  return requireBoolean(s[key] ?? false, `${name}.${key}`);
}

function editsOf(edits: unknown, name: string): Fields[] {
  if (!Array.isArray(edits)) throw invalidArgType(name, ["Array"], edits);
  return (edits as BatchEdit[]).map((e, index) => ({
    oldText: e.oldText ?? "", newText: requireString(e.newText, `${name}[${index}].newText`), all: e.all ?? false,
    startLine: BigInt(e.startLine ?? 0), endLine: BigInt(e.endLine ?? 0),
  }));
}
