import type { Dialer, Link } from "../session/link.js";
import { background } from "../session/timers.js";
import { defaultWindow, Inflow, Outflow } from "./flow.js";
import { frameOf, tight, type Frame } from "./frames.js";
import { Port, type AnyPort } from "./port.js";

/** How long a bridge has to answer, in ms. */
const answerTimeout = 30_000;

/** A port whose other end a bridge serves, or what gives one: it is asked again when the last one closed. */
export type PortSource = AnyPort | (() => AnyPort | Promise<AnyPort>);

/** Makes links through a port, for a panel. Whose panel it is, and its token, the host knows alone. */
export function portDialer(source: PortSource): Dialer {
  let open: Promise<PanelPort> | undefined;
  let last: PanelPort | undefined;
  const begin = async (): Promise<PanelPort> => {
    const raw = await (typeof source === "function" ? source() : source);
    last = new PanelPort(new Port(raw));
    return last;
  };
  const port = (): Promise<PanelPort> => {
    if (last?.over) {
      if (typeof source !== "function") return Promise.reject(new Error("the bridge has closed this panel's port: ask it for another"));
      open = undefined;
      last = undefined;
    }
    open ??= begin().catch((why: unknown) => { open = undefined; throw why; });
    return open;
  };
  return {
    tokenInOpen: false,
    dial: async () => (await port()).dial(),
    close: () => { last?.close(); },
  };
}

/** The panel's end of a port. */
class PanelPort {
  private current: PortLink | undefined;
  private links = 0;

  constructor(private readonly port: Port) {
    port.onmessage = (message) => { this.receive(message); };
    const stop = onPageEnd(() => { port.close(); });
    port.onclose = () => {
      stop();
      this.current?.ended("the bridge closed the panel's port");
    };
    port.keepAlive(false);
  }

  get over(): boolean {
    return this.port.over;
  }

  dial(): Promise<Link> {
    return new Promise((resolve, reject) => {
      this.current?.ended("another link took its place");
      this.current = new PortLink(++this.links, this.port, resolve, reject);
    });
  }

  close(): void {
    this.port.close();
  }

  private receive(message: unknown): void {
    const frame = frameOf(message);
    if (frame && frame[1] === this.current?.number) this.current.receive(frame);
  }
}

/** Browsers report late, or never, to the other end of a port that a document has gone. The document reports it itself. */
function onPageEnd(end: () => void): () => void {
  if (typeof document === "undefined") return () => undefined;
  const hidden = (event: PageTransitionEvent): void => { if (!event.persisted) end(); };
  window.addEventListener("pagehide", hidden);
  return () => { window.removeEventListener("pagehide", hidden); };
}

/** One link through a port. */
class PortLink implements Link {
  onmessage: ((message: Uint8Array) => void) | null = null;
  onclose: ((why: Error) => void) | null = null;
  private readonly out = new Outflow(defaultWindow, (bytes) => { this.post(bytes); });
  private readonly in = new Inflow(defaultWindow, (bytes) => { this.port.post(["ack", this.number, bytes] satisfies Frame); });
  private transfers = false;
  private over = false;
  private readonly timer = background(answerTimeout, () => { this.close("no bridge has answered at the other end of this port"); });

  constructor(
    readonly number: number, private readonly port: Port,
    private readonly opened: (link: Link) => void, private readonly refused: (why: Error) => void,
  ) {
    port.keepAlive(true);
    port.post(["open", number] satisfies Frame);
  }

  get bufferedAmount(): number {
    return this.out.buffered;
  }

  send(message: Uint8Array): void {
    if (!this.over) this.out.send(message);
  }

  close(reason = "the link was closed"): void {
    if (this.over) return;
    this.port.post(["close", this.number] satisfies Frame);
    this.ended(reason);
  }

  keepAlive(on: boolean): void {
    this.port.keepAlive(on);
  }

  receive(frame: Frame): void {
    switch (frame[0]) {
      case "opened":
        clearTimeout(this.timer);
        this.transfers = frame[2] && this.port.transfers;
        return this.opened(this);
      case "data":
        this.in.came(frame[2].byteLength);
        this.onmessage?.(new Uint8Array(frame[2]));
        return this.in.gone(frame[2].byteLength);
      case "ack":
        return this.out.ack(frame[2]);
      case "closed":
        return this.ended(frame[2]);
      default: // what only panels say
    }
  }

  /** Ends it without telling the host. */
  ended(reason: string): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.timer);
    this.port.keepAlive(false);
    const why = new Error(reason);
    this.refused(why); // which does nothing once it was opened
    this.onclose?.(why);
  }

  private post(bytes: Uint8Array): void {
    const buffer = tight(bytes);
    this.port.post(["data", this.number, buffer] satisfies Frame, this.transfers ? buffer : undefined);
  }
}
