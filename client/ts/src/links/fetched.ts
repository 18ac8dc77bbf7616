import type { Dialer } from "../session/link.js";
import { contentPath, largestContent, type Target } from "./target.js";

/** How long the server may be silent, in ms. */
const silence = 30_000;

/**
 * Reads content by the page's fetch, which is quicker than by a session: the browser receives it outside of the page's thread. Gives
 * undefined when that fails, whatever the reason: then the session reports the error. A request that the browser refuses, for a policy
 * of the page or a server that does not answer its origin, is not tried again.
 */
export function contentByFetch(target: Target, panel?: string): NonNullable<Dialer["content"]> {
  const base = `${target.secure ? "https" : "http"}://${target.host ?? "localhost"}`;
  let refused = false;
  return async (token, request) => {
    if (refused || request.signal?.aborted) return undefined;
    const stop = new AbortController();
    const abort = (): void => { stop.abort(); };
    request.signal?.addEventListener("abort", abort, { once: true });
    try {
      return await download(`${base}${contentPath(request, panel)}`, token, stop);
    } catch {
      return undefined;
    } finally {
      request.signal?.removeEventListener("abort", abort);
      abort(); // what is left of a response that was not read
    }
  };

  async function download(url: string, token: string, stop: AbortController): Promise<Uint8Array | undefined> {
    const timer = new Silence(stop);
    try {
      const response = await fetch(url, {
        headers: token ? { authorization: `Bearer ${token}` } : {},
        credentials: "omit", redirect: "error", cache: "no-store", referrerPolicy: "no-referrer", signal: stop.signal,
      }).catch((error: unknown) => {
        refused ||= error instanceof TypeError;
        throw error;
      });
      return response.status === 200 ? await whole(response, timer) : undefined;
    } finally {
      timer.end();
    }
  }
}

/** The content of a response; undefined when it is not all there. */
async function whole(response: Response, timer: Silence): Promise<Uint8Array | undefined> {
  const length = Number(response.headers.get("content-length") ?? NaN);
  if (!response.body || !(length <= largestContent)) return undefined;
  const content = new Uint8Array(length);
  let size = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return size === length ? content : undefined;
    if (size + value.length > length) return undefined;
    content.set(value, size);
    size += value.length;
    timer.again();
  }
}

/** Ends a request whose server is silent. */
class Silence {
  private timer: ReturnType<typeof setTimeout>;

  constructor(private readonly stop: AbortController) {
    this.timer = this.begin();
  }

  again(): void {
    clearTimeout(this.timer);
    this.timer = this.begin();
  }

  end(): void {
    clearTimeout(this.timer);
  }

  private begin(): ReturnType<typeof setTimeout> {
    return setTimeout(() => { this.stop.abort(); }, silence);
  }
}
