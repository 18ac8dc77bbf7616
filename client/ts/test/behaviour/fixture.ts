import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, symlinkSync, utimesSync, writeFileSync, type Stats } from "node:fs";
import { join } from "node:path";

/** The time of the fixture's files. */
export const past = new Date("2020-02-02T02:02:02.125Z");

/** The fixture's files, by path. */
export const fixtureFiles: Readonly<Record<string, string | Buffer>> = {
  "a.txt": "hello world\n",
  "empty.txt": "",
  "lines.txt": "one\ntwo\r\nthree",
  "utf8.txt": "äöü€😀\n",
  "bytes.bin": Buffer.from(Array.from({ length: 256 }, (_, i) => i)),
  "large.bin": Buffer.alloc(200_000, "0123456789"),
  "readonly.txt": "read only\n",
  "dir/b.txt": "b\n",
  "dir/c.txt": "c\n",
  "dir/sub/deep.txt": "deep\n",
};
/** The fixture's symbolic links. */
export const fixtureLinks: Readonly<Record<string, string>> = { link: "a.txt", dirlink: "dir", broken: "nowhere", loop: "loop" };

/** Makes the files that every row begins with. */
export function makeFixture(dir: string): void {
  for (const name of ["", "dir", "dir/sub", "empty"]) mkdirSync(join(dir, name));
  for (const [name, content] of Object.entries(fixtureFiles)) {
    writeFileSync(join(dir, name), content);
    utimesSync(join(dir, name), past, past);
  }
  chmodSync(join(dir, "readonly.txt"), 0o444);
  for (const [name, target] of Object.entries(fixtureLinks)) symlinkSync(target, join(dir, name));
}

/** What a directory holds, so that what a row did can be compared. */
export interface Snapshot {
  /** Type, mode, links, time and content by path. */
  readonly files: Record<string, string>;
  /** When each was last read, which is compared with nothing but itself. */
  readonly read: Record<string, number>;
}

/** Describes what a directory holds. */
export function snapshot(dir: string): Snapshot {
  const told: Snapshot = { files: {}, read: {} };
  // Names are read as bytes: some are no UTF-8.
  const walk = (at: string): void => {
    for (const name of readdirSync(Buffer.from(dir + at, "latin1"), "buffer")) {
      const inner = `${at}/${name.toString("latin1")}`;
      const stat = tell(dir, inner, told);
      if (stat.isDirectory()) walk(inner);
    }
  };
  if (existsSync(dir)) walk("");
  return told;
}

function tell(dir: string, name: string, told: Snapshot): Stats {
  const path = Buffer.from(dir + name, "latin1");
  const stat = lstatSync(path);
  if (stat.isFile()) told.read[name] = stat.atimeMs;
  told.files[shownName(name)] = [stat.mode.toString(8), stat.isFile() ? stat.nlink : "", timeOf(stat.mtime), contentOf(path, stat)].join(" ");
  return stat;
}

/** The six characters that mkdtemp adds differ. */
export function shownName(name: string): string {
  return name.replace(/\/tmp-.{6}$/, "/tmp-XXXXXX");
}

/** A time, or "now" for one of the last minutes. */
export function timeOf(time: Date): string {
  // clock: files are as old as the test
  return Math.abs(time.getTime() - Date.now()) < 600_000 ? "now" : time.toISOString();
}

function contentOf(path: Buffer, stat: Stats): string {
  if (stat.isSymbolicLink()) return `-> ${readlinkSync(path)}`;
  if (!stat.isFile()) return "";
  if (stat.size > 1000) return `${stat.size} bytes`;
  return readFileSync(path, "latin1");
}
