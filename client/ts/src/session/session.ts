import type { SessionReady, SessionRefreshed } from "../gen/ctxfs/v1/session_pb.js";
import { Refusal, type Failure } from "./failure.js";
import * as codec from "./codec.js";
import type { Link } from "./link.js";
import type { OpName } from "./operations.js";
import { Outbox, type Outgoing } from "./outbox.js";
import { encodeRequest } from "./requests.js";
import { decodeResult, type DecodeOptions } from "./results.js";
import { background } from "./timers.js";

/** How long a server has to begin a session, in ms. */
const beginTimeout = 30_000;

const nothing = new Uint8Array(0);

/** Why a session ended: the server's word, or the link's. */
export type EndReason = Refusal | Error;

/** The session ended before the reply. */
export class Broken {
  /** sent says that the server may have received the request. */
  constructor(readonly sent: boolean, readonly why: EndReason) {}
}

/** What may be said of a request besides. */
export interface ExchangeOptions extends DecodeOptions {
  /** Called with each part of a result that comes in parts. With a window, used is to be called when the part was used. */
  onPart?: ((part: unknown, used: () => void) => void) | undefined;
  /** The server sends no further part while as many bytes, encoded, are not used. */
  window?: number | undefined;
  /** The process may end while this is under way. */
  background?: boolean | undefined;
}

/** A request and the functions that get its reply. It is for one session, once. */
export class Exchange implements Outgoing {
  /** The session's: its number and its form on the wire, once it may be sent, and whether it was. */
  id = 0;
  message: Uint8Array = nothing;
  /** How many bytes of parts were used since the last credit. */
  used = 0;
  sent = false;

  /**
   * Asks for operation op. resolve gets the result, or nothing when the result came in parts. reject gets a Broken, the
   * server's Refusal, the reason of a cancel, or the Error of a request that cannot be encoded or a reply that cannot be decoded.
   */
  constructor(
    readonly op: OpName, readonly request: object, readonly resolve: (result: unknown) => void, readonly reject: (why: Failure | Broken | Error) => void,
    readonly options: ExchangeOptions = {},
  ) {}

  /** The request as it travels; its content is the caller's until then. */
  encode(contextId: string): Uint8Array {
    return codec.encodeCall(this.id, this.op, encodeRequest(this.op, this.request, contextId), this.options.window);
  }

  /** Turns a reply into what resolve is given. */
  decode(reply: codec.Reply): unknown {
    return decodeResult(this.op, reply.data, reply.from, reply.to, this.options);
  }
}

/** A refresh_token, which takes its turn as operations do. */
class RefreshExchange extends Exchange {
  override encode(): Uint8Array {
    return codec.encodeRefresh(this.id, (this.request as { token: string }).token);
  }

  override decode(reply: codec.Reply): unknown {
    return codec.refreshedOf(reply);
  }
}

/** As whom a session is opened. */
export interface Identity {
  /** The client instance, whose handles outlive a lost connection. */
  instance: string;
  /** The token that travels in the open message; "" for none. */
  token: string;
  /** The context that each request names; "" for the caller's own. */
  contextId: string;
}

/** What a session says of its own. */
export interface SessionEvents {
  /** It has ended. What was pending has been rejected. */
  onend: (why: EndReason) => void;
}

/** One session on one link. Replies find their requests by id; none waits for another. */
export class Session {
  private readonly pending = new Map<number, Exchange>();
  /** Exchanges that wait because the server would receive nothing, a cancel neither, beyond its bound. */
  private readonly waiting: Exchange[] = [];
  private readonly outbox: Outbox;
  private lastId = 0;
  private foreground = 0;
  private readonly onceEnded: ((why: EndReason) => void)[] = [];
  private ended: EndReason | undefined;
  private closing: Refusal | undefined;

  private constructor(
    private readonly link: Link, readonly ready: SessionReady, private readonly contextId: string, private readonly events: SessionEvents,
  ) {
    this.outbox = new Outbox(link);
    link.onmessage = (bytes) => { this.receive(bytes); };
    link.onclose = (why) => { this.end(why); };
    link.reuseMemory?.();
    link.keepAlive?.(false);
  }

  /** Opens a session on a link, whose requests name contextId. Rejects with the server's reason or the link's. */
  static async begin(link: Link, { instance, token, contextId }: Identity, events: SessionEvents): Promise<Session> {
    return new Session(link, await greet(link, instance, token), contextId, events);
  }

  /** Sends a request, now or as soon as the server takes one more. */
  request(exchange: Exchange): void {
    if (this.ended) exchange.reject(new Broken(false, this.ended));
    else if (this.pending.size >= this.ready.maxInFlight) this.waiting.push(exchange);
    else this.send(exchange);
  }

  /** Cancels a request: it is rejected with reason when it was not sent; else the server answers it. */
  cancel(exchange: Exchange, reason: Failure): void {
    if (this.pending.get(exchange.id) === exchange) {
      this.cancelPending(exchange, reason);
      return;
    }
    const at = this.waiting.indexOf(exchange);
    if (at < 0) return; // its reply is there
    this.waiting.splice(at, 1);
    exchange.reject(reason);
  }

