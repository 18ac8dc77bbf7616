import type { CallOptions, Caller } from "../session/operations.js";

/** Bytes that may be under way for one file: more would not be faster, and would keep other calls waiting. */
const window = 2 << 20;

/** Runs task for each part of length bytes, so many at once as the window allows, and stops at the first failure. */
async function eachPart(caller: Caller, length: number, task: (from: number, to: number) => Promise<boolean>): Promise<void> {
  const size = caller.maxContent;
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < length) {
      const from = next;
      next = Math.min(length, from + size);
      try {
        if (!await task(from, next)) next = length;
      } catch (error) {
        next = length;
        throw error;
      }
    }
  };
  const workers = Math.min(Math.ceil(length / size), Math.max(1, Math.floor(window / size)));
  await Promise.all(Array.from({ length: workers }, worker));
}

/** Reads into bytes from position on, in parts that travel at once. Returns how many were read: fewer at the end of the file. */
export async function readAt(caller: Caller, fd: number, bytes: Uint8Array, position: number, options?: CallOptions): Promise<number> {
  let end = bytes.length;
  await eachPart(caller, bytes.length, async (from, to) => {
    const n = await readPart(caller, fd, bytes, from, to, BigInt(position + from), options);
    if (n < to - from) end = Math.min(end, from + n);
    return n === to - from;
  });
  return end;
}

/** Reads size bytes from position on: beside the session where there are many and there is such a way. Fewer bytes mean the end. */
export async function readPiece(caller: Caller, fd: number, position: number, size: number): Promise<Uint8Array> {
  const beside = size > caller.maxContent ? await caller.content?.({ fd, start: position, end: position + size - 1 }) : undefined;
  if (beside) return beside;
  const bytes = new Uint8Array(size);
  return bytes.subarray(0, await readAt(caller, fd, bytes, position));
}

/** Reads into bytes from the handle's own position. Returns how many were read: fewer at the end of the file. */
export async function readOn(caller: Caller, fd: number, bytes: Uint8Array, options?: CallOptions): Promise<number> {
  let done = 0;
  while (done < bytes.length) {
    const to = Math.min(bytes.length, done + caller.maxContent);
    const n = await readPart(caller, fd, bytes, done, to, -1n, options);
    done += n;
    if (done < to) break;
  }
  return done;
}

async function readPart(
  caller: Caller, fd: number, bytes: Uint8Array, from: number, to: number, position: bigint, options?: CallOptions,
): Promise<number> {
  const into = bytes.subarray(from, to);
  const { content } = await caller.call("read", { fd, position, length: BigInt(to - from) }, { ...options, into });
  if (content.case !== "data") return 0;
  if (content.value.buffer !== bytes.buffer) into.set(content.value);
  return content.value.length;
}

/** Writes bytes from position on, in parts that travel at once. */
export async function writeAt(caller: Caller, fd: number, bytes: Uint8Array, position: number, options?: CallOptions): Promise<void> {
  await eachPart(caller, bytes.length, async (from, to) => {
    await writePart(caller, fd, bytes.subarray(from, to), BigInt(position + from), options);
    return true;
  });
}

/** Writes bytes at the handle's own position, or at the end of a file opened to append. */
export async function writeOn(caller: Caller, fd: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
  for (let from = 0; from < bytes.length; from += caller.maxContent) {
    await writePart(caller, fd, bytes.subarray(from, from + caller.maxContent), -1n, options);
  }
}

async function writePart(caller: Caller, fd: number, value: Uint8Array, position: bigint, options?: CallOptions): Promise<void> {
  await caller.call("write", { fd, position, content: { case: "data", value } }, options);
}
