import { create, fromBinary, toBinary, type DescMethod } from "@bufbuild/protobuf";
import { Buffer } from "buffer/";
import { SharedCaller } from "../../src/opfs/shared.js";
import { services } from "../../src/session/operations.js";

/*
 * The page's half of callers in a browser: test/browser/remote.ts calls these functions. Messages travel as text.
 */

const methods = new Map<string, DescMethod>(services.flatMap(({ methods: all }) => all.map((method): [string, DescMethod] => [method.localName, method])));
const callers = new Map<string, SharedCaller>();
const running = new Map<number, { iterator: AsyncIterator<unknown>; stop: AbortController }>();

/** What became of a call. */
export interface Reply { value?: string; error?: object; done?: boolean }

function callerOf(workspace: string): SharedCaller {
  let caller = callers.get(workspace);
  if (!caller) callers.set(workspace, caller = new SharedCaller(workspace, []));
  return caller;
}

function methodOf(op: string): DescMethod {
  const method = methods.get(op);
  if (!method) throw new TypeError(`no operation is called ${op}`);
  return method;
}

function requestOf(op: string, text: string): object {
  return fromBinary(methodOf(op).input, new Uint8Array(Buffer.from(text, "base64")));
}

async function replyOf(op: string, run: () => Promise<{ value: unknown; done?: boolean }>): Promise<Reply> {
  try {
    const { value, done = false } = await run();
    if (done) return { done };
    const { output } = methodOf(op);
    return { value: Buffer.from(toBinary(output, create(output, value as never))).toString("base64") };
  } catch (error) {
    const { code, syscall, path, dest, message, name } = error as Record<string, string>;
    return { error: { code, syscall, path, dest, message, name } };
  }
}

Object.assign(globalThis, {
  call: (workspace: string, op: string, request: string) => replyOf(op, async () => ({ value: await callerOf(workspace).call(op as "stat", requestOf(op, request)) })),
  begin: (id: number, workspace: string, op: string, request: string) => {
    const stop = new AbortController();
    const iterator = callerOf(workspace).parts(op as "watch", requestOf(op, request), { signal: stop.signal })[Symbol.asyncIterator]();
    running.set(id, { iterator, stop });
  },
  next: (id: number, op: string) => replyOf(op, async () => (await running.get(id)?.iterator.next()) as { value: unknown; done?: boolean }),
  cancel: (id: number) => { running.get(id)?.stop.abort(); },
  forget: (id: number) => {
    running.get(id)?.stop.abort();
    running.delete(id);
  },
  end: (workspace: string) => callerOf(workspace).close(),
});
