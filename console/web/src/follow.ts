// Streams that a view follows. They end while the page is hidden, since browsers open at most six connections to a server without TLS, for all
// tabs together. They begin again when the page is visible, and after the server was away.
import { ApiError } from "./api";

/**
 * Runs work that reads a stream, and runs it again when the page comes back into sight or the server was away. Work calls its second argument
 * when it has an answer. `lost` is called each time that the server is away. Returns when work does, and throws what work throws otherwise.
 */
export function follow(signal: AbortSignal, lost: () => void, work: (signal: AbortSignal, answered: () => void) => Promise<void>): Promise<void> {
  return whileVisible(signal, (shown) => retrying(shown, lost, work));
}

/** Says whether the server did not answer, or is starting or stopping. A stream that has begun ends with EAGAIN then. */
function isAway(error: unknown): boolean {
  return error instanceof ApiError ? error.status === 0 || error.status === 503 || error.reason === "EAGAIN" : error instanceof TypeError;
}

/**
 * Runs work while the page is visible, and ends it while the page is hidden. Returns when work does, and throws what work throws. The signal
 * ends both.
 */
async function whileVisible(signal: AbortSignal, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  for (;;) {
    await visible(signal);
    const hidden = new AbortController();
    const hide = (): void => { if (document.hidden) hidden.abort(); };
    document.addEventListener("visibilitychange", hide);
    try {
      await work(AbortSignal.any([signal, hidden.signal]));
      return;
    } catch (error) {
      if (signal.aborted || !hidden.signal.aborted) throw error;
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
  }
}

/** Waits until the page is visible. Throws the signal's reason. */
async function visible(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (!document.hidden) return;
  await new Promise<void>((resolve, reject) => {
    const ended = new AbortController();
    const { signal: off } = ended;
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { ended.abort(); resolve(); } }, { signal: off });
    signal.addEventListener("abort", () => { ended.abort(); reject(signal.reason as Error); }, { signal: off });
  });
}

/** Waits for a time. Throws the signal's reason. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const end = (): void => { clearTimeout(timer); reject(signal.reason as Error); };
    const timer = setTimeout(() => { signal.removeEventListener("abort", end); resolve(); }, ms);
    signal.addEventListener("abort", end, { once: true });
  });
}

/** How long to wait before each retry, in ms. The last one repeats. */
const delays = [500, 1000, 2000, 5000];

/** Runs work again after the connection broke or the server was away, with growing pauses, which an answer makes short again. */
async function retrying(signal: AbortSignal, lost: () => void, work: (signal: AbortSignal, answered: () => void) => Promise<void>): Promise<void> {
  let failures = 0;
  for (;;) {
    try {
      await work(signal, () => { failures = 0; });
      return;
    } catch (error) {
      if (signal.aborted || !isAway(error)) throw error;
      lost();
      await pause(delays[Math.min(failures++, delays.length - 1)] ?? 0, signal);
    }
  }
}
