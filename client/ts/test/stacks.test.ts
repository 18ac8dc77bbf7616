import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, createFs, type CtxFs } from "../src/index.js";
import { startServer, type Server } from "../src/server/index.js";
import { startProxy } from "./proxy.js";
import { startTestServer, type TestServer } from "./serve.js";

/*
 * The stack of an error names the function of the program that made the call, as Node's readFile does. A reply arrives in a
 * socket's handler, so a stack from there would name no line of the program.
 */

let server: TestServer;
let host: Server;
let token: string;
beforeAll(async () => {
  server = await startTestServer();
  host = await startServer({ workspace: server.workspace });
  ({ token } = await server.openPanel("stacks"));
});
afterAll(async () => {
  await host.stop();
  await server.stop();
});

/** Calls run from a function of a known name, and returns the error that it got. */
async function caught(run: () => unknown): Promise<Error> {
  try {
    await lineOfTheProgram(run);
  } catch (error) {
    return error as Error;
  }
  throw new Error("the call did not fail");
}

async function lineOfTheProgram(run: () => unknown): Promise<void> {
  const result = run();
  if (typeof result === "object" && result !== null && "next" in result) await (result as AsyncGenerator).next();
  else await result;
}

const stop = new AbortController();
stop.abort();

const calls: Record<string, (fs: CtxFs) => unknown> = {
  stat: (fs) => fs.stat("/nope"), readFile: (fs) => fs.readFile("/nope"), "readFile of a directory": (fs) => fs.readFile("/"),
  writeFile: (fs) => fs.writeFile("/nope/x", ""), "writeFile in pieces": (fs) => fs.writeFile("/nope/x", ["a"]), appendFile: (fs) => fs.appendFile("/nope/x", ""),
  open: (fs) => fs.open("/nope"), truncate: (fs) => fs.truncate("/nope"), copyFile: (fs) => fs.copyFile("/nope", "/x"), cp: (fs) => fs.cp("/nope", "/x"),
  mkdir: (fs) => fs.mkdir("/nope/x"), mkdtemp: (fs) => fs.mkdtemp("/nope/x"), readdir: (fs) => fs.readdir("/nope"), opendir: (fs) => fs.opendir("/nope"),
  rm: (fs) => fs.rm("/nope"), "rm of a directory": (fs) => fs.rm("/repo"), rmdir: (fs) => fs.rmdir("/nope"), unlink: (fs) => fs.unlink("/nope"),
  rename: (fs) => fs.rename("/nope", "/x"), access: (fs) => fs.access("/nope"), realpath: (fs) => fs.realpath("/nope"), utimes: (fs) => fs.utimes("/nope", 1, 1),
  watch: (fs) => fs.watch("/nope"), "Promise.all": (fs) => Promise.all([fs.stat("/"), fs.stat("/nope")]),
  "an aborted readFile": (fs) => fs.readFile("/repo/hello.txt", { signal: stop.signal }),
  "readFile aborted under way": (fs) => {
    const abort = new AbortController();
    setImmediate(() => { abort.abort(); });
    return fs.readFile("/repo/hello.txt", { signal: abort.signal }).then(async () => { abort.abort(); await fs.readFile("/", { signal: abort.signal }); });
  },
  "read of a handle": async (fs) => {
    await using handle = await fs.open("/repo/w", "w");
    await handle.read();
  },
};

describe.each(["ws", "grpc"] as const)("over %s", (transport) => {
  let fs: CtxFs;
  beforeAll(async () => { fs = await connect({ socket: server.socket, token, transport }); });
  afterAll(() => fs.disconnect());

  test.each(Object.entries(calls))("%s", async (_, run) => {
    const error = await caught(() => run(fs));
    expect(error.stack).toContain("lineOfTheProgram");
    expect(error.stack?.split("\n")[0]?.endsWith(`: ${error.message}`), error.stack).toBe(true);
    expect(error.stack?.split("\n").filter((line) => line.includes("/src/session/")).length, "few of the client's own functions").toBeLessThan(2);
  });

  test("a caller of many that wait for one connection", async () => {
    const lazy = createFs({ socket: server.socket, token: "refused", transport });
    const errors = await Promise.all([caught(() => lazy.stat("/")), caught(() => lazy.stat("/"))]);
    expect(errors.map((error) => (error as NodeJS.ErrnoException).code)).toEqual(["EACCES", "EACCES"]);
    for (const { stack } of errors) expect(stack).toContain("lineOfTheProgram");
    expect(errors[0]).not.toBe(errors[1]);
  });

  test("a lost connection", async () => {
    const proxy = await startProxy(server.socket);
    await using through = await connect({ address: proxy.address, token, transport });
    proxy.mute();
    const failed = caught(() => through.writeFile("/lost", "x"));
    await server.ctxfs("health");
    proxy.cut();
    expect((await failed).stack).toContain("lineOfTheProgram");
    await proxy.close();
  });
});

test("a host's call", async () => {
  expect((await caught(() => host.openPanel("a b"))).stack).toContain("lineOfTheProgram");
});
