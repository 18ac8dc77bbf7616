import * as nodefs from "node:fs/promises";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { makeFixture, snapshot, type Snapshot } from "./fixture.js";
import { rowOutcome, type Outcome } from "./outcome.js";
import { differenceOf, type Row } from "./row.js";

/** Where one of the two sides does its rows: in the directory /row of fs, which is the folder row in disk. */
export interface Side {
  readonly fs: unknown;
  /** What its paths begin with: "" for a context. */
  readonly root: string;
  readonly disk: string;
  /** What the row's directory holds when a row begins; undefined before it is made. */
  fresh?: Snapshot | undefined;
}

/** The handles that rows opened: from version 25 on Node ends the process when it collects one that a row did not close. */
const opened: unknown[] = [];

const ownFs = {
  ...nodefs,
  open: async (...args: Parameters<typeof nodefs.open>) => {
    const handle = await nodefs.open(...args);
    opened.push(handle);
    return handle;
  },
};

/** Node's own fs/promises in a directory, which becomes the working directory as "/" is that of a context. */
export function nodeSide(dir: string): Side {
  process.chdir(dir);
  return { fs: ownFs, root: dir, disk: dir };
}

/** Runs a row in a fresh directory. Also returns what the directory holds afterwards. */
export async function doRow(row: Row, side: Side): Promise<Outcome> {
  const difference = differenceOf(row);
  if (difference?.fatal && side.fs === ownFs) return { fatal: difference.why };
  const disk = join(side.disk, "row");
  if (!side.fresh) side.fresh = renew(disk);
  const outcome = await rowOutcome(row, side.fs, side.root, `${side.root}/row`, disk);
  const after = snapshot(disk);
  const files = JSON.parse(JSON.stringify(after.files).replaceAll(side.root === "" ? side.disk : side.root, "")) as Record<string, string>;
  // Most rows change nothing: their directory serves the next one too.
  if (!isDeepStrictEqual(after, side.fresh)) side.fresh = undefined;
  return { ...outcome, files };
}

function renew(disk: string): Snapshot {
  rmSync(disk, { recursive: true, force: true });
  makeFixture(disk);
  // A snapshot reads the files. With relatime that sets when they were last read, until it is later than the last change by a tick.
  let [was, is] = [snapshot(disk), snapshot(disk)];
  for (let tries = 0; tries < 3 && !isDeepStrictEqual(was, is); tries++) [was, is] = [is, snapshot(disk)];
  return is;
}
