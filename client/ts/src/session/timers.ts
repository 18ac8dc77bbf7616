/** The longest time that setTimeout takes, in ms. */
const longest = 2 ** 31 - 1;

/** setTimeout that does not keep a Node process alive. */
export function background(ms: number, run: () => void): ReturnType<typeof setTimeout> {
  const timer = setTimeout(run, Math.min(ms, longest));
  (timer as { unref?: () => void }).unref?.();
  return timer;
}
