import * as nodefs from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, type CtxFs } from "../src/index.js";
import { startTestServer, type TestServer } from "./serve.js";

let server: TestServer;
let panel: { token: string; contextId: string };

beforeAll(async () => {
  server = await startTestServer();
  panel = await server.openPanel("transports");
});
afterAll(() => server.stop());

const transports: Record<string, () => Promise<CtxFs>> = {
  "WebSocket over TCP, as a panel": () => connect({ url: server.url, token: panel.token }),
  "gRPC over a unix socket, as a host": () => connect({ socket: server.socket, transport: "grpc", contextId: panel.contextId }),
  "gRPC over a unix socket, for a panel": () => connect({ socket: server.socket, transport: "grpc", panel: "transports" }),
};

describe.each(Object.entries(transports))("%s", (_, dial) => {
  let fs: CtxFs;
  let real: (name: string) => string;
  beforeAll(async () => {
    fs = await dial();
    real = (name) => join(server.folder(panel.contextId), name);
  });
  afterAll(() => fs.disconnect());

  test("a file that was written is on the disk, and is read back", async () => {
    await fs.writeFile("/a.txt", "äöü");
    expect(await nodefs.readFile(real("a.txt"), "utf8")).toBe("äöü");
    expect(await fs.readFile("/a.txt", "utf8")).toBe("äöü");
    expect(await fs.readFile("/a.txt")).toEqual(Buffer.from("äöü"));
  });

  test("stat tells what the disk tells", async () => {
    const [ours, theirs] = await Promise.all([fs.stat("/repo/hello.txt"), nodefs.stat(real("repo/hello.txt"))]);
    for (const field of ["size", "ino", "mode", "mtimeMs", "nlink", "uid"] as const) expect(ours[field]).toBe(theirs[field]);
    expect(ours.isFile()).toBe(true);
    expect(ours.mtime).toEqual(theirs.mtime);
  });

  test("a missing file is Node's error", async () => {
    const failed = fs.readFile("/nope");
    await expect(failed).rejects.toMatchObject({
      code: "ENOENT", errno: -2, syscall: "open", path: "/nope", message: "ENOENT: no such file or directory, open '/nope'",
    });
  });

  test("a directory is listed", async () => {
    expect(await fs.readdir("/repo")).toEqual(["hello.txt"]);
    const [entry] = await fs.readdir("/repo", { withFileTypes: true });
    expect(entry).toMatchObject({ name: "hello.txt", parentPath: "/repo" });
    expect(entry?.isFile()).toBe(true);
  });

  test("content of many megabytes goes both ways", async () => {
    const bytes = Buffer.alloc(9 << 20, "0123456789abcdef!");
    await fs.writeFile("/large", bytes);
    expect(bytes.equals(await nodefs.readFile(real("large")))).toBe(true);
    expect(bytes.equals(await fs.readFile("/large"))).toBe(true);
  });

  test("many calls at once are all answered, each by its own", async () => {
    const names = Array.from({ length: 500 }, (_, i) => `/many-${i}`);
    await Promise.all(names.map((name, i) => fs.writeFile(name, String(i))));
    expect(await Promise.all(names.map((name) => fs.readFile(name, "utf8")))).toEqual(names.map((_, i) => String(i)));
  });

  test("a handle reads, writes and closes", async () => {
    const handle = await fs.open("/h.txt", "w+");
    await handle.write("hello world");
    const buffer = Buffer.alloc(5);
    expect(await handle.read(buffer, 0, 5, 6)).toMatchObject({ bytesRead: 5 });
    expect(buffer.toString()).toBe("world");
    await handle.close();
    expect(handle.fd).toBe(-1);
    await expect(handle.stat()).rejects.toMatchObject({ code: "EBADF", syscall: "fstat", message: "file closed" });
  });
});
