import { invalidArgType } from "../errors/node.js";

/** An array of views, as readv and writev take. */
export function viewArray(value: unknown): ArrayBufferView[] {
  if (!Array.isArray(value) || !value.every((v) => ArrayBuffer.isView(v))) throw invalidArgType("buffers", "ArrayBufferView[]", value);
  return value;
}

/** The error for what should be a buffer. */
export function notAView(value: unknown): Error {
  return invalidArgType("buffer", ["Buffer", "TypedArray", "DataView"], value);
}
