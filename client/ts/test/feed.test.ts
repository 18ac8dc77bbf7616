import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, type CtxFs, type FeedNotice } from "../src/index.js";
import { startTestServer, type TestServer } from "./serve.js";

let server: TestServer;
beforeAll(async () => { server = await startTestServer(); });
afterAll(() => server.stop());

for (const transport of ["ws", "grpc"] as const) {
  test(`the feed continues at its cursor (${transport})`, async () => {
    const panel = `panels/feed-${transport}`;
    const { token } = await server.openPanel(panel);
    const fs: CtxFs = await connect({ socket: server.socket, token, transport });
    try {
      const all = fs.watchChanges();
      const ready = (await all.next()).value as FeedNotice;
      expect(ready.type).toBe("ready");
      await fs.writeFile("a", "x");
      const first = (await all.next()).value as FeedNotice;
      expect(first).toMatchObject({ type: "change", operation: "WriteFile", path: "/a", dest: "", role: "panel", panel, sequence: 1, below: false, failed: "" });
      await all.return();

      await fs.mkdir("d");
      await fs.rename("a", "d/b");
      await fs.batch([{ write: "d/c", data: "x" }, { rename: "d/b", to: "d/e" }]);
      const later: FeedNotice[] = [];
      for await (const notice of fs.watchChanges({ cursor: first.cursor, path: "d/e", follow: false })) later.push(notice);
      expect(later).toMatchObject([
        { type: "change", operation: "Batch", path: "/d", steps: [{ operation: "writeFile", path: "/d/c" }, { operation: "rename", path: "/d/b", dest: "/d/e" }] }, { type: "ready" },
      ]);

      await expect(fs.watchChanges({ cursor: "nonsense" }).next()).rejects.toMatchObject({ code: "EINVAL", syscall: "watchChanges" });
      const stopping = new AbortController();
      const waiting = fs.watchChanges({ signal: stopping.signal });
      await waiting.next();
      stopping.abort();
      await expect(waiting.next()).rejects.toMatchObject({ name: "AbortError" });
    } finally {
      await fs.disconnect();
    }
  });
}
