import { getOption, type DescField, type DescMethod, type MessageShape } from "@bufbuild/protobuf";
import type { ContentOf } from "./link.js";
import { ExecService } from "../gen/ctxfs/v1/exec_pb.js";
import { GatewayService } from "../gen/ctxfs/v1/gateway_pb.js";
import { FsService } from "../gen/ctxfs/v1/fs_pb.js";
import { GitService } from "../gen/ctxfs/v1/git_pb.js";
import { ReviewService } from "../gen/ctxfs/v1/review_pb.js";
import { Effect, method as methodOption } from "../gen/ctxfs/v1/options_pb.js";
import type { SessionReady } from "../gen/ctxfs/v1/session_pb.js";
import { ZoneService } from "../gen/ctxfs/v1/zone_pb.js";

/** The services whose RPCs are operations. No two have an RPC of one name. */
export const services = [FsService, ReviewService, ExecService, GatewayService, GitService, ZoneService] as const;

/** The methods of services whose requests may name another context than the caller's. */
type Named = typeof ReviewService.method & typeof GitService.method & typeof ZoneService.method;
type Methods = typeof FsService.method & typeof ExecService.method & typeof GatewayService.method & Named;
type OfKind<Kind> = { [K in keyof Methods]: Methods[K]["methodKind"] extends Kind ? K : never }[keyof Methods];

/** Operations whose results come in parts. */
export type PartsOp = Exclude<OfKind<"server_streaming">, "hold" | "readStream">;

/** The name of an RPC of one of the services that a session carries: "readFile". */
export type OpName = OfKind<"unary"> | PartsOp;

/** The request message of an operation. */
export type RequestOf<K extends OpName> = MessageShape<Methods[K]["input"]>;

/** The response message of an operation. */
export type ResponseOf<K extends OpName> = MessageShape<Methods[K]["output"]>;

/** What a caller gives of a request. The context is the caller's to add, except that those of Named may name another one. */
export type RequestInit<K extends OpName> = Partial<Omit<RequestOf<K>, "$typeName" | "$unknown" | (K extends keyof Named ? never : "contextId")>>;

/** Options of a call. */
export interface CallOptions {
  /** Cancels the operation. The call rejects with the signal's reason, or resolves if the answer was quicker. */
  signal?: AbortSignal | undefined;
  /** Where the content goes that read gives, if there is room: the result then holds a view of it. */
  into?: Uint8Array | undefined;
  /** Attributes may come as a NumberStat, which costs less. */
  numbers?: boolean | undefined;
  /** The process may end while it is under way. */
  background?: boolean | undefined;
  /** Has the server wait until the parts of the result are used. Without it, parts that the consumer has not asked for are kept in memory. */
  flow?: Flow | undefined;
}

/** Bounds the parts of a result that were received and not used. It is for one call after the other. */
export class Flow {
  readonly #received = new WeakMap<object, () => void>();

  /** Has the server send no further part while as many bytes, encoded, are not used. */
  constructor(readonly window: number) {}

  /** The session's: a part has come, and used is to be called when it was used. */
  received(part: object, used: () => void): void {
    this.#received.set(part, used);
  }

  /** The consumer's: a part was used. It has no effect the second time. */
  used(part: object): void {
    this.#received.get(part)?.();
    this.#received.delete(part);
  }
}

/** The services, as one identity calls them. All functions of the fs object and of reviews are made of this. */
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

/** Gives a field of a request; undefined when it is not set. */
type Getter = (request: object) => unknown;

/** When an operation may be done twice (ctxfs/v1/options.proto). */
interface Repeatable { changesWith: Getter[]; with: Getter | undefined; without: Getter | undefined }

/** The operations that may be done twice, with their conditions. */
const repeatable = new Map<string, Repeatable>();
for (const desc of services.flatMap(({ methods }): readonly DescMethod[] => methods)) {
  const options = getOption(desc, methodOption);
  if (!options.repeatable || options.effect !== Effect.READS) continue;
  const [only] = getters(desc, [options.repeatableWith]);
  const [never] = getters(desc, [options.repeatableWithout]);
  repeatable.set(desc.localName, { changesWith: getters(desc, options.changesWith), with: only, without: never });
}

/** Returns what gives the fields of those names, "" left out. */
function getters(desc: DescMethod, names: string[]): Getter[] {
  return names.filter((name) => name !== "").map((name) => {
    const field = desc.input.fields.find((f: DescField) => f.name === name);
    if (!field) throw new TypeError(`${desc.name} has no field ${name}`);
    const { localName, oneof } = field;
    if (!oneof) return (request) => (request as Record<string, unknown>)[localName];
    return (request) => {
      const form = (request as Record<string, { case?: string; value?: unknown } | undefined>)[oneof.localName];
      return form?.case === localName ? form.value : undefined;
    };
  });
}

/** Says whether the value of a field makes a request a change: a flag for writing (Node's, or Linux numbers), or true. */
function writes(value: unknown): boolean {
  const accessMode = 0o3, create = 0o100, truncate = 0o1000;
  if (typeof value === "string") return !["r", "rs", "sr"].includes(value);
  if (typeof value === "number") return (value & (accessMode | create | truncate)) !== 0;
  return value === true;
}

/** Says whether an operation may be done twice. */
export function repeats<K extends OpName>(op: K, request: RequestInit<K>): boolean {
  const rule = repeatable.get(op);
  if (!rule || rule.changesWith.some((get) => writes(get(request)))) return false;
  if (rule.without?.(request) !== undefined) return false;
  if (!rule.with) return true;
  const value = rule.with(request);
  return value !== undefined && (value as bigint) >= 0n;
}
