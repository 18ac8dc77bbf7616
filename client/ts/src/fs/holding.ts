import { nodeMajor, warnOnce } from "#platform";
import { background } from "../session/timers.js";
import type { Core } from "./core.js";

/** How often the client uses a handle to keep it open, in ms: far below the five minutes after which the server closes an idle one. */
const pause = 60_000;

/** Closes the handles that the program lost without closing them. */
const lost = new FinalizationRegistry<() => void>((close) => { close(); });

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
  lost.register(holder, () => {
    release();
    caller.call("close", { fd }, { background: true }).then(() => { warnOfLost(fd); }, () => { /* the server has closed it */ });
  }, token);
  return () => {
    lost.unregister(token);
    release();
  };
}

/** Warns as Node does. From version 25 on Node ends the process for this, which a handle of a server is no reason for. */
function warnOfLost(fd: number): void {
  warnOnce(`Closing file descriptor ${fd} on garbage collection`);
  if (nodeMajor >= 25) return;
  warnOnce(
    "Closing a FileHandle object on garbage collection is deprecated. Please close FileHandle objects explicitly using FileHandle.prototype.close(). "
    + "In the future, an error will be thrown if a file descriptor is closed during garbage collection.", "DEP0137",
  );
}
