import { create } from "@bufbuild/protobuf";
import { ConnectionError } from "../errors/connection.js";
import { abortError } from "../errors/node.js";
import { systemError } from "../errors/system.js";
import type { DirEntry } from "../gen/ctxfs/v1/fs_types_pb.js";
import { FsService } from "../gen/ctxfs/v1/fs_pb.js";
import { SessionReadySchema, type SessionReady } from "../gen/ctxfs/v1/session_pb.js";
import type { CallOptions, Caller, OpName, PartsOp, RequestInit, ResponseOf } from "../session/operations.js";
import { nameFrom, shownName, wellFormed } from "./bytes.js";
import { entryOf } from "./names.js";
import { Operations } from "./operations.js";
import { none } from "./requests.js";
import { Glob, grepper, walk, type Below, type Counts } from "./search.js";
import { Directory, Errno } from "./tree.js";

/** How the errors of operations name their system call, where that is not the operation's name. */
const syscalls: Readonly<Record<string, string>> = {
  readFile: "open", writeFile: "open", appendFile: "open", truncate: "open", copyFile: "copyfile", readdir: "scandir", utimes: "utime", lutimes: "lutime",
  futimes: "futime", readv: "read", writev: "write",
};

const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

/** The errors that whole files meet after they were opened. */
const inContent: Readonly<Record<string, { syscall: string; codes: readonly string[] }>> = {
  readFile: { syscall: "read", codes: ["EISDIR", "EFBIG", "EBADF"] }, writeFile: { syscall: "write", codes: ["EFBIG", "EBADF"] },
  appendFile: { syscall: "write", codes: ["EFBIG", "EBADF"] },
};

/** The fields of requests that errors show. */
interface Named { path?: string; rawPath?: Uint8Array; dest?: string; rawDest?: Uint8Array; target?: string; rawTarget?: Uint8Array; prefix?: string; fd?: number }

type PartsOf = { [K in PartsOp]?: (request: never, options: CallOptions) => AsyncIterable<unknown> };

/** FsService in this process's memory: a file system of its own, for fsOver. */
export class MemoryCaller implements Caller {
  readonly maxContent = 64 << 20;
  protected readonly operations = new Operations();
  protected closed = false;

  /** Makes one with these directories. */
  constructor(directories: readonly string[] = []) {
    for (const path of directories) this.operations.mkdir({ path, recursive: true });
  }

  async ready(): Promise<SessionReady> {
    await this.turn();
    return create(SessionReadySchema, {});
  }

  hold(): () => void {
    return () => undefined;
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }

  async call<K extends OpName>(op: K, request: RequestInit<K>, options: CallOptions = {}): Promise<ResponseOf<K>> {
    await this.turn();
    if (options.signal?.aborted) throw abortError(options.signal.reason);
    const run = (this.operations as unknown as Record<string, ((request: unknown, options: CallOptions) => unknown) | undefined>)[op];
    if (!run || !unary.has(op)) throw unsupported(op);
    try {
      const result = await this.run(() => run.call(this.operations, request, options) ?? {});
      await this.done(op);
      return result as ResponseOf<K>;
    } catch (error) {
      throw named(error, op, request);
    }
  }

  /** Does what needs no wait. Another place for the content may have to bring some first. */
  protected run<T>(task: () => T): T | Promise<T> {
    return task();
  }

  /** Is called after an operation has been done. */
  protected done(op: OpName): Promise<void> | undefined;
  protected done(): undefined {
    return undefined;
  }

  async *parts<K extends PartsOp>(op: K, request: RequestInit<K>, options: CallOptions = {}): AsyncIterableIterator<ResponseOf<K>> {
    await this.turn();
    const { signal } = options;
    const run = (this.streams as Record<string, ((request: unknown, options: CallOptions) => AsyncIterable<unknown>) | undefined>)[op];
    if (!run) throw unsupported(op);
    try {
      if (signal?.aborted) throw abortError(signal.reason);
      for await (const part of run(request, options)) yield part as ResponseOf<K>;
      if (signal?.aborted) throw abortError(signal.reason);
    } catch (error) {
      throw named(error, op, request);
    }
  }

