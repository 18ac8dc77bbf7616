import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, type CtxFs } from "../../src/index.js";
import { startTestServer, type TestServer } from "../serve.js";
import { doRow, nodeSide, type Side } from "./compare.js";
import type { Outcome } from "./outcome.js";
import { differenceOf, type Row } from "./row.js";
import { tables } from "./tables/index.js";

/*
 * The table of behaviours, on fs/promises of the Node that runs and on a server's contexts. Versions of Node differ: ctxfs does as the one
 * that runs, and rows name the versions from which ctxfs differs.
 */

/** Compares contexts with Node's files by each transport, in one row of so many. All transports share the code that knows functions and arguments. */
export function compareByWire(oneIn: { ws: number; tcp: number; grpc: number }): void {
  let server: TestServer;
  let panel: { token: string; contextId: string };
  let top: string;
  let node: Side;
  const before = process.cwd();

  beforeAll(async () => {
    server = await startTestServer();
    panel = await server.openPanel("behaviour");
    top = realpathSync(mkdtempSync(join(tmpdir(), "b-")));
    node = nodeSide(top);
  });
  afterAll(async () => {
    process.chdir(before);
    rmSync(top, { recursive: true, force: true });
    await server.stop();
  });

  /** Node's outcomes do not depend on the transport, and are asked for once. */
  const known = new Map<number, Promise<Outcome>>();

  function ofNode(row: Row, number: number): Promise<Outcome> {
    let outcome = known.get(number);
    if (!outcome) known.set(number, outcome = doRow(row, node));
    return outcome;
  }

  const transports: [name: string, rows: [Row, number][], dial: () => Promise<CtxFs>][] = [
    ["WebSocket over a unix socket", rowsFor(oneIn.ws), () => connect({ socket: server.socket, token: panel.token })],
    ["WebSocket over TCP", rowsFor(oneIn.tcp), () => connect({ url: server.url, token: panel.token })],
    ["gRPC over a unix socket", rowsFor(oneIn.grpc), () => connect({ socket: server.socket, transport: "grpc", contextId: panel.contextId })],
  ];

  describe.each(transports)("as Node by %s", (name, rows, dial) => {
    let fs: CtxFs;
    let side: Side;
    beforeAll(async () => {
      fs = await dial();
      side = { fs, root: "", disk: server.folder(panel.contextId) };
    });
    afterAll(async () => {
      await fs.disconnect();
      console.log(summary(name, rows.map(([row]) => row)));
    });

    test.each(rows.map(([row, number]) => [row.name, row, number] as const))("%s", async (_, row, number) => {
      const [theirs, ours] = [await ofNode(row, number), await doRow(row, side)];
      const difference = differenceOf(row);
      if (!difference) return expect(ours).toEqual(theirs);
      expect(ours).toMatchObject(difference.outcome as object);
      expect(isDeepStrictEqual(ours, theirs), "it is no difference any more").toBe(false);
    });
  });
}

function rowsFor(oneIn: number): [Row, number][] {
  return tables.map((row, i): [Row, number] => [row, i]).filter(([, i]) => i % oneIn === 0);
}

function summary(name: string, rows: readonly Row[]): string {
  const differing = rows.filter(differenceOf);
  const reasons = new Set(differing.map((row) => differenceOf(row)?.why));
  const unasked = differing.filter((row) => differenceOf(row)?.fatal).length;
  return `${name}: ${rows.length} rows, ${rows.length - differing.length} as Node; ${differing.length} differ for ${reasons.size} reasons, ${unasked} of them not asked of Node because they end or hang its process`;
}
