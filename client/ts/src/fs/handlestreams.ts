import { nodeError } from "../errors/node.js";
import type { StreamOperations } from "../platform/types.js";
import type { FileHandle } from "./handle.js";

/** What a byte stream reads at once. */
const chunkSize = 64 << 10;

/** Makes a stream that works on a handle: either's end closes the other. */
export function handleStream<T extends { close(): void }>(handle: FileHandle, make: (operations: StreamOperations) => T): T {
  const stream = make(operationsOf(handle));
  handle.on("close", () => { stream.close(); });
  return stream;
}

function operationsOf(handle: FileHandle): StreamOperations {
  return {
    open: () => { throw nodeError(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The open() method is not implemented"); },
    close: (_, done) => { handle.close().then(() => { done(); }, done); },
    fsync: (_, done) => { handle.sync().then(() => { done(); }, done); },
    read: (_, buffer, offset, length, position, done) => {
      handle.read(buffer, offset, length, position).then((r) => { done(null, r.bytesRead, r.buffer); }, (error: unknown) => { done(error, 0, buffer); });
    },
    write: (_, buffer, offset, length, position, done) => {
      handle.write(buffer, offset, length, position).then((r) => { done(null, r.bytesWritten, r.buffer); }, (error: unknown) => { done(error, 0, buffer); });
    },
    writev: (_, buffers, position, done) => {
      handle.writev(buffers, position).then((r) => { done(null, r.bytesWritten, r.buffers); }, (error: unknown) => { done(error, 0, buffers); });
    },
  };
}

/** Makes a byte stream of the web from the handle's position on. It ends when the handle closes; with autoClose its end closes the handle. */
export function webStream(handle: FileHandle, autoClose: boolean): ReadableStream<Uint8Array> {
  let over = false;
  const end = async (): Promise<void> => {
    over = true;
    if (autoClose) await handle.close();
  };
  let control: ReadableByteStreamController | undefined;
  handle.once("close", () => {
    if (!over) control?.close();
    over = true;
  });
  return new ReadableStream({
    type: "bytes",
    start: (controller) => { control = controller; },
    async pull(controller) {
      const bytes = new Uint8Array(chunkSize);
      const { bytesRead } = await handle.read(bytes);
      if (over) return;
      if (bytesRead > 0) {
        controller.enqueue(bytes.subarray(0, bytesRead));
        return;
      }
      over = true;
      controller.close();
      controller.byobRequest?.respond(0);
      await end();
    },
    cancel: end,
  });
}
