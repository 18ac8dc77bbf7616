import { nodeMajor } from "#platform";
import { invalidArgValue } from "../errors/node.js";
import { systemError, type SystemError } from "../errors/system.js";
import { asBuffer, nameOf } from "./bytes.js";
import type { Core } from "./core.js";
import { pathFields, pathOf } from "./paths.js";
import { aborted } from "./pieces.js";
import { isEncoding, requireBoolean, requireObject, requireSignal } from "./validate.js";

/** A change that a watch reports. filename is null when events were lost: list again. */
export interface FileChange {
  eventType: "rename" | "change";
  filename: string | Buffer | null;
}

/** fs.promises.watch: changes from the first next() on, until the loop ends or the signal fires. */
export function watchFunction({ caller }: Core) {
  return async function* watch(path: unknown, given: unknown = {}): AsyncGenerator<FileChange, void, undefined> {
    const options = watchOptions(given);
    const p = pathOf(path);
    aborted(options.signal);
    const request = { ...pathFields(p), recursive: options.recursive };
    const notices = caller.parts("watch", request, { signal: options.signal, background: !options.persistent });
    for await (const { notice } of named(notices, path)) {
      if (notice.case === "overflow") yield changeOf("rename", null, options);
      if (notice.case !== "event") continue;
      const { eventType, filename, rawFilename } = notice.value;
      yield changeOf(eventType === "change" ? "change" : "rename", nameOf(filename, rawFilename, options.encoding), options);
    }
  };
}

/** Node's changes have no prototype from version 22 on, except those of a recursive watch. */
function changeOf(eventType: FileChange["eventType"], filename: FileChange["filename"], { recursive }: WatchOptions): FileChange {
  const change = { eventType, filename };
  return nodeMajor < 22 || recursive ? change : Object.setPrototypeOf(change, null) as FileChange;
}

/** Node's errors of watches show what was given, also as it was given. */
async function* named<T>(notices: AsyncIterable<T>, filename: unknown): AsyncGenerator<T, void, undefined> {
  try {
    yield* notices;
  } catch (error) {
    const { code, syscall, kind } = error as SystemError;
    if (syscall !== "watch" || kind) throw error;
    const path = filename instanceof Uint8Array ? asBuffer(filename).toString() : (filename as string | URL).toString();
    const shown: Partial<SystemError> = systemError({ code, syscall, path: filename === "" ? undefined : path });
    if (path === "") delete shown.path;
    throw Object.assign(shown, { filename });
  }
}

interface WatchOptions { persistent: boolean; recursive: boolean; encoding: string | undefined; signal: AbortSignal | undefined }

function watchOptions(given: unknown): WatchOptions {
  const { encoding, signal, ...o } = given === undefined ? {} as Record<string, unknown> : requireObject(given, "options");
  const options = {
    persistent: requireBoolean(o.persistent === undefined ? true : o.persistent, "options.persistent"),
    recursive: requireBoolean(o.recursive === undefined ? false : o.recursive, "options.recursive"),
    signal: requireSignal(signal, "options.signal"),
  };
  if (encoding && encoding !== "buffer" && !isEncoding(encoding)) {
    if (nodeMajor >= 24) throw invalidArgValue("encoding", encoding, "is invalid encoding");
    // The two change places in older versions of Node too; a symbol fails to be a text there and here.
    // eslint-disable-next-line @typescript-eslint/no-unnecessary-template-expression -- see above
    throw invalidArgValue(`${encoding as string}`, "encoding", "is invalid encoding");
  }
  return { ...options, encoding: (encoding ?? undefined) as string | undefined };
}
