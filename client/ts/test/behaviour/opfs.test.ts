import { afterAll, beforeAll, vi } from "vitest";
import { startStorage, type Storage } from "../browser/remote.js";
import { fsOver, type CtxFs } from "../../src/index.js";
import { compareWithNode } from "./offline.js";

/* The table on the storage of a page of Chromium: the functions of fs run here, and the operations there. */

vi.setConfig({ hookTimeout: 60_000 });

let storage: Storage;
let fs: CtxFs;
beforeAll(async () => {
  storage = await startStorage();
  fs = fsOver((await storage.open()).caller("table"));
});
afterAll(() => storage.stop());

// CTXFS_ALL_ROWS does all rows, in some ten minutes: memory does the same operations.
compareWithNode("a browser's storage", process.env.CTXFS_ALL_ROWS ? 1 : 40, async () => {
  await fs.rm("/row", { recursive: true, force: true });
  await fs.mkdir("/row");
  return fs;
});
