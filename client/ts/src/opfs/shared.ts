import { create } from "@bufbuild/protobuf";
import { ConnectionError } from "../errors/connection.js";
import { abortError } from "../errors/node.js";
import { systemError, type SystemError, type SystemErrorInit } from "../errors/system.js";
import { SessionReadySchema, type SessionReady } from "../gen/ctxfs/v1/session_pb.js";
import { repeats, type CallOptions, type Caller, type OpName, type PartsOp, type RequestInit, type ResponseOf } from "../session/operations.js";
import { PartQueue } from "../session/parts.js";
import { BrowserCaller } from "./caller.js";

/** What pages say to each other. leader is the page that does the work; of a call, the one that its asker takes for it. */
type Message =
  | { kind: "call" | "parts"; from: string; leader: string; id: number; op: OpName; request: object; numbers: boolean }
  | { kind: "cancel"; from: string; id: number }
  | { kind: "result" | "part" | "end"; to: string; id: number; value: unknown }
  | { kind: "error"; to: string; id: number; error: SystemErrorInit & { message: string } }
  | { kind: "leader"; leader: string }
  | { kind: "who" };

/** A call of this page that another page does. */
interface Pending {
  message: Extract<Message, { kind: "call" | "parts" }>;
  part?: (part: unknown) => void;
  resolve: (value: unknown) => void;
  reject: (why: unknown) => void;
}

/** What a page has asked this one for. */
interface Guest { fds: Set<number>; calls: Map<number, AbortController> }

/**
 * FsService in a browser's own storage, for all pages that open the workspace. The first page that opens it does the work, for the others too. When that
 * page ends, another one takes over: handles of the others are then closed (EBADF), and a change that was under way rejects with ECONNRESET.
 */
export class SharedCaller implements Caller {
  readonly maxContent = 64 << 20;
  private readonly self = crypto.randomUUID();
  private readonly name: string;
  private readonly stop = new AbortController();
  private beginning: Promise<void> | undefined;
  private channel: BroadcastChannel | undefined;
  private local: BrowserCaller | undefined;
  private release: () => void = () => undefined;
  /** The page that does the work; "" until it is known. */
  private leader = "";
  private learned: () => void = () => undefined;
  private lastId = 0;
  private readonly pending = new Map<number, Pending>();
  private readonly guests = new Map<string, Guest>();
  /** Messages that came before a page was chosen to do the work. */
  private early: Message[] | undefined = [];
  /** Handles of this page that ended with the page that had them, and those that may. */
  private readonly ended = new Set<number>();
  private readonly open = new Set<number>();

  /** Makes one of a workspace, which it does not open yet. directories are made when they are missing. */
  constructor(private readonly workspaceId: string, private readonly directories: readonly string[]) {
    this.name = `ctxfs:${workspaceId}`;
  }

  async ready(): Promise<SessionReady> {
    await this.begin();
    return this.local ? this.local.ready() : create(SessionReadySchema, {});
  }

  hold(): () => void {
    return () => undefined;
  }

  async close(): Promise<void> {
    if (this.stop.signal.aborted) return;
    this.stop.abort();
    await this.beginning?.catch(() => undefined);
    for (const { reject } of this.pending.values()) reject(closed());
    this.channel?.close();
    await this.local?.close();
    this.release();
  }

  async call<K extends OpName>(op: K, request: RequestInit<K>, options: CallOptions = {}): Promise<ResponseOf<K>> {
    await this.begin();
    const { fd } = request as { fd?: number };
    if (fd !== undefined && this.ended.has(fd)) {
      if (op === "close") this.ended.delete(fd);
      throw systemError({ code: "EBADF", syscall: op });
    }
    if (this.local) return this.local.call(op, request, options);
    const result = await this.ask("call", op, request, options);
    if (op === "open") this.opened((result as ResponseOf<"open">).fd);
    if (op === "close") this.open.delete(fd ?? -1);
    return intoGiven(result, options.into) as ResponseOf<K>;
  }

  async *parts<K extends PartsOp>(op: K, request: RequestInit<K>, options: CallOptions = {}): AsyncIterableIterator<ResponseOf<K>> {
    await this.begin();
    if (this.local) {
      yield* this.local.parts(op, request, options);
      return;
    }
    const queue = new PartQueue<ResponseOf<K>>();
    const stop = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
    this.ask("parts", op, request, { signal }, (part) => { queue.push(part as ResponseOf<K>); }).then(() => { queue.end(); }, (why: unknown) => { queue.fail(why); });
    try {
      yield* queue;
    } finally {
      stop.abort();
    }
  }

  private begin(): Promise<void> {
    if (this.stop.signal.aborted) return Promise.reject(closed());
    return (this.beginning ??= this.find());
  }

  /** Finds the page that does the work: this one, if no other one does. */
  private async find(): Promise<void> {
    if (typeof navigator === "undefined" || !("locks" in navigator) || typeof indexedDB === "undefined") {
      throw new TypeError("createBrowserSandbox needs a browser, and a page of https: or of localhost: use createMemorySandbox or createSandbox");
    }
    this.channel = new BroadcastChannel(this.name);
    this.channel.onmessage = ({ data }: MessageEvent<Message>) => { this.receive(data); };
    void navigator.locks.request(`${this.name}:${this.self}`, () => new Promise((resolve) => { this.stop.signal.addEventListener("abort", resolve); })); // while this page lives
    const leads = await new Promise<boolean>((resolve, reject) => {
      navigator.locks.request(this.name, { ifAvailable: true }, (lock) => {
        resolve(lock !== null);
        return lock ? this.lead() : undefined;
      }).catch(reject);
    });
    if (leads) return;
    this.early = undefined;
    const known = new Promise<void>((resolve) => { this.learned = resolve; });
    navigator.locks.request(this.name, { signal: this.stop.signal }, () => this.lead()).catch(() => undefined); // close aborts it
    this.post({ kind: "who" });
    await known;
  }

