import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CtxFs } from "../../src/index.js";
import { doRow, nodeSide, type Side } from "./compare.js";
import { fixtureFiles, fixtureLinks, past, shownName, timeOf, type Snapshot } from "./fixture.js";
import { rowOutcome, type Outcome } from "./outcome.js";
import { differenceOf, type Row } from "./row.js";
import { tables } from "./tables/index.js";

/*
 * The table of behaviours on a file system without a disk of its own. Rows that prepare something behind fs's back, on a disk,
 * are left out.
 */

/** Rows that they are not compared in, and why. */
const leftOut: readonly [names: RegExp, why: string][] = [
  [/statfs (with (a |an |doubled|through|another|\.\/)|as bigint|\{bigint\}|options)|: statfs$|statfs without/, "there is no disk to describe"],
  [/a Date of 1900$/, "they keep times that the disk's file system cannot hold"],
  [/write.*position.* with 2\*\*(31|32)/, "a file has at most 2 GiB - 1"],
  [/cp (of a tree, twice, errorOnExist|with a filter that fails)$/, "the order of a directory's entries is the file system's own"],
];

const possible = tables.filter(({ run, name }) => run.length < 3 && !leftOut.some(([names]) => names.test(name)));
/** What rows use, until one changes it. */
interface Fresh { fs: CtxFs; files: Snapshot["files"] }

/** Compares a file system with Node's, in one row of so many. empty returns one whose directory /row is empty. */
export function compareWithNode(name: string, oneIn: number, empty: () => Promise<CtxFs>): void {
  const rows = possible.filter((_, i) => i % oneIn === 0);
  let top: string;
  let node: Side;
  let fresh: Fresh | undefined;
  const before = process.cwd();

  beforeAll(() => {
    top = realpathSync(mkdtempSync(join(tmpdir(), "m-")));
    node = nodeSide(top);
  });
  afterAll(() => {
    process.chdir(before);
    rmSync(top, { recursive: true, force: true });
  });

  async function doIt(row: Row): Promise<Outcome> {
    fresh ??= await renewed(await empty());
    const { fs, files } = fresh;
    const outcome = await rowOutcome(row, fs, "", "/row", "");
    const after = await filesOf(fs);
    if (!isDeepStrictEqual(after, files)) fresh = undefined;
    return { ...outcome, files: after };
  }

  describe(`${name} as Node`, () => {
    test.each(rows.map((row) => [row.name, row] as const))("%s", async (_, row) => {
      const [theirs, ours] = [await doRow(row, node), await doIt(row)];
      const difference = differenceOf(row);
      if (!difference) return expect(ours).toEqual(theirs);
      if (!isDeepStrictEqual(ours, theirs)) expect(ours).toMatchObject(difference.outcome as object); // as the server, where not as Node
    });

    test("the table is told", () => {
      console.log(`${name}: ${rows.length} rows of ${possible.length}; ${tables.length - possible.length} others prepare something on a disk, or are left out for ${leftOut.length} reasons`);
      expect(possible.length).toBeGreaterThan(8000);
      for (const [names, why] of leftOut) expect(tables.some(({ name: row }) => names.test(row)), why).toBe(true);
    });
  });
}

async function renewed(fs: CtxFs): Promise<Fresh> {
  for (const name of ["", "dir", "dir/sub", "empty"]) await fs.mkdir(`/row/${name}`, { recursive: true });
  await Promise.all(Object.entries(fixtureFiles).map(async ([name, content]) => {
    await fs.writeFile(`/row/${name}`, content);
    await fs.utimes(`/row/${name}`, past, past);
  }));
  await fs.chmod("/row/readonly.txt", 0o444);
  await Promise.all(Object.entries(fixtureLinks).map(([name, target]) => fs.symlink(target, `/row/${name}`)));
  return { fs, files: await filesOf(fs) };
}

/** What the row's directory holds, as snapshot tells it of a disk. */
async function filesOf(fs: CtxFs): Promise<Snapshot["files"]> {
  const told: Snapshot["files"] = {};
  const walk = async (dir: Buffer, shown: string): Promise<void> => {
    const names = await fs.readdir(dir, "buffer") as Buffer[];
    await Promise.all(names.map(async (name) => {
      const [path, inner] = [Buffer.concat([dir, Buffer.from("/"), name]), `${shown}/${name.toString("latin1")}`];
      const stat = await fs.lstat(path) as Awaited<ReturnType<typeof fs.lstat>> & { mtime: Date };
      let content = "";
      if (stat.isSymbolicLink()) content = `-> ${await fs.readlink(path)}`;
      else if (stat.isFile()) content = stat.size > 1000 ? `${stat.size} bytes` : await fs.readFile(path, "latin1");
      told[shownName(inner)] = [stat.mode.toString(8), stat.isFile() ? stat.nlink : "", timeOf(stat.mtime), content].join(" ");
      if (stat.isDirectory()) await walk(path, inner);
    }));
  };
  if (await fs.stat("/row").then(() => true, () => false)) await walk(Buffer.from("/row"), "");
  return told;
}
