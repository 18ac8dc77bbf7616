/**
 * Takes the stack of an error anew, from where the caller is: without the functions up to and including below, and with the
 * present message. Engines that are not V8 keep the stack that the error has.
 */
export function withStack<E>(error: E, below: (...args: never[]) => unknown): E {
  if (error instanceof Error) (Error as { captureStackTrace?: typeof Error.captureStackTrace }).captureStackTrace?.(error, below);
  return error;
}