  /** Does the work from now on, until the returned promise resolves. */
  private lead(): Promise<void> {
    const released = new Promise<void>((resolve) => { this.release = resolve; });
    this.local = new BrowserCaller(this.workspaceId, this.directories);
    this.post({ kind: "leader", leader: this.self });
    this.follow(this.self);
    const { early = [] } = this;
    this.early = undefined;
    for (const message of early) this.receive(message);
    return released;
  }

  /** Notes the page that does the work. Calls that another page had are repeated where that is safe. */
  private follow(leader: string): void {
    if (leader === this.leader) return;
    this.leader = leader;
    this.learned();
    for (const fd of this.open) this.ended.add(fd);
    this.open.clear();
    for (const [id, pending] of [...this.pending]) {
      const { message: { op, request, kind }, resolve, reject } = pending;
      this.pending.delete(id);
      if (kind === "parts" || !repeats(op, request as never)) reject(new ConnectionError("ECONNRESET", "the page that had this workspace open has ended", kind === "call"));
      else this.call(op, request as never).then(resolve, reject);
    }
  }

  private opened(fd: number): void {
    this.open.add(fd);
    this.ended.delete(fd);
  }

  private ask(kind: "call" | "parts", op: OpName, request: object, { signal, numbers = false }: CallOptions, part?: (part: unknown) => void): Promise<unknown> {
    if (signal?.aborted) return Promise.reject(abortError(signal.reason));
    const id = ++this.lastId;
    const message = { kind, from: this.self, leader: this.leader, id, op, request, numbers };
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        if (!this.pending.delete(id)) return;
        this.post({ kind: "cancel", from: this.self, id });
        reject(abortError(signal?.reason));
      };
      signal?.addEventListener("abort", abort, { once: true });
      const done = (): void => { signal?.removeEventListener("abort", abort); };
      this.pending.set(id, { message, ...(part ? { part } : {}), resolve: (value) => { done(); resolve(value); }, reject: (why) => { done(); reject(why); } });
      this.post(message);
    });
  }

  private post(message: Message): void {
    this.channel?.postMessage(message);
  }

  private receive(message: Message): void {
    if (this.early) {
      this.early.push(message);
    } else if (message.kind === "leader") {
      this.follow(message.leader);
    } else if ("to" in message) {
      if (message.to === this.self) this.answered(message);
    } else if (this.local) {
      if (message.kind === "who") this.post({ kind: "leader", leader: this.self });
      else if (message.kind === "cancel") this.guests.get(message.from)?.calls.get(message.id)?.abort();
      else if (message.leader === this.self) void this.serve(message, this.local);
      else this.post({ kind: "leader", leader: this.self }); // it asked the one before
    }
  }

  private answered(message: Extract<Message, { to: string }>): void {
    const pending = this.pending.get(message.id);
    if (!pending) return;
    if (message.kind === "part") return pending.part?.(message.value);
    this.pending.delete(message.id);
    if (message.kind === "error") pending.reject(message.error.code ? systemError(message.error) : new Error(message.error.message));
    else pending.resolve(message.value);
  }

  /** Does what another page asks for. */
  private async serve({ kind, from, id, op, request, numbers }: Pending["message"], local: BrowserCaller): Promise<void> {
    const guest = this.guest(from, local);
    const stop = new AbortController();
    guest.calls.set(id, stop);
    const reply = { to: from, id };
    try {
      let value: unknown;
      if (kind === "call") value = await local.call(op, request, { numbers, signal: stop.signal });
      else for await (const part of local.parts(op as PartsOp, request, { signal: stop.signal })) this.post({ kind: "part", ...reply, value: part });
      if (op === "open") guest.fds.add((value as ResponseOf<"open">).fd);
      if (op === "close") guest.fds.delete((request as { fd?: number }).fd ?? -1);
      this.post({ kind: kind === "call" ? "result" : "end", ...reply, value });
    } catch (error) {
      const { code, syscall, path, dest, message } = error as SystemError;
      this.post({ kind: "error", ...reply, error: { code, syscall, path, dest, message } });
    } finally {
      guest.calls.delete(id);
    }
  }

  /** Knows a page that asks. When it ends, so do its calls and its handles. */
  private guest(from: string, local: BrowserCaller): Guest {
    const known = this.guests.get(from);
    if (known) return known;
    const guest: Guest = { fds: new Set(), calls: new Map() };
    this.guests.set(from, guest);
    void navigator.locks.request(`${this.name}:${from}`, { signal: this.stop.signal }, async () => {
      this.guests.delete(from);
      for (const stop of guest.calls.values()) stop.abort();
      for (const fd of guest.fds) await local.call("close", { fd }).catch(() => undefined); // closed already
    }).catch(() => undefined); // close aborts it
    return guest;
  }
}

function closed(): Error {
  return new ConnectionError("ECONNRESET", "this fs was closed", false);
}

/** Copies content into the buffer of the caller. */
function intoGiven(result: unknown, into: Uint8Array | undefined): unknown {
  const { content } = result as { content?: { value?: unknown } };
  if (!into || !(content?.value instanceof Uint8Array) || content.value.length > into.length) return result;
  into.set(content.value);
  return { ...result as object, content: { ...content, value: into.subarray(0, content.value.length) } };
}
