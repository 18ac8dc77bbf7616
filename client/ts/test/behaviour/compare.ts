import * as nodefs from "node:fs/promises";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { makeFixture, snapshot } from "./fixture.js";
import { rowOutcome, type Outcome } from "./outcome.js";
import type { Row } from "./row.js";

/** Where one of the two sides does its rows: dir "/row-1" of fs is the folder disk + "/row-1". */
export interface Side {
  readonly fs: unknown;
  /** What its paths begin with: "" for a context. */
  readonly root: string;
  readonly disk: string;
}

/** Node's own fs/promises in a directory, which becomes the working directory as "/" is that of a context. */
export function nodeSide(dir: string): Side {
  process.chdir(dir);
  return { fs: nodefs, root: dir, disk: dir };
}

/** Does a row in a new directory; also tells what the directory holds afterwards. */
export async function doRow(row: Row, side: Side, number: number): Promise<Outcome> {
  if (row.difference?.fatal && side.fs === nodefs) return { fatal: row.difference.why };
  const name = `/row-${number}`;
  const disk = join(side.disk, name);
  makeFixture(disk);
  try {
    const outcome = await rowOutcome(row, side.fs, side.root, side.root + name, disk);
    const files = JSON.parse(JSON.stringify(snapshot(disk)).replaceAll(side.root === "" ? side.disk : side.root, "")) as Record<string, string>;
    return { ...outcome, files };
  } finally {
    rmSync(disk, { recursive: true, force: true });
  }
}