  /** Goes on with a further token; resolves when the server has taken it. */
  refresh(token: string): Promise<SessionRefreshed> {
    return new Promise((resolve, reject) => {
      if (this.ended) return reject(this.ended);
      this.send(new RefreshExchange("stat", { token }, resolve as (result: unknown) => void, reject, { background: true }));
    });
  }

  /** Why it ended; undefined while it lasts. */
  get over(): EndReason | undefined {
    return this.ended;
  }

  /** Waits for the session's end, and returns why it ended; undefined when it has not within ms. */
  endsWithin(ms: number): Promise<EndReason | undefined> {
    if (this.ended) return Promise.resolve(this.ended);
    return new Promise((resolve) => {
      const timer = background(ms, () => { resolve(undefined); });
      this.onceEnded.push((why) => { clearTimeout(timer); resolve(why); });
    });
  }

  /** Ends the session and its link. */
  close(): void {
    this.link.close();
  }

  private send(exchange: Exchange): void {
    exchange.id = ++this.lastId;
    try {
      exchange.message = exchange.encode(this.contextId);
    } catch (error) {
      exchange.reject(error as Error);
      return;
    }
    this.pending.set(exchange.id, exchange);
    if (!exchange.options.background && this.foreground++ === 0) this.link.keepAlive?.(true);
    this.outbox.push(exchange);
  }

  private cancelPending(pending: Exchange, reason: Failure): void {
    if (this.outbox.remove(pending)) {
      this.forget(pending);
      pending.reject(reason);
      return;
    }
    this.outbox.push({ message: codec.encodeCancel(pending.id), sent: false });
  }

  private forget(pending: Exchange): void {
    this.pending.delete(pending.id);
    if (!pending.options.background && --this.foreground === 0) this.link.keepAlive?.(false);
    const next = this.waiting.shift();
    if (next && !this.ended) this.send(next);
  }

  private receive(bytes: Uint8Array): void {
    codec.eachReply(bytes, (reply) => { this.dispatch(reply); });
    this.outbox.schedule();
  }

  private dispatch(reply: codec.Reply): void {
    if (reply.kind === codec.kinds.closing) this.closing = refusalOf(codec.closingOf(reply));
    const pending = this.pending.get(reply.id);
    if (!pending) return;
    if (!reply.more) this.forget(pending);
    try {
      this.deliver(pending, reply);
    } catch (error) {
      pending.reject(error as Error);
    }
  }

  private deliver(pending: Exchange, reply: codec.Reply): void {
    if (reply.kind === codec.kinds.error) pending.reject(new Refusal(codec.errorOf(reply)));
    else if (reply.more) {
      const size = reply.to - reply.from;
      pending.options.onPart?.(pending.decode(reply), () => { this.used(pending, size); });
    }
    else pending.resolve(pending.options.onPart ? undefined : pending.decode(reply)); // the last message holds no part
  }

  /** Gives credit for a part that was used. Half a window goes at once: the server never waits while all parts are used. */
  private used(pending: Exchange, size: number): void {
    const { window } = pending.options;
    pending.used += size;
    if (window === undefined || pending.used < window / 2 || this.pending.get(pending.id) !== pending) return;
    this.outbox.push({ message: codec.encodeCredit(pending.id, pending.used), sent: false });
    pending.used = 0;
  }

  private end(why: EndReason): void {
    if (this.ended) return;
    const reason = this.closing ?? why;
    this.ended = reason;
    const left = [...this.pending.values()];
    this.pending.clear();
    this.link.keepAlive?.(false);
    this.events.onend(reason);
    for (const told of this.onceEnded.splice(0)) told(reason);
    for (const pending of left) pending.reject(new Broken(pending.sent, reason));
    for (const exchange of this.waiting.splice(0)) exchange.reject(new Broken(false, reason));
  }
}

function refusalOf(error: ReturnType<typeof codec.closingOf>): Refusal | undefined {
  return error && new Refusal(error);
}

/** Says hello and waits for ready. */
function greet(link: Link, instance: string, token: string): Promise<SessionReady> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => { fail(new Error("the server did not begin the session in time")); }, beginTimeout);
    const fail = (why: EndReason): void => {
      clearTimeout(timer);
      link.onclose = null;
      link.close();
      reject(why);
    };
    let told: Refusal | undefined;
    link.onclose = (why) => { fail(told ?? why); };
    link.onmessage = (bytes) => {
      codec.eachReply(bytes, (reply) => {
        if (reply.kind === codec.kinds.closing) {
          told = refusalOf(codec.closingOf(reply));
        } else if (reply.kind === codec.kinds.ready) {
          clearTimeout(timer);
          resolve(codec.readyOf(reply));
        } else {
          fail(new Error("the session's first message is not ready: this is no ctxfs server"));
        }
      });
    };
    link.send(codec.encodeOpen(instance, token));
  });
}
