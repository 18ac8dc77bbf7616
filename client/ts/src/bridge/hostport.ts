import { fromBinary } from "@bufbuild/protobuf";
import { SessionResponseSchema } from "../gen/ctxfs/v1/session_pb.js";
import { encodeOpen, encodeRefresh } from "../session/codec.js";
import type { Dialer, Link } from "../session/link.js";
import { background } from "../session/timers.js";
import { defaultWindow, Inflow, Outflow } from "./flow.js";
import { frameOf, tight, type Frame } from "./frames.js";
import type { Port } from "./port.js";

/** While so many bytes of a panel's requests have not left for the server, it may send no more. */
const highWater = 1 << 20;
/** How often the link is asked, in ms. Links do not report when they have sent. */
const drainEvery = 4;
/** Largest request that is forwarded: the server refuses more. */
const largest = 17 << 20;
/** The id of refresh_token, which the panel's own ids, which count from 1, do not reach. */
const refreshId = Number.MAX_SAFE_INTEGER;

/** What the host's end of a port needs. */
export interface HostPortOptions {
  dialer: Dialer;
  /** The panel's token: a current one, each time. */
  token: () => Promise<string>;
  /** Whether token gives further tokens. */
  renews: boolean;
  /** The client instance of the sessions: their handles' owner. */
  instance: string;
}

/**
 * The host's end of a panel's port. It opens the session itself, with the token, and then forwards what it does not
 * read. A panel that does not keep to the frames loses its port.
 */
export class HostPort {
  /** Called once when the port has closed, and why: undefined when the panel closed it. */
  onend: ((misuse: Error | undefined) => void) | null = null;
  private current: HostLink | undefined;
  private last = 0;
  private misuse: Error | undefined;

  constructor(private readonly port: Port, private readonly options: HostPortOptions) {
    port.onmessage = (message) => { this.receive(message); };
    port.onclose = () => { this.end(); };
  }

  /** Closes the port and ends its session. */
  close(): void {
    this.port.close();
  }

  private receive(message: unknown): void {
    const frame = frameOf(message);
    if (!frame || !this.take(frame)) {
      this.misuse = new Error(`a panel sent its bridge what is no frame of it (${what(message)}), and has lost its port`);
      this.close();
    }
  }

  private take(frame: Frame): boolean {
    const [kind, number] = frame;
    if (kind === "open") return this.open(number);
    if (number > this.last) return false;
    if (number === this.current?.number) return this.current.take(frame);
    return true; // of a link that ended
  }

  private open(number: number): boolean {
    if (number <= this.last) return false;
    this.last = number;
    this.current?.close();
    this.current = new HostLink(number, this.port, this.options);
    return true;
  }

  private end(): void {
    this.current?.close();
    this.onend?.(this.misuse);
  }
}

/** A session on the host's connection, and the panel's link to it. */
class HostLink {
  private link: Link | undefined;
  private token = "";
  private readonly out: Outflow;
  private readonly in: Inflow;
  private held = 0;
  private opened = false;
  private told = false;
  private over = false;
  private farewell: string | undefined;
  private draining: ReturnType<typeof setTimeout> | undefined;
  private renewing: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly number: number, private readonly port: Port, private readonly options: HostPortOptions) {
    this.out = new Outflow(defaultWindow, (bytes) => { this.post(bytes); });
    this.in = new Inflow(defaultWindow, (bytes) => { this.port.post(["ack", number, bytes] satisfies Frame); });
    this.dial().catch((why: unknown) => { this.ended(why as Error); });
  }

  /** Takes a frame of the panel; false when it is none that panels may send. */
  take(frame: Frame): boolean {
    switch (frame[0]) {
      case "data": return this.forward(frame[2]);
      case "ack":
        this.acknowledged(frame[2]);
        return true;
      case "close":
        this.close();
        return true;
      default: return false;
    }
  }

  /** Ends the session. The panel is not told. */
  close(): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.draining);
    clearTimeout(this.renewing);
    this.link?.close();
  }

  private async dial(): Promise<void> {
    this.token = await this.options.token();
    const link = await this.options.dialer.dial(this.token);
    if (this.over) {
      link.close();
      return;
    }
    this.link = link;
    link.onmessage = (bytes) => { this.answer(bytes); };
    link.onclose = (why) => { this.ended(why); };
    this.port.post(["opened", this.number, this.port.transfers] satisfies Frame);
  }

  /** The panel's first message is its open, which says nothing that counts here: the host sends its own. */
  private forward(buffer: ArrayBuffer): boolean {
    if (!this.link || buffer.byteLength > largest || !this.in.came(buffer.byteLength)) return false;
    const { instance, dialer } = this.options;
    this.link.send(this.opened ? new Uint8Array(buffer) : encodeOpen(instance, dialer.tokenInOpen ? this.token : ""));
    this.opened = true;
    this.held += buffer.byteLength;
    this.drain();
    return true;
  }

  private drain(): void {
    clearTimeout(this.draining);
    if ((this.link?.bufferedAmount ?? 0) > highWater) {
      this.draining = background(drainEvery, () => { this.drain(); });
      return;
    }
    const { held } = this;
    this.held = 0;
    if (held > 0) this.in.gone(held);
  }

  private answer(bytes: Uint8Array): void {
    if (this.over) return;
    if (!this.told && this.options.renews) this.begun(bytes);
    this.told = true;
    this.out.send(bytes);
    if (this.out.buffered > 0) this.link?.pause?.(true);
  }

  /** The first answer is ready, and says until when the token lives. */
  private begun(bytes: Uint8Array): void {
    const expires = expiryOf(bytes);
    if (expires > 0) this.renewAfter((expires - Date.now()) * 0.8);
  }

  /** Further tokens are asked for as long as the first one. The server's answer goes to the panel, which knows no such id. */
  private renewAfter(pause: number): void {
    this.renewing = background(Math.max(pause, 100), () => {
      this.options.token().then((token) => {
        if (this.over) return;
        this.link?.send(encodeRefresh(refreshId, token));
        this.renewAfter(pause);
      }, () => { /* the session ends with its token, and the panel is told so */ });
    });
  }

  private acknowledged(bytes: number): void {
    this.out.ack(bytes);
    if (this.out.buffered > 0 || this.over) return;
    this.link?.pause?.(false);
    if (this.farewell !== undefined) this.tell(this.farewell);
  }

  /** The server's last messages go before the news that it has ended the session. */
  private ended(why: Error): void {
    if (this.over) return;
    if (this.out.buffered > 0) this.farewell = why.message;
    else this.tell(why.message);
  }

  private tell(reason: string): void {
    this.close();
    this.port.post(["closed", this.number, reason] satisfies Frame);
  }

  private post(bytes: Uint8Array): void {
    const buffer = tight(bytes);
    this.port.post(["data", this.number, buffer] satisfies Frame, this.port.transfers ? buffer : undefined);
  }
}

/** When the token of a session ends, in ms since the epoch; 0 when it does not, or when this is no ready. */
function expiryOf(bytes: Uint8Array): number {
  try {
    const { response } = fromBinary(SessionResponseSchema, bytes);
    return response.case === "ready" ? Number(response.value.expiresNs / 1_000_000n) : 0;
  } catch {
    return 0; // the panel's end says that this is no server's answer
  }
}

function what(message: unknown): string {
  return Array.isArray(message) ? `an array that begins with ${String(message[0]).slice(0, 40)}` : typeof message;
}
