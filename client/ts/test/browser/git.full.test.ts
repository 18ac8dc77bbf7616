import { execFileSync } from "node:child_process";
import * as nodefs from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import git from "isomorphic-git";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fsOver, type CtxFs } from "../../src/index.js";
import { MemoryCaller } from "../../src/memory/caller.js";
import { startStorage, type Storage } from "./remote.js";


const author = { name: "A", email: "a@example.org" };
let storage: Storage;
beforeAll(async () => { storage = await startStorage(); });
afterAll(() => storage.stop());

/** Where isomorphic-git works. reopened is the same files later: of a browser's storage in another page. */
interface Place { fs: CtxFs; reopened: () => Promise<CtxFs> }

const places: Record<string, () => Promise<Place>> = {
  "memory": () => {
    const fs = fsOver(new MemoryCaller());
    return Promise.resolve({ fs, reopened: () => Promise.resolve(fs) });
  },
  "a browser's storage": async () => {
    const context = await storage.newContext();
    const page = await storage.open(context);
    return {
      fs: fsOver(page.caller("git")),
      reopened: async () => {
        await page.page.close();
        return fsOver((await storage.open(context)).caller("git"));
      },
    };
  },
};

/** Copies all bytes to a disk. */
async function exported(fs: CtxFs, from: string, to: string): Promise<void> {
  await nodefs.mkdir(to);
  for (const entry of await fs.readdir(from, { withFileTypes: true })) {
    const [source, target] = [`${from}/${entry.name}`, join(to, entry.name)];
    if (entry.isDirectory()) await exported(fs, source, target);
    else if (entry.isSymbolicLink()) await nodefs.symlink(await fs.readlink(source), target);
    else await nodefs.writeFile(target, await fs.readFile(source), { mode: (await fs.stat(source)).mode });
  }
}

describe.each(Object.entries(places))("isomorphic-git in %s", (_, open) => {
  test("adds, commits, branches, checks out and tells what changed, and real git finds all in order", async () => {
    const { fs, reopened } = await open();
    const repo = { fs, dir: "/repo" };
    await git.init({ ...repo, defaultBranch: "main" });
    await fs.mkdir("/repo/src/deep", { recursive: true });
    await Promise.all(Array.from({ length: 30 }, (_unused, i) => fs.writeFile(`/repo/src/file${i}.txt`, `content ${i}\n`)));
    await fs.writeFile("/repo/src/deep/run.sh", "#!/bin/sh\n", { mode: 0o755 });
    await fs.symlink("file0.txt", "/repo/src/link");
    await git.add({ ...repo, filepath: "." });
    await git.commit({ ...repo, message: "first", author });
    await git.branch({ ...repo, ref: "topic", checkout: true });
    await fs.writeFile("/repo/src/file0.txt", "changed on topic\n");
    await fs.unlink("/repo/src/file1.txt");
    expect(await git.status({ ...repo, filepath: "src/file0.txt" })).toBe("*modified");
    expect((await git.statusMatrix(repo)).filter(([, head, workdir]) => head !== workdir)).toEqual([["src/file0.txt", 1, 2, 1], ["src/file1.txt", 1, 0, 1]]);
    await git.add({ ...repo, filepath: "src/file0.txt" });
    await git.remove({ ...repo, filepath: "src/file1.txt" });
    await git.commit({ ...repo, message: "second", author });
    await git.checkout({ ...repo, ref: "main" });
    expect(await fs.readFile("/repo/src/link", "utf8")).toBe("content 0\n");
    await git.checkout({ ...repo, ref: "topic" });
    expect((await git.log(repo)).map(({ commit }) => commit.message)).toEqual(["second\n", "first\n"]);

    const disk = join(await nodefs.mkdtemp(join(tmpdir(), "ctxfs-igit-")), "repo");
    await exported(await reopened(), "/repo", disk);
    const real = (...args: string[]): string => execFileSync("git", ["-c", "safe.directory=*", "-C", disk, ...args], { encoding: "utf8" });
    expect(real("fsck", "--strict", "--full", "--no-dangling")).toBe("");
    expect(real("status", "--porcelain")).toBe("");
    expect(real("log", "--format=%s", "topic")).toBe("second\nfirst\n");
    expect(real("ls-tree", "HEAD", "src/deep/run.sh", "src/link").split("\n").map((line) => line.slice(0, 6))).toEqual(["100755", "120000", ""]);
    await nodefs.rm(join(disk, ".."), { recursive: true });
  });
});
