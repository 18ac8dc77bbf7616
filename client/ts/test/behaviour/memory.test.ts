import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fsOver, type CtxFs } from "../../src/index.js";
import { MemoryCaller } from "../../src/memory/caller.js";
import { doRow, nodeSide, type Side } from "./compare.js";
import { fixtureFiles, fixtureLinks, past, shownName, timeOf, type Snapshot } from "./fixture.js";
import { rowOutcome, type Outcome } from "./outcome.js";
import { differenceOf, type Row } from "./row.js";
import { tables } from "./tables/index.js";

/*
 * The table of behaviours on the file system in memory. Rows that prepare something behind fs's back, on a disk, are left out:
 * memory has none.
 */

/** Rows that memory is not compared in, and why. */
const leftOut: readonly [names: RegExp, why: string][] = [
  [/statfs (with (a |an |doubled|through|another|\.\/)|as bigint|\{bigint\}|options)|: statfs$|statfs without/, "memory has no disk to describe"],
  [/a Date of 1900$/, "memory keeps times that the disk's file system cannot hold"],
  [/write.*position.* with 2\*\*(31|32)/, "a file in memory has at most 2 GiB - 1"],
  [/cp (of a tree, twice, errorOnExist|with a filter that fails)$/, "the order of a directory's entries is the file system's own"],
];

const possible = tables.filter(({ run, name }) => run.length < 3 && !leftOut.some(([names]) => names.test(name)));
/** One row in so many is done, unless CTXFS_ALL_ROWS is set: most rows are about arguments, which other tests cover in full. */
const oneIn = process.env.CTXFS_ALL_ROWS ? 1 : 4;
const rows = possible.filter((_, i) => i % oneIn === 0);
let top: string;
let node: Side;
const before = process.cwd();

beforeAll(() => {
  top = realpathSync(mkdtempSync(join(tmpdir(), "m-")));
  node = nodeSide(top);
});
afterAll(() => {
  process.chdir(before);
  rmSync(top, { recursive: true, force: true });
});

/** The file system that rows use, until one changes it. */
let fresh: { fs: CtxFs; files: Snapshot["files"] } | undefined;

async function doInMemory(row: Row): Promise<Outcome> {
  fresh ??= await renew();
  const { fs, files } = fresh;
  const outcome = await rowOutcome(row, fs, "", "/row", "");
  const after = await filesOf(fs);
  if (!isDeepStrictEqual(after, files)) fresh = undefined;
  return { ...outcome, files: after };
}

async function renew(): Promise<{ fs: CtxFs; files: Snapshot["files"] }> {
  const fs = fsOver(new MemoryCaller());
  for (const name of ["", "dir", "dir/sub", "empty"]) await fs.mkdir(`/row/${name}`, { recursive: true });
  for (const [name, content] of Object.entries(fixtureFiles)) {
    await fs.writeFile(`/row/${name}`, content);
    await fs.utimes(`/row/${name}`, past, past);
  }
  await fs.chmod("/row/readonly.txt", 0o444);
  for (const [name, target] of Object.entries(fixtureLinks)) await fs.symlink(target, `/row/${name}`);
  return { fs, files: await filesOf(fs) };
}

/** What the row's directory holds, as snapshot tells it of a disk. */
async function filesOf(fs: CtxFs): Promise<Snapshot["files"]> {
  const told: Snapshot["files"] = {};
  const walk = async (dir: Buffer, shown: string): Promise<void> => {
    for (const name of await fs.readdir(dir, "buffer") as Buffer[]) {
      const [path, inner] = [Buffer.concat([dir, Buffer.from("/"), name]), `${shown}/${name.toString("latin1")}`];
      const stat = await fs.lstat(path) as Awaited<ReturnType<typeof fs.lstat>> & { mtime: Date };
      let content = "";
      if (stat.isSymbolicLink()) content = `-> ${await fs.readlink(path)}`;
      else if (stat.isFile()) content = stat.size > 1000 ? `${stat.size} bytes` : await fs.readFile(path, "latin1");
      told[shownName(inner)] = [stat.mode.toString(8), stat.isFile() ? stat.nlink : "", timeOf(stat.mtime), content].join(" ");
      if (stat.isDirectory()) await walk(path, inner);
    }
  };
  if (await fs.stat("/row").then(() => true, () => false)) await walk(Buffer.from("/row"), "");
  return told;
}

describe("the file system in memory as Node", () => {
  test.each(rows.map((row) => [row.name, row] as const))("%s", async (_, row) => {
    const [theirs, ours] = [await doRow(row, node), await doInMemory(row)];
    const difference = differenceOf(row);
    if (!difference) return expect(ours).toEqual(theirs);
    if (!isDeepStrictEqual(ours, theirs)) expect(ours).toMatchObject(difference.outcome as object); // as the server, where not as Node
  });

  test("the table is told", () => {
    console.log(`memory: ${rows.length} rows of ${possible.length}; ${tables.length - possible.length} others prepare something on a disk, or are left out for ${leftOut.length} reasons`);
    expect(possible.length).toBeGreaterThan(8000);
    for (const [names, why] of leftOut) expect(tables.some(({ name }) => names.test(name)), why).toBe(true);
  });
});
