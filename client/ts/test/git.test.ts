import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import git from "isomorphic-git";
import http from "isomorphic-git/http/node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, type CtxFs } from "../src/index.js";
import { serveGit, type GitHttp } from "./githttp.js";
import { startTestServer, type TestServer } from "./serve.js";

const author = { name: "A", email: "a@example.org" };
const files = Array.from({ length: 200 }, (_, i) => `dir${i % 10}/file${i}.txt`);

let server: TestServer;
let fs: CtxFs;
let folder: string;
let remotes: string;
let remote: GitHttp;

beforeAll(async () => {
  server = await startTestServer();
  const panel = await server.openPanel("git");
  fs = await connect({ socket: server.socket, token: panel.token });
  folder = server.folder(panel.contextId);
  remotes = await mkdtemp(join(tmpdir(), "ctxfs-git-"));
  remote = await serveGit(remotes);
});
afterAll(async () => {
  await remote.close();
  await fs.disconnect();
  await server.stop();
  await rm(remotes, { recursive: true });
});

/** Runs real git on the disk. */
function realGit(dir: string, ...args: string[]): string {
  return execFileSync("git", ["-c", "safe.directory=*", "-C", dir, ...args], { encoding: "utf8" });
}

/** The forms in which isomorphic-git takes a file system: fs/promises, an object with promises, and fs with callbacks. */
function plugin(form: string): CtxFs {
  if (form === "promises") return fs;
  if (form === "an object with promises") return { promises: fs.promises } as CtxFs;
  return Object.fromEntries(Object.entries(fs.callbacks).filter(([key]) => key !== "promises")) as unknown as CtxFs;
}

describe.each(["promises", "an object with promises", "callbacks"])("isomorphic-git with %s", (form) => {
  const name = form.replaceAll(" ", "-");
  const dir = `/${name}`;
  const repo = { fs: undefined as unknown as CtxFs, dir };
  beforeAll(async () => {
    repo.fs = plugin(form);
    execFileSync("git", ["init", "-q", "--bare", "-b", "main", join(remotes, `${name}.git`)]);
    execFileSync("git", ["-C", join(remotes, `${name}.git`), "config", "http.receivepack", "true"]);
    await git.init({ ...repo, defaultBranch: "main" });
    for (let i = 0; i < 10; i++) await fs.mkdir(`${dir}/dir${i}`);
    await Promise.all(files.map((file, i) => fs.writeFile(`${dir}/${file}`, `content ${i}\n`)));
  });

  test("adds 200 files, commits, branches and merges, and real git agrees", async () => {
    await git.add({ ...repo, filepath: files });
    const first = await git.commit({ ...repo, message: "first", author });
    await git.branch({ ...repo, ref: "topic", checkout: true });
    await fs.writeFile(`${dir}/dir0/file0.txt`, "changed on topic\n");
    await git.add({ ...repo, filepath: "dir0/file0.txt" });
    await git.commit({ ...repo, message: "topic", author });
    await git.checkout({ ...repo, ref: "main" });
    expect(await fs.readFile(`${dir}/dir0/file0.txt`, "utf8")).toBe("content 0\n");
    await fs.writeFile(`${dir}/dir1/file1.txt`, "changed on main\n");
    await git.add({ ...repo, filepath: "dir1/file1.txt" });
    await git.commit({ ...repo, message: "main", author });
    await git.merge({ ...repo, ours: "main", theirs: "topic", author });
    await git.checkout({ ...repo, ref: "main" });

    const log = await git.log(repo);
    expect(log.map((entry) => entry.oid)).toContain(first);
    expect((await git.statusMatrix(repo)).filter(([, head, workdir, stage]) => head !== 1 || workdir !== 1 || stage !== 1)).toEqual([]);
    const disk = join(folder, name);
    expect(realGit(disk, "fsck", "--strict", "--no-dangling")).toBe("");
    expect(realGit(disk, "status", "--porcelain")).toBe("");
    expect(realGit(disk, "log", "--format=%s", "--topo-order").trim().split("\n")).toHaveLength(4);
    expect(realGit(disk, "show", "HEAD:dir0/file0.txt") + realGit(disk, "show", "HEAD:dir1/file1.txt")).toBe("changed on topic\nchanged on main\n");
  });

  test("tells what changed", async () => {
    await fs.writeFile(`${dir}/dir2/file2.txt`, "longer than it was before\n");
    await fs.writeFile(`${dir}/new.txt`, "new\n");
    await fs.unlink(`${dir}/dir3/file3.txt`);
    const changed = (await git.statusMatrix(repo)).filter(([, head, workdir, stage]) => !(head === 1 && workdir === 1 && stage === 1));
    expect(changed).toEqual([["dir2/file2.txt", 1, 2, 1], ["dir3/file3.txt", 1, 0, 1], ["new.txt", 0, 2, 0]]);
    expect(realGit(join(folder, name), "status", "--porcelain")).toBe(" M dir2/file2.txt\n D dir3/file3.txt\n?? new.txt\n");
    await git.checkout({ ...repo, ref: "main", force: true });
    await fs.unlink(`${dir}/new.txt`);
  });

  test("pushes to a server and clones from it", async () => {
    const url = `${remote.url}/${name}.git`;
    const pushed = await git.push({ ...repo, http, url, ref: "main" });
    expect(pushed.ok).toBe(true);
    expect(realGit(join(remotes, `${name}.git`), "fsck", "--strict")).toBe("");
    const clone = { fs: repo.fs, dir: `${dir}-clone` };
    await git.clone({ ...clone, http, url });
    const disk = join(folder, `${name}-clone`);
    expect(realGit(disk, "fsck", "--strict")).toBe("");
    expect(realGit(disk, "status", "--porcelain")).toBe("");
    expect(realGit(disk, "rev-parse", "HEAD")).toBe(realGit(join(remotes, `${name}.git`), "rev-parse", "main"));
    expect(await fs.readFile(`${clone.dir}/dir0/file0.txt`, "utf8")).toBe("changed on topic\n");
  });
});
