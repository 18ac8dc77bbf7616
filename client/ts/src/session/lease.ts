import { background } from "./timers.js";

/** Longest pause between two tries to come back, in ms. */
const longestPause = 4000;

/**
 * Brings a lost session back while handles are open, before the server's grace ends. Without it a handle that is not
 * used just then would be closed although the server can be reached again.
 */
export class Lease {
  private holders = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** begin begins a session, or rejects. */
  constructor(private readonly begin: () => Promise<void>) {}

  /** Counts a handle until the returned function is called. */
  hold(): () => void {
    this.holders++;
    let held = true;
    return () => {
      if (held) this.holders--;
      held = false;
    };
  }

  /** Tries to come back for graceMs. */
  lost(graceMs: number): void {
    this.again(0, Date.now() + graceMs);
  }

  /** Tries no more. */
  stop(): void {
    this.holders = 0;
    clearTimeout(this.timer);
  }

  private again(pause: number, until: number): void {
    clearTimeout(this.timer);
    if (this.holders === 0 || Date.now() + pause > until) return;
    this.timer = background(pause, () => {
      if (this.holders === 0) return;
      this.begin().catch(() => { this.again(Math.min(longestPause, pause * 2 || 250), until); });
    });
  }
}
