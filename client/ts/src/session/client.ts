import { ConnectionError } from "../errors/connection.js";
import { withoutStack, withStack } from "../errors/node.js";
import { withWholePaths } from "./errorpaths.js";
import { Aborted, causeOf, Failure, grpcCode, Lost, Refusal } from "./failure.js";
import { Lease } from "./lease.js";
import type { ContentOf, Dialer } from "./link.js";
import { repeats, type CallOptions, type Caller, type OpName, type PartsOp, type RequestInit, type ResponseOf } from "./operations.js";
import { PartQueue } from "./parts.js";
import { Broken, Exchange, Session, type ExchangeOptions } from "./session.js";
import { Renewal, type TokenSource } from "./token.js";
import type { SessionReady } from "../gen/ctxfs/v1/session_pb.js";

/** How soon a session ends, in ms, whose operations its server has cancelled. */
const endsWithin = 1000;
/** How often a request that was not sent is tried. */
const maxTries = 3;

/** How a try ended. */
interface Failed { session: Session; why: unknown }

const none: CallOptions = {};

/** What a client needs to know. */
export interface ClientOptions {
  /** Makes its links. */
  dialer: Dialer;
  /** The bearer token, or what gives one: it is called for each connection, and again before the token expires. */
  token?: TokenSource | undefined;
  /** The context that each request names: a host's. A panel's token says it. */
  contextId?: string | undefined;
}

/**
 * FsService by a session that begins with the first call, and anew after it was lost: under the same client instance,
 * so that handles outlive a lost connection. The client repeats what was not sent and what changes nothing.
 */
export class Client implements Caller {
  private readonly instance = randomName();
  private readonly contextId: string;
  private readonly renewal: Renewal;
  private readonly lease = new Lease(async () => { await this.session(); });
  private current: Session | undefined;
  private beginning: Promise<Session> | undefined;
  private closed = false;

  /** Makes one, which does not connect yet. */
  constructor(private readonly options: ClientOptions) {
    this.contextId = options.contextId ?? "";
    this.renewal = new Renewal(options.token ?? "");
  }

  get maxContent(): number {
    return this.current?.ready.maxContent ?? 256 << 10;
  }

  async ready(): Promise<SessionReady> {
    return (await this.session()).ready;
  }

  hold(): () => void {
    return this.lease.hold();
  }

  close(): Promise<void> {
    this.closed = true;
    this.lease.stop();
    this.renewal.stop();
    this.current?.close();
    this.options.dialer.close();
    return Promise.resolve();
  }

  call<K extends OpName>(op: K, request: RequestInit<K>, options: CallOptions = none): Promise<ResponseOf<K>> {
    const again = repeats(op, request);
    const session = this.current;
    if (!session || options.signal) return this.slow(op, request, again, options);
    // A call that succeeds costs one promise. A failure resolves that promise with another one, whose function makes the
    // Error: so V8 finds the functions that wait for this promise, and shows them in the stack.
    return new Promise((resolve) => {
      const failed = (why: unknown): void => { resolve(this.slow(op, request, again, options, { session, why })); };
      session.request(new Exchange(op, request, resolve as (result: unknown) => void, failed, options));
    });
  }

  async content(of: ContentOf, { signal }: CallOptions = none): Promise<Uint8Array | undefined> {
    await this.session(); // which has the current token
    return this.options.dialer.content?.(this.renewal.current, { ...of, contextId: this.contextId, signal });
  }

  async *parts<K extends PartsOp>(op: K, request: RequestInit<K>, options?: CallOptions): AsyncIterableIterator<ResponseOf<K>> {
    const stop = new AbortController();
    if (options?.signal?.aborted) stop.abort(options.signal.reason);
    const done = onAbort(options?.signal, (why) => { stop.abort(why); });
    const queue = new PartQueue<ResponseOf<K>>();
    const onPart = (part: unknown, used: () => void): void => {
      options?.flow?.received(part as object, used);
      queue.push(part as ResponseOf<K>);
    };
    this.exchange(op, request, false, { ...options, signal: stop.signal, onPart, window: options?.flow?.window }).then(() => { queue.end(); }, (why: unknown) => { queue.fail(why); });
    try {
      yield* queue;
    } catch (why) {
      throw errorOf(why, request);
    } finally {
      done();
      stop.abort();
    }
  }

  private async slow<K extends OpName>(
    op: K, request: RequestInit<K>, again: boolean, options: CallOptions, first?: Failed,
  ): Promise<ResponseOf<K>> {
    try {
      return await this.exchange(op, request, again, options, first) as ResponseOf<K>;
    } catch (why) {
      throw errorOf(why, request);
    }
  }

