import type { ContentOf } from "./link.js";
import type { Operation, OperationResult, SessionReady } from "../gen/ctxfs/v1/session_pb.js";

/** The name of an operation: "readFile". */
export type OpName = NonNullable<Operation["request"]["case"]>;

/** The request message of an operation. */
export type RequestOf<K extends OpName> = Extract<Operation["request"], { case: K }>["value"];

/** The response message of an operation. */
export type ResponseOf<K extends OpName> = Extract<OperationResult["response"], { case: K }>["value"];

/** What a caller gives of a request: the context is the caller's to add. */
export type RequestInit<K extends OpName> = Partial<Omit<RequestOf<K>, "$typeName" | "$unknown" | "contextId">>;

/** Operations whose results come in parts. */
export type PartsOp = "opendir" | "watch" | "glob" | "grep";

/** Options of a call. */
export interface CallOptions {
  /** Cancels the operation. The call rejects with the signal's reason, or resolves if the answer was quicker. */
  signal?: AbortSignal | undefined;
  /** Where the content goes that read gives, if there is room: the result then holds a view of it. */
  into?: Uint8Array | undefined;
  /** The process may end while it is under way. */
  background?: boolean | undefined;
}

/** FsService, as one identity calls it. All of the fs object's functions are made of this. */
export interface Caller {
  /** Does an operation. Rejects with a SystemError, a ConnectionError or the signal's reason. */
  call<K extends OpName>(op: K, request: RequestInit<K>, options?: CallOptions): Promise<ResponseOf<K>>;
  /** Does an operation whose result comes in parts, until the consumer stops. */
  parts<K extends PartsOp>(op: K, request: RequestInit<K>, options?: CallOptions): AsyncIterableIterator<ResponseOf<K>>;
  /** Reads large content beside the session, where that is quicker; undefined when that cannot be, or fails. */
  content?(of: ContentOf, options?: CallOptions): Promise<Uint8Array | undefined>;
  /** The most bytes of content in one request, and in the reply to read. */
  readonly maxContent: number;
  /** Keeps the handles of this client alive while the connection is away, until the returned function is called. */
  hold(): () => void;
  /** Begins, if it has not: resolves with what the server said when it began. */
  ready(): Promise<SessionReady>;
  /** Ends the connection; handles close after the server's grace. Later calls reject. */
  close(): Promise<void>;
}

/** Operations that change nothing, and so may be done twice. A read at the handle's own position is none. */
const asks: ReadonlySet<OpName> = new Set<OpName>([
  "readFile", "readdir", "stat", "lstat", "statfs", "access", "exists", "realpath", "readlink", "fstat", "listHandles",
]);

/** Says whether a readFile changes nothing: no file, as its flag may (Linux numbers), and not a handle's position. */
function onlyReads({ fd, flagForm }: RequestInit<"readFile">): boolean {
  if (fd !== undefined) return false;
  if (flagForm?.case === "flag") return ["r", "rs", "sr"].includes(flagForm.value);
  const accessMode = 0o3, create = 0o100, truncate = 0o1000;
  return flagForm?.case !== "flagNumber" || ((flagForm.value) & (accessMode | create | truncate)) === 0;
}

/** Says whether an operation may be done twice. */
export function repeats<K extends OpName>(op: K, request: RequestInit<K>): boolean {
  if (op === "readFile") return onlyReads(request);
  if (op === "read" || op === "readv") {
    const { position } = request as RequestInit<"read">;
    return position !== undefined && position >= 0n;
  }
  return asks.has(op);
}
