import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import * as nodefs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, type CtxFs } from "../../src/index.js";
import { startTestServer, type TestServer } from "../serve.js";
import { doRow, type Side } from "./compare.js";
import { differenceOf, rowsOf } from "./row.js";
import { callbacks } from "./tables/callbacks.js";

let server: TestServer;
let fs: CtxFs;
let node: Side;
let side: Side;

beforeAll(async () => {
  server = await startTestServer();
  const panel = await server.openPanel("callbacks");
  fs = await connect({ socket: server.socket, token: panel.token });
  const top = realpathSync(mkdtempSync(join(tmpdir(), "b-")));
  node = { fs: nodefs, root: top, disk: top };
  side = { fs: fs.callbacks, root: "", disk: server.folder(panel.contextId) };
});
afterAll(async () => {
  rmSync(node.disk, { recursive: true, force: true });
  await fs.disconnect();
  await server.stop();
});

const rows = rowsOf("callbacks", callbacks);

describe("fs.callbacks as Node's fs", () => {
  test.each(rows.map((row) => [row.name, row] as const))("%s", async (_, row) => {
    const [theirs, ours] = [await doRow(row, node), await doRow(row, side)];
    const difference = differenceOf(row);
    if (!difference) return expect(ours).toEqual(theirs);
    expect(ours).toMatchObject(difference.outcome as object);
    expect(isDeepStrictEqual(ours, theirs), "it is no difference any more").toBe(false);
  });

  test("the table is told", () => {
    const differing = rows.filter(differenceOf);
    console.log(`callbacks: ${rows.length} rows, ${rows.length - differing.length} as Node; ${differing.length} differ for ${new Set(differing.map((row) => differenceOf(row)?.why)).size} reasons`);
    expect(rows.length).toBeGreaterThan(300);
  });
});
