import { ConnectionError } from "../errors/connection.js";
import { abortError } from "../errors/node.js";
import { withWholePaths } from "./errorpaths.js";
import { grpcCode, type SessionFailure } from "./failure.js";
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
interface Failure { session: Session; error: unknown }

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
 * so that handles outlive a lost connection. What was not sent, and what changes nothing, is asked again by itself.
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
    // What is asked most goes the shortest way: one promise. A failure goes on where all tries are counted.
    return new Promise((resolve, reject) => {
      const taken = resolve as (result: unknown) => void;
      const failed = (error: Error): void => { this.slow(op, request, again, options, { session, error }).then(taken, reject); };
      session.request(new Exchange(op, request, taken, failed, options));
    });
  }

  async content(of: ContentOf, { signal }: CallOptions = none): Promise<Uint8Array | undefined> {
    await this.session(); // which has the current token
    return this.options.dialer.content?.(this.renewal.current, { ...of, contextId: this.contextId, signal });
  }

  async *parts<K extends PartsOp>(op: K, request: RequestInit<K>, options?: CallOptions): AsyncIterableIterator<ResponseOf<K>> {
    const stop = new AbortController();
    const signal = options?.signal ? AbortSignal.any([stop.signal, options.signal]) : stop.signal;
    const queue = new PartQueue<ResponseOf<K>>();
    const onPart = (part: unknown): void => { queue.push(part as ResponseOf<K>); };
    this.exchange(op, request, false, { ...options, signal, onPart }).then(() => { queue.end(); }, (why: unknown) => { queue.fail(withWholePaths(why, request)); });
    try {
      yield* queue;
    } finally {
      stop.abort();
    }
  }

  private async slow<K extends OpName>(
    op: K, request: RequestInit<K>, again: boolean, options: CallOptions, failure?: Failure,
  ): Promise<ResponseOf<K>> {
    try {
      return await this.exchange(op, request, again, options, failure) as ResponseOf<K>;
    } catch (error) {
      throw withWholePaths(error, request);
    }
  }

  /** Asks, and again what may be asked again. failure is how the first try ended, when that has been made. */
  private async exchange(op: OpName, request: object, again: boolean, options: CallOptions & ExchangeOptions, failure?: Failure): Promise<unknown> {
    let lost: Broken | undefined;
    let failed = failure;
    const changes = !again && !options.onPart; // what comes in parts changes nothing, but its consumer has had some
    for (let tries = 1; ; tries++) {
      if (!failed) {
        const session = await this.session(lost);
        try {
          return await this.once(session, op, request, options);
        } catch (error) {
          failed = { session, error };
        }
      }
      const why = await this.orEnd(failed, options.signal);
      if (!(why instanceof Broken)) throw why;
      lost = why;
      failed = undefined;
      if (why.sent ? !again || tries > 1 : tries >= maxTries) throw broken(why, changes);
    }
  }

  private once(session: Session, op: OpName, request: object, options: CallOptions & ExchangeOptions): Promise<unknown> {
    const { signal } = options;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(abortError(signal.reason));
      const done = (): void => { signal?.removeEventListener("abort", abort); };
      const exchange = new Exchange(op, request, (result) => { done(); resolve(result); }, (error) => { done(); reject(error); }, options);
      const abort = (): void => {
        const reason = abortError(signal?.reason);
        session.cancel(exchange, reason);
        exchange.reject(reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
      session.request(exchange);
    });
  }

  /**
   * A server that ends a session cancels what is under way, and may answer that before it says why: then the end is
   * the answer.
   */
  private async orEnd({ session, error }: Failure, signal: AbortSignal | undefined): Promise<unknown> {
    if ((error as SessionFailure).grpc !== grpcCode.cancelled || signal?.aborted) return error;
    const why = await session.endsWithin(endsWithin);
    return why ? new Broken(true, why) : error;
  }

  /** Returns the session, beginning one if need be. lost is why the call's last one ended. */
  private async session(lost?: Broken): Promise<Session> {
    if (this.closed) throw new ConnectionError("ECONNRESET", "this fs was closed", false);
    if (this.current) return this.current;
    this.beginning ??= this.begin().finally(() => { this.beginning = undefined; });
    try {
      return await this.beginning;
    } catch (error) {
      throw lost ? broken(lost, false) : refused(error);
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

function broken(why: Broken, changes: boolean): ConnectionError {
  const may = why.sent && changes;
  return new ConnectionError("ECONNRESET", `the connection to ctxfs was lost (${why.message})`, may, why.why);
}

/** What a call is told whose session could not begin. */
function refused(error: unknown): Error {
  if (error instanceof ConnectionError) return error;
  const failure = error as SessionFailure;
  if (failure.grpc === grpcCode.unauthenticated) return new ConnectionError("EACCES", `ctxfs refused the token (${failure.message})`, false, error);
  if ("syscall" in failure && failure.grpc !== undefined || "hint" in failure) return failure;
  return new ConnectionError("ECONNREFUSED", `no ctxfs server was reached (${failure.message})`, false, error);
}

/** Returns a name for this running copy that nobody else has. */
function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
