import { background } from "../session/timers.js";
import type { Core } from "./core.js";

/** How often a handle is used by itself, in ms: far below the five minutes after which the server closes an idle one. */
const pause = 60_000;

/** Handles that the program let go of without closing are not kept from idling out. */
const lost = new FinalizationRegistry<() => void>((release) => { release(); });

/** Keeps a handle from idling out while the program holds it, until the returned function is called. */
export function watchOver(holder: object, { caller, pingEvery = pause }: Core, fd: number): () => void {
  const drop = caller.hold();
  let timer: ReturnType<typeof setTimeout>;
  const release = (): void => {
    clearTimeout(timer);
    drop();
  };
  const ping = (): void => {
    timer = background(pingEvery, () => {
      caller.call("fstat", { fd }, { background: true }).then(ping, () => { /* the program's next use tells it */ });
    });
  };
  ping();
  const token = {}; // and not holder, which the timer's closure would then keep
  lost.register(holder, release, token);
  return () => {
    lost.unregister(token);
    release();
  };
}
