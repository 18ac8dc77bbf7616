import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, type CtxFs } from "../src/index.js";
import { startTestServer, type TestServer } from "./serve.js";

let server: TestServer;
beforeAll(async () => { server = await startTestServer(); });
afterAll(() => server.stop());

for (const transport of ["ws", "grpc"] as const) {
  test(`a batch is all or nothing (${transport})`, async () => {
    const { token } = await server.openPanel(`panels/batch-${transport}`);
    const fs: CtxFs = await connect({ socket: server.socket, token, transport });
    try {
      const { etags } = await fs.batch([
        { mkdir: "d/e", recursive: true }, { write: "a.txt", data: "one\ntwo\n" }, { edit: "a.txt", edits: [{ oldText: "two", newText: "2" }] },
        { copy: "a.txt", to: "d/copy" }, { symlink: "d/link", target: "../a.txt" }, { chmod: "d/copy", mode: 0o600 }, { rename: "d/copy", to: "d/e/moved" },
      ]);
      expect(await fs.readFile("d/e/moved", "utf8")).toBe("one\n2\n");
      expect(await fs.readFile("d/link", "utf8")).toBe("one\n2\n");
      const etag = expect.stringMatching(/^[\w-]{20}$/) as unknown;
      expect(etags, "of the directory and the link there are none").toEqual([null, etag, etag, etag, null, etag, etag]);

      const failing = fs.batch([{ write: "a.txt", data: "never" }, { rm: "d/link" }, { rename: "missing", to: "x" }]);
      await expect(failing).rejects.toMatchObject({
        code: "ENOENT", syscall: "rename", path: "missing", dest: "x", step: 2,
        message: "ENOENT: no such file or directory (steps[2]; nothing was changed), rename 'missing' -> 'x'",
      });
      expect(await fs.readFile("d/link", "utf8")).toBe("one\n2\n");

      await expect(fs.batch([{ write: "a.txt", data: "never", ifMatch: "" }])).rejects.toMatchObject({ code: "ERR_INVALID_ARG_VALUE", message: expect.stringContaining("steps[0].ifMatch") as unknown });
      expect(await fs.readFile("a.txt", "utf8"), "an empty etag is no consent").toBe("one\n2\n");
      const stale = fs.batch([{ write: "a.txt", data: "never", ifMatch: "stale" }]);
      await expect(stale).rejects.toMatchObject({ code: "ESTALE", kind: "condition", step: 0 });
      await expect(fs.batch([{ write: "a.txt", data: "never", ifNoneMatch: "*" }])).rejects.toMatchObject({ code: "EEXIST", step: 0 });
      const { diff } = await fs.batch([{ edit: "a.txt", edits: [{ oldText: "one", newText: "1" }], ifMatch: etags[2] ?? undefined }], { dryRun: true });
      expect(diff).toBe("diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n 2\n");
      await expect(fs.batch([{ write: "a", rm: "b", data: "" }])).rejects.toThrow("steps[0] needs exactly one of write, edit");
      const never = { write: "never", data: "" };
      await expect(fs.batch([never, { mkdir: "x", ifMatch: "e" }])).rejects.toMatchObject({ code: "ERR_INVALID_ARG_VALUE", message: expect.stringContaining("steps[1].ifMatch") as string });
      await expect(fs.batch([never, { rm: "a.txt", ifNoneMatch: "*" }])).rejects.toThrow("does not apply to rm");
      await expect(fs.access("never")).rejects.toMatchObject({ code: "ENOENT" });
    } finally {
      await fs.disconnect();
    }
  });
}
