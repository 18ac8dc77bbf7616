// What a person types into a terminal goes to the server in order: one request at a time, with all that was typed meanwhile.
import { joined } from "../api";

/** How much one request carries; the server takes up to 1 MiB. */
const most = 256 * 1024;

export interface Input {
  /** Adds what was typed or pasted. */
  push(text: string): void;
  /** Adds bytes that are no text: reports of the mouse. */
  pushBytes(bytes: Uint8Array): void;
}

/**
 * Makes a queue. It sends at most once in a frame. After a failure it drops what waits, so that nothing is typed into a terminal that came
 * back in another state, and reports the failure.
 */
export function inputQueue(send: (bytes: Uint8Array) => Promise<void>, failed: (error: unknown) => void, frame: (run: () => void) => void = nextFrame): Input {
  const encoder = new TextEncoder();
  let waiting: Uint8Array[] = [];
  let busy = false;
  const flush = async (): Promise<void> => {
    try {
      while (waiting.length > 0) {
        const bytes = joined(waiting);
        waiting = bytes.length > most ? [bytes.slice(most)] : [];
        await send(bytes.subarray(0, most));
      }
    } catch (error) {
      waiting = [];
      failed(error);
    } finally {
      busy = false;
    }
  };
  const pushBytes = (bytes: Uint8Array): void => {
    if (bytes.length === 0) return;
    waiting.push(bytes);
    if (busy) return;
    busy = true;
    frame(() => void flush());
  };
  return { pushBytes, push: (text) => { pushBytes(encoder.encode(text)); } };
}

function nextFrame(run: () => void): void {
  requestAnimationFrame(() => { run(); });
}
