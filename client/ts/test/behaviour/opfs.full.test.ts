import { afterAll, beforeAll } from "vitest";
import { startStorage, type Storage } from "../browser/remote.js";
import { fsOver, type CtxFs } from "../../src/index.js";
import { compareWithNode } from "./offline.js";

/* The table on the storage of a page of Chromium: the functions of fs run here, and the operations there. */

let storage: Storage;
let fs: CtxFs;
beforeAll(async () => {
  storage = await startStorage();
  fs = fsOver((await storage.open()).caller("table"));
});
afterAll(() => storage.stop());

// One row in so many is done: memory does the same operations, and all rows take ten minutes.
compareWithNode("a browser's storage", 40, async () => {
  await fs.rm("/row", { recursive: true, force: true });
  await fs.mkdir("/row");
  return fs;
});