  /** Sends a request, and repeats it where that is safe. first is how the first try ended, if it was made. Throws a Failure or an Error. */
  private async exchange(op: OpName, request: object, again: boolean, options: CallOptions & ExchangeOptions, first?: Failed): Promise<unknown> {
    let lost: Broken | undefined;
    let failed = first;
    const changes = !again && !options.onPart; // what comes in parts changes nothing, but its consumer has had some
    for (let tries = 1; ; tries++) {
      if (!failed) {
        const session = await this.session(lost);
        try {
          return await this.once(session, op, request, options);
        } catch (why) {
          failed = { session, why };
        }
      }
      const why = await this.orEnd(failed, options.signal);
      if (!(why instanceof Broken)) throw why;
      lost = why;
      failed = undefined;
      if (why.sent ? !again || tries > 1 : tries >= maxTries) throw new Lost(why.why, why.sent && changes);
    }
  }

  private once(session: Session, op: OpName, request: object, options: CallOptions & ExchangeOptions): Promise<unknown> {
    const { signal } = options;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(new Aborted(signal.reason));
      const exchange = new Exchange(op, request, (result) => { done(); resolve(result); }, (why) => { done(); reject(why); }, options);
      const done = onAbort(signal, (why) => {
        const reason = new Aborted(why);
        session.cancel(exchange, reason);
        exchange.reject(reason);
      });
      session.request(exchange);
    });
  }

  /**
   * A server that ends a session cancels the calls under way, and may send these replies before it says why it ends the
   * session. The reason of the end is then the reason of the failure.
   */
  private async orEnd({ session, why }: Failed, signal: AbortSignal | undefined): Promise<unknown> {
    if (!(why instanceof Refusal) || why.grpc !== grpcCode.cancelled || signal?.aborted) return why;
    const end = await session.endsWithin(endsWithin);
    return end ? new Broken(true, end) : why;
  }

  /** Returns the session, beginning one if need be. lost is why the call's last one ended. */
  private async session(lost?: Broken): Promise<Session> {
    if (this.closed) throw new ConnectionError("ECONNRESET", "this fs was closed", false);
    if (this.current) return this.current;
    this.beginning ??= this.begin().finally(() => { this.beginning = undefined; });
    try {
      return await this.beginning;
    } catch (error) {
      throw lost ? new Lost(lost.why, false) : refused(error);
    }
  }

  private async begin(): Promise<Session> {
    const { dialer } = this.options;
    const token = await this.renewal.token();
    const link = await dialer.dial(token);
    const session = await Session.begin(link, { instance: this.instance, token: dialer.tokenInOpen ? token : "", contextId: this.contextId }, {
      onend: () => { this.onend(session); },
    });
    if (this.closed) {
      session.close();
      throw new ConnectionError("ECONNRESET", "this fs was closed", false);
    }
    this.current = session;
    this.renewal.schedule(session);
    return session;
  }

  private onend(session: Session): void {
    if (this.current === session) this.current = undefined;
    this.renewal.stop();
    this.lease.lost(Number(session.ready.graceMs));
  }
}

/** Makes the Error that a caller gets, with the whole paths of its request. The function that calls this is the first of its stack. */
function errorOf(why: unknown, request: object): unknown {
  return why instanceof Failure ? withStack(withoutStack(() => withWholePaths(why.error(), request)), errorOf) : why;
}

/** Makes the Error of a call whose session could not begin. */
function refused(why: unknown): Error {
  if (why instanceof ConnectionError) return why;
  const { grpc, message } = why as { grpc?: number; message: string };
  if (grpc === grpcCode.unauthenticated) return new ConnectionError("EACCES", `ctxfs refused the token (${message})`, false, causeOf(why));
  if (why instanceof Refusal && why.isSystemError) return why.error();
  return new ConnectionError("ECONNREFUSED", `no ctxfs server was reached (${message})`, false, causeOf(why));
}

/**
 * Calls run when the signal fires, until the returned function is called. A Proxy around a signal serves too, which
 * AbortSignal.any() refuses from Node 26 on.
 */
function onAbort(signal: AbortSignal | undefined, run: (reason: unknown) => void): () => void {
  if (!signal) return () => undefined;
  const abort = (): void => { run(signal.reason); };
  signal.addEventListener("abort", abort, { once: true });
  return () => { signal.removeEventListener("abort", abort); };
}

/** Returns a unique name for this running copy. */
function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
