import type { SessionError, SessionReady, SessionRefreshed } from "../gen/ctxfs/v1/session_pb.js";
import { sessionError, type SessionFailure } from "./failure.js";
import * as codec from "./codec.js";
import type { Link } from "./link.js";
import type { OpName } from "./operations.js";
import { Outbox, type Outgoing } from "./outbox.js";
import type { Body } from "./requests.js";
import { decodeResult } from "./results.js";
import { background } from "./timers.js";

/** How long a server has to begin a session, in ms. */
const beginTimeout = 30_000;

const nothing: Body = { head: new Uint8Array(0), content: new Uint8Array(0) };

/** The session ended before the answer. */
export class Broken extends Error {
  /** sent says that the server may have got the request; why is the reason of the end. */
  constructor(readonly sent: boolean, readonly why: Error) {
    super(why.message, { cause: why });
  }
}

/** A request and who waits for its reply. */
export interface Exchange {
  readonly op: OpName;
  /** The encoded request message. */
  readonly body: Body;
  /** Where content of the result goes. */
  readonly into?: Uint8Array | undefined;
  /** Called with each part of a result that comes in parts. */
  readonly onPart?: ((part: unknown) => void) | undefined;
  /** The process may end while this is under way. */
  readonly background?: boolean | undefined;
  /** Called with the result; with nothing when it came in parts. */
  readonly resolve: (result: unknown) => void;
  /** Called with a Broken or what the server said. */
  readonly reject: (error: Error) => void;
}

interface Pending extends Exchange, Outgoing {
  readonly id: number;
  /** Turns the reply into what resolve is given. */
  readonly decode: (reply: codec.Reply) => unknown;
}

/** What a session says of its own. */
export interface SessionEvents {
  /** It has ended. What was pending has been rejected. */
  onend: (why: Error) => void;
}

/** One session on one link. Replies find their requests by id; none waits for another. */
export class Session {
  private readonly pending = new Map<number, Pending>();
  /** Exchanges that wait because the server would receive nothing, a cancel neither, beyond its bound. */
  private readonly waiting: Exchange[] = [];
  private readonly outbox: Outbox;
  private lastId = 0;
  private foreground = 0;
  private readonly onceEnded: ((why: Error) => void)[] = [];
  private ended: Error | undefined;
  private closing: SessionFailure | undefined;

  private constructor(private readonly link: Link, readonly ready: SessionReady, private readonly events: SessionEvents) {
    this.outbox = new Outbox(link);
    link.onmessage = (bytes) => { this.receive(bytes); };
    link.onclose = (why) => { this.end(why); };
    link.reuseMemory?.();
    link.keepAlive?.(false);
  }

  /** Opens a session on a link. Rejects with the server's reason or the link's. */
  static async begin(link: Link, instance: string, token: string, events: SessionEvents): Promise<Session> {
    return new Session(link, await greet(link, instance, token), events);
  }

  /** Sends a request, now or as soon as the server takes one more. */
  request(exchange: Exchange): void {
    if (this.ended) exchange.reject(new Broken(false, this.ended));
    else if (this.pending.size >= this.ready.maxInFlight) this.waiting.push(exchange);
    else this.send(exchange);
  }

  /** Cancels a request: it is rejected with reason when it was not sent; else the server answers it. */
  cancel(exchange: Exchange, reason: Error): void {
    const at = this.waiting.indexOf(exchange);
    if (at >= 0) {
      this.waiting.splice(at, 1);
      exchange.reject(reason);
      return;
    }
    for (const pending of this.pending.values()) {
      if (pending.resolve === exchange.resolve) this.cancelPending(pending, reason);
    }
  }

  /** Goes on with a further token; resolves when the server has taken it. */
  refresh(token: string): Promise<SessionRefreshed> {
    return new Promise((resolve, reject) => {
      if (this.ended) return reject(this.ended);
      const id = ++this.lastId;
      const message = codec.encodeRefresh(id, token);
      const taken = resolve as (result: unknown) => void;
      this.enter({ id, op: "stat", body: nothing, decode: codec.refreshedOf, message, sent: false, background: true, resolve: taken, reject });
    });
  }

  /** Why it ended; undefined while it lasts. */
  get over(): Error | undefined {
    return this.ended;
  }

  /** Waits for the session's end, and returns why it ended; undefined when it has not within ms. */
  endsWithin(ms: number): Promise<Error | undefined> {
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
    const id = ++this.lastId;
    const { op, body, into, onPart, background, resolve, reject } = exchange;
    const decode = ({ data, from, to }: codec.Reply): unknown => decodeResult(op, data, from, to, into);
    this.enter({ op, body, into, onPart, background, resolve, reject, decode, id, message: codec.encodeOperation(id, op, body), sent: false });
  }

  private enter(pending: Pending): void {
    this.pending.set(pending.id, pending);
    if (!pending.background && this.foreground++ === 0) this.link.keepAlive?.(true);
    this.outbox.push(pending);
  }

  private cancelPending(pending: Pending, reason: Error): void {
    if (this.outbox.remove(pending)) {
      this.forget(pending);
      pending.reject(reason);
      return;
    }
    this.outbox.push({ message: codec.encodeCancel(pending.id), sent: false });
  }

  private forget(pending: Pending): void {
    this.pending.delete(pending.id);
    if (!pending.background && --this.foreground === 0) this.link.keepAlive?.(false);
    const next = this.waiting.shift();
    if (next && !this.ended) this.send(next);
  }

  private receive(bytes: Uint8Array): void {
    codec.eachReply(bytes, (reply) => { this.dispatch(reply); });
    this.outbox.schedule();
  }

  private dispatch(reply: codec.Reply): void {
    if (reply.kind === codec.kinds.closing) this.closing = failureOf(codec.closingOf(reply));
    const pending = this.pending.get(reply.id);
    if (!pending) return;
    if (!reply.more) this.forget(pending);
    try {
      this.deliver(pending, reply);
    } catch (error) {
      pending.reject(error as Error);
    }
  }

  private deliver(pending: Pending, reply: codec.Reply): void {
    if (reply.kind === codec.kinds.error) pending.reject(sessionError(codec.errorOf(reply)));
    else if (reply.more) pending.onPart?.(pending.decode(reply));
    else pending.resolve(pending.onPart ? undefined : pending.decode(reply)); // the last message holds no part
  }

  private end(why: Error): void {
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

function failureOf(error: SessionError | undefined): SessionFailure | undefined {
  return error && sessionError(error);
}

/** Says hello and waits for ready. */
function greet(link: Link, instance: string, token: string): Promise<SessionReady> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => { fail(new Error("the server did not begin the session in time")); }, beginTimeout);
    const fail = (why: Error): void => {
      clearTimeout(timer);
      link.onclose = null;
      link.close();
      reject(why);
    };
    let told: Error | undefined;
    link.onclose = (why) => { fail(told ?? why); };
    link.onmessage = (bytes) => {
      codec.eachReply(bytes, (reply) => {
        if (reply.kind === codec.kinds.closing) {
          told = failureOf(codec.closingOf(reply));
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
