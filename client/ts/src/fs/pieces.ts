import { abortError } from "../errors/node.js";
import { pieceBytes } from "./bytes.js";
import type { Core } from "./core.js";
import { writeOn } from "./transfer.js";

/** Throws an AbortError when the signal has fired. */
export function aborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortError(signal.reason);
}

/** How writePieces works. */
export interface PieceOptions {
  encoding?: string | null | undefined;
  signal?: AbortSignal | undefined;
}

/** Writes content at the handle's position: bytes, or pieces of bytes and text as they come. */
export async function writePieces(
  { caller }: Core, fd: number, content: Uint8Array | Iterable<unknown> | AsyncIterable<unknown>, { encoding, signal }: PieceOptions,
): Promise<void> {
  if (content instanceof Uint8Array) {
    await writeOn(caller, fd, content, { signal });
    return;
  }
  for await (const piece of content) {
    aborted(signal);
    await writeOn(caller, fd, pieceBytes(piece, encoding), { signal });
  }
}