  /** The operations whose results come in parts. */
  private readonly streams: PartsOf = {
    opendir: (request: RequestInit<"opendir">) => this.opendir(request),
    watch: (request: RequestInit<"watch">, { signal }) => {
      const { tree, watches } = this.operations;
      const path = nameFrom(request.path ?? "", request.rawPath ?? none);
      return watches.watch(tree.node(path, true), path.replace(/\/+$/, "").replace(/^.*\//s, ""), request.recursive ?? false, signal);
    },
    glob: (request: RequestInit<"glob">) => this.glob(request),
    grep: (request: RequestInit<"grep">) => this.grep(request),
  };

  private async *opendir(request: RequestInit<"opendir">): AsyncGenerator<unknown, void> {
    const dir = this.operations.tree.directory(nameFrom(request.path ?? "", request.rawPath ?? none));
    dir.accessed();
    yield* batches(this.operations.entriesOf(dir, { ...request, withFileTypes: true }), request.bufferSize || 256, "entries");
    await this.turn();
  }

  private async *glob(request: RequestInit<"glob">): AsyncGenerator<unknown, void> {
    const dir = this.operations.tree.directory(nameFrom(request.path || "/", request.rawPath ?? none));
    const [patterns, exclude] = [request.patterns ?? [], request.exclude ?? []].map((list) => list.map((p) => new Glob(p))) as [Glob[], Glob[]];
    const most = request.maxMatches || 100_000;
    const excluded = ({ parts }: Below): boolean => exclude.some((glob) => glob.matches(parts));
    let matches = 0;
    let truncated = false;
    const found = function* (): Generator<Below> {
      for (const at of walk(dir, (below) => !excluded(below))) {
        if (excluded(at) || !patterns.some((glob) => glob.matches(at.parts))) continue;
        truncated = matches === most;
        if (truncated) return;
        matches++;
        yield at;
      }
    };
    const entries = function* (): Generator<DirEntry> { for (const at of found()) yield entryOf(at, request.withFileTypes ?? false); };
    yield* batches(entries(), 256, "matches");
    await this.turn();
    yield { event: { case: "summary", value: { matches: BigInt(matches), truncated, unreadable: 0n } } };
  }

  private async *grep(request: RequestInit<"grep">): AsyncGenerator<unknown, void> {
    const path = nameFrom(request.path || "/", request.rawPath ?? none);
    const found = this.operations.tree.find(path, true);
    const node = this.operations.tree.node(path, true);
    const exclude = (request.exclude ?? []).map((p) => new Glob(p));
    const kept = ({ parts }: Below): boolean => !exclude.some((glob) => glob.matchesName(parts));
    const below = node instanceof Directory ? [...walk(node, kept)].filter(kept) : [{ parts: [found.name], dir: found.dir, name: found.name, node }];
    const counts: Counts = { filesSearched: 0n, filesMatched: 0n, matches: 0n, binarySkipped: 0n, largeSkipped: 0n, truncated: false };
    const query = {
      pattern: request.pattern ?? "", fixedStrings: request.fixedStrings ?? false, ignoreCase: request.ignoreCase ?? false,
      include: request.include ?? [], beforeContext: request.beforeContext ?? 0, afterContext: request.afterContext ?? 0,
      maxCount: request.maxCount ?? 0, maxMatches: request.maxMatches || 100_000, maxFileSize: Number(request.maxFileSize ?? 0n) || 64 << 20,
    };
    const search = grepper(query, counts);
    for (const at of below) {
      const lines = await this.run(() => search(at));
      if (lines.length > 0) {
        const { text, raw } = shownName(`${at.dir.path === "/" ? "" : at.dir.path}/${at.name}`);
        yield { event: { case: "file", value: { path: text, rawPath: raw, lines: lines.map((line) => ({ ...line, truncated: false, lossy: false, rawText: none })) } } };
      }
      if (counts.truncated) break;
    }
    await this.turn();
    yield { event: { case: "summary", value: { ...counts, unreadable: 0n } } };
  }

  /** Lets other calls run first, as a server would, and fails once the file system was closed. */
  protected async turn(): Promise<void> {
    await Promise.resolve();
    if (this.closed) throw new ConnectionError("ECONNRESET", "this fs was closed", false);
  }
}

/** The operations that answer once. Operations has a method of the same name for each. */
const unary = new Set(FsService.methods.filter(({ methodKind }) => methodKind === "unary").map(({ localName }) => localName));

function* batches<T>(items: Iterable<T>, size: number, event: string): Generator {
  let batch: T[] = [];
  for (const item of items) {
    batch.push(item);
    if (batch.length < size) continue;
    yield { event: { case: event, value: { entries: batch } } };
    batch = [];
  }
  if (batch.length > 0) yield { event: { case: event, value: { entries: batch } } };
}

function unsupported(op: string): Error {
  return systemError({ code: "ENOSYS", syscall: op });
}

/** Makes the error that Node's fs would make of an errno. */
function named(error: unknown, op: string, request: Named): unknown {
  if (!(error instanceof Errno)) return error;
  const { code } = error;
  const syscall = inContent[op]?.codes.includes(code) ? inContent[op].syscall : syscalls[op] ?? op;
  const text = (value: string | undefined, raw: Uint8Array | undefined): string | undefined => (raw?.length ? lenient.decode(raw) : value && wellFormed(value));
  if (request.fd !== undefined) return systemError({ code, syscall });
  if (op === "symlink") return systemError({ code, syscall, path: text(request.target, request.rawTarget), dest: text(request.path, request.rawPath) });
  const path = request.prefix === undefined ? text(request.path, request.rawPath) : `${request.prefix}XXXXXX`;
  return systemError({ code, syscall, path, dest: text(request.dest, request.rawDest) });
}
