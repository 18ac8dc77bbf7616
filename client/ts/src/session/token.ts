import type { Session } from "./session.js";
import { background } from "./timers.js";

/** A bearer token, or a function that gives a current one. */
export type TokenSource = string | (() => string | Promise<string>);

/** Renew so long before a token expires, in ms, or a fifth of its life if that is less. */
const ahead = 60_000;
/** Time until another try when a renewal failed, in ms. */
const pause = 5_000;

/** Gives tokens to sessions, and further ones before they expire. */
export class Renewal {
  /** The token that was given last. */
  current = "";
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly source: TokenSource) {}

  /** A current token; "" for none. */
  async token(): Promise<string> {
    this.current = typeof this.source === "function" ? await this.source() : this.source;
    return this.current;
  }

  /** Renews the token of a session in time. A fixed token cannot be. */
  schedule(session: Session): void {
    this.after(session, Number(session.ready.expiresNs / 1_000_000n));
  }

  /** Renews no more. */
  stop(): void {
    clearTimeout(this.timer);
  }

  private after(session: Session, expires: number): void {
    this.stop();
    if (expires === 0 || typeof this.source !== "function") return;
    const life = Math.max(0, expires - Date.now());
    this.timer = background(life - Math.min(ahead, life / 5), () => void this.renew(session, expires));
  }

  /** A refusal changes nothing: the session keeps its token. */
  private async renew(session: Session, expires: number): Promise<void> {
    try {
      const { expiresNs } = await session.refresh(await this.token());
      const next = Number(expiresNs / 1_000_000n);
      if (next > expires) this.after(session, next); // else the source has no further one
    } catch {
      if (!session.over && Date.now() < expires) this.timer = background(pause, () => void this.renew(session, expires));
    }
  }
}
