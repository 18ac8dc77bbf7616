import { afterAll, beforeAll, expect, test } from "vitest";
import { fsOver } from "../../src/index.js";
import { startStorage, type Storage } from "./remote.js";


let storage: Storage;
beforeAll(async () => { storage = await startStorage(); });
afterAll(() => storage.stop());

test("several pages work in one workspace, and another one takes over when the first ends", async () => {
  const context = await storage.newContext();
  const [one, two, three] = [await storage.open(context), await storage.open(context), await storage.open(context)];
  const [a, b, c] = [one, two, three].map((page) => fsOver(page.caller("shared"))) as [ReturnType<typeof fsOver>, ReturnType<typeof fsOver>, ReturnType<typeof fsOver>];
  await a.writeFile("/a", "from the first");
  await b.mkdir("/dir");
  await Promise.all(Array.from({ length: 20 }, (_, i) => (i % 2 ? b : c).appendFile("/dir/log", `${i}\n`)));
  expect((await a.readFile("/dir/log", "utf8")).trim().split("\n").map(Number).sort((x, y) => x - y)).toEqual(Array.from({ length: 20 }, (_, i) => i));
  expect(await c.readFile("/a", "utf8")).toBe("from the first");
  await expect(b.readFile("/none")).rejects.toMatchObject({ code: "ENOENT", syscall: "open", path: "/none" });

  const changes = c.watch("/dir", { recursive: true })[Symbol.asyncIterator]();
  let seen: unknown;
  void changes.next().then(({ value }) => { seen = value; });
  await expect.poll(async () => {
    await a.writeFile("/dir/seen", "");
    return seen;
  }).toMatchObject({ filename: "seen" });

  const handle = await b.open("/dir/log", "r+");
  expect((await handle.read(Buffer.alloc(2), 0, 2, 0)).bytesRead).toBe(2);
  const lost = (async () => {
    for (;;) await changes.next();
  })().catch((error: unknown) => error);
  await one.page.close();
  expect(await b.readFile("/a", "utf8"), "what changes nothing is asked again").toBe("from the first");
  await b.writeFile("/b", "after the first has gone");
  expect(await c.readFile("/b", "utf8")).toBe("after the first has gone");
  expect(await c.readFile("/a", "utf8")).toBe("from the first");
  await c.open("/a"); // which gets the number that b's handle had
  await expect(handle.read(Buffer.alloc(2), 0, 2, 0)).rejects.toMatchObject({ code: "EBADF" });
  expect(await lost).toMatchObject({ code: "ECONNRESET" });

  await b.disconnect();
  expect(await c.readFile("/dir/log", "utf8")).toHaveLength(50);
  await expect(b.readFile("/a")).rejects.toMatchObject({ code: "ECONNRESET" });
  await context.close();
});

test("handles of a page that ends are closed", async () => {
  const context = await storage.newContext();
  const [one, two] = [await storage.open(context), await storage.open(context)];
  const [a, caller] = [one.caller("handles"), two.caller("handles")];
  await a.call("writeFile", { path: "/a", content: { case: "text", value: "x" } });
  await caller.call("open", { path: "/a" });
  expect((await a.call("listHandles", {})).handles).toHaveLength(1);
  await two.page.close();
  await expect.poll(async () => (await a.call("listHandles", {})).handles).toEqual([]);
  await context.close();
});
