import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { connect, ConnectionError, CtxfsError } from "../src/index.js";
import { startServer, type Panel, type Server } from "../src/server/index.js";

const run = promisify(execFile);
const numbers = Array.from({ length: 20 }, (_, i) => `line ${i + 1}\n`).join("");
let workspace: string;
let server: Server;
let editor: Panel;
beforeEach(async () => {
  workspace = await mkdtemp(join(tmpdir(), "ctxfs-review-"));
  await mkdir(join(workspace, "app"));
  await writeFile(inApp("main.txt"), numbers);
  await writeFile(inApp("old.txt"), "old\n");
  await run("git", ["init", "-q", inApp(".")]);
  server = await startServer({ workspace });
  editor = await server.openPanel("panels/editor");
});
afterEach(async () => {
  await editor.fs.disconnect();
  await server.stop();
  await rm(workspace, { recursive: true });
});

/** A file of the workspace's repository. */
function inApp(name: string): string {
  return join(workspace, "app", name);
}

/** Does to the panel's files what an agent might. */
async function edit(): Promise<void> {
  await editor.fs.writeFile("/app/main.txt", numbers.replace("line 3\n", "line three\n").replace("line 17\n", "line seventeen\n"));
  await editor.fs.writeFile("/app/new.bin", new Uint8Array([1, 0, 2]));
  await editor.fs.unlink("/app/old.txt");
}

test("an edit is submitted, approved in part, applied and undone", async () => {
  await edit();
  const { review } = editor;
  const { changes, count, revision } = await review.changes();
  expect(changes.map(({ path, kind, content, hunks, decision }) => [path, kind, content, hunks, decision])).toEqual([
    ["/app/main.txt", "modified", "text", 2, "pending"], ["/app/new.bin", "added", "binary", 0, "pending"], ["/app/old.txt", "deleted", "text", 0, "pending"],
  ]);
  expect([count, revision === ""]).toEqual([3, false]);
  expect(changes[0]).toMatchObject({ before: { type: "file", size: numbers.length }, addedLines: 2, removedLines: 2, repository: "/app", drifted: false });

  const diffs = [];
  for await (const { change, hunks } of review.diff({ paths: ["/app/main.txt"], lines: 1 })) diffs.push({ path: change.path, hunks });
  expect(diffs).toHaveLength(1);
  const [first, second] = diffs[0]?.hunks ?? [];
  expect(first?.lines.map(({ kind, text }) => [kind, text])).toEqual([["context", "line 2"], ["removed", "line 3"], ["added", "line three"], ["context", "line 4"]]);
  expect([first?.beforeStart, second?.afterStart, second?.decision]).toEqual([3, 17, "pending"]);
  expect((await review.patch({ lines: 0 })).toString()).toContain("@@ -17 +17 @@\n-line 17\n+line seventeen\n");
  expect((await review.readVersion("/app/main.txt", "base")).toString()).toBe(numbers);

  expect(await review.submit({ title: "Words for numbers", message: "as asked" })).toMatchObject({ count: 3, revision });
  expect(await review.state()).toMatchObject({ state: "submitted", submitted: { title: "Words for numbers", message: "as asked", revision } });

  const reviewer = server.review(editor.contextId);
  expect(await reviewer.approve([{ path: "/app/main.txt", hunkIds: [first?.hunkId ?? ""] }])).toEqual({ changes: 1, hunks: 1, leftOut: [], leftOutCount: 0 });
  expect(await reviewer.reject(["/app/old.txt"], { comment: "keep it" })).toMatchObject({ changes: 1 });
  expect((await review.changes({ paths: ["/app/old.txt"] })).changes).toMatchObject([{ decision: "rejected", comment: "keep it" }]);
  expect((await review.readVersion("/app/main.txt", "approved")).toString()).toBe(numbers.replace("line 3\n", "line three\n"));

  await writeFile(inApp("main.txt"), numbers.replace("line 20\n", "the user's\n"));
  expect((await reviewer.changes()).drifted).toBe(1);
  expect((await reviewer.readVersion("/app/main.txt", "workspace")).toString()).toContain("the user's");
  expect(await reviewer.apply({ dryRun: true })).toEqual({ journalId: 0, files: [{ path: "/app/main.txt", kind: "written", merged: true }], commits: [], leftOut: [], leftOutCount: 0 });
  const { journalId, files } = await reviewer.apply({ requestId: "once" });
  expect(files).toEqual([{ path: "/app/main.txt", kind: "written", merged: true }]);
  expect(await reviewer.apply({ requestId: "once" })).toMatchObject({ journalId });
  expect(await readFile(inApp("main.txt"), "utf8")).toBe(numbers.replace("line 3\n", "line three\n").replace("line 20\n", "the user's\n"));

  expect(await review.discard(["/app/old.txt"])).toMatchObject({ paths: ["/app/old.txt"] });
  expect(await editor.fs.readFile("/app/old.txt", "utf8")).toBe("old\n");
  await reviewer.undo(journalId);
  expect(await readFile(inApp("main.txt"), "utf8")).toBe(numbers.replace("line 20\n", "the user's\n"));
  const entries = await reviewer.journal();
  expect(entries.map(({ kind, actor, undoes }) => [kind, actor, undoes])).toEqual([["undo", "host", journalId], ["discard", "panels/editor", 0], ["apply", "host", 0]]);
  expect(entries[2]).toMatchObject({ undoneBy: entries[0]?.journalId, contextId: editor.contextId });
  expect(await reviewer.journal({ limit: 1 })).toHaveLength(1);
});

test("a Change and a patch select", async () => {
  await edit();
  const reviewer = server.review(editor.contextId);
  const { changes } = await reviewer.changes();
  expect(await reviewer.approve(changes.filter(({ kind }) => kind === "deleted"))).toMatchObject({ changes: 1 });
  expect(await reviewer.approve({ patch: await reviewer.patch({ paths: ["/app/main.txt"] }) })).toMatchObject({ changes: 1 });
  expect(await reviewer.decide("all", "pending")).toMatchObject({ leftOut: [] });
  expect((await reviewer.changes()).approved).toBe(0);
});

test("the workspace's changes are brought in, and a conflict is resolved", async () => {
  await edit();
  await writeFile(inApp("main.txt"), numbers.replace("line 3\n", "line III\n"));
  await writeFile(inApp("theirs.txt"), "new\n");
  const reviewer = server.review(editor.contextId);
  await expect(reviewer.rebase()).rejects.toMatchObject({ code: "CONFLICT", conflicts: [{ path: "/app/main.txt", kind: "content" }] });
  const { journalId, files, conflicts } = await reviewer.rebase({ onConflict: "markers" });
  expect(files).toEqual([{ path: "/app/theirs.txt", kind: "created", merged: false }]);
  expect(conflicts).toMatchObject([{ path: "/app/main.txt", kind: "content", markers: true, base: { size: numbers.length } }]);
  expect(await editor.fs.readFile("/app/main.txt", "utf8")).toContain("<<<<<<< context\nline three\n");
  expect((await reviewer.readVersion("/app/main.txt", "conflict-workspace")).toString()).toContain("line III\n");
  expect(await reviewer.conflicts()).toMatchObject([{ path: "/app/main.txt" }]);
  await expect(reviewer.apply({ selection: ["/app/main.txt"], approve: true })).rejects.toMatchObject({ code: "UNRESOLVED" });
  expect(await reviewer.resolve("/app/main.txt", "workspace")).toBeGreaterThan(journalId);
  expect(await editor.fs.readFile("/app/main.txt", "utf8")).toContain("line III\n");
  expect(await reviewer.conflicts()).toEqual([]);
  await expect(reviewer.resolve("/app/main.txt", "mine" as "base")).rejects.toThrow("unknown resolution");
});

test("apply commits to a branch, and changes no file", async () => {
  const author = { name: "A", email: "a@example.com" };
  await run("git", ["-C", inApp("."), "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "first", "--allow-empty"]);
  await editor.fs.writeFile("/app/new.txt", "new\n");
  const reviewer = server.review(editor.contextId);
  const commit = { message: "Add new.txt", author, branch: "agent" };
  const { commits } = await reviewer.apply({ selection: ["/app/new.txt"], approve: true, commit });
  expect(commits).toMatchObject([{ repository: "/app", ref: "refs/heads/agent", author: "A <a@example.com>" }]);
  const { stdout } = await run("git", ["-C", inApp("."), "show", "--format=%s", "--name-only", commits[0]?.commitId ?? ""]);
  expect(stdout).toBe("Add new.txt\n\nnew.txt\n");
  await expect(readFile(inApp("new.txt"))).rejects.toMatchObject({ code: "ENOENT" });
});

test("changes can be compared with a revision, a snapshot's name is checked, and the workspace is for reviewers", async () => {
  await edit();
  const { revision } = await editor.review.submit();
  await editor.fs.writeFile("/app/later.txt", "later\n");
  const { changes } = await editor.review.changes({ against: { revision } });
  expect(changes.map(({ path, kind }) => [path, kind])).toEqual([["/app/later.txt", "added"]]);
  expect((await editor.review.patch({ against: { revision } })).toString()).toContain("+later\n");
  await expect(editor.review.changes({ against: { snapshot: "none" } })).rejects.toMatchObject({ code: "ENOENT" });
  await expect(editor.review.changes({ against: "workspace" })).rejects.toMatchObject({ code: "EACCES" });
  expect((await server.review(editor.contextId).changes({ against: "workspace" })).count).toBe(4);
});

test("watch reports each step, until the loop ends", async () => {
  await edit();
  const seen: unknown[] = [];
  const reviewer = server.review(editor.contextId);
  for await (const { event, journalId } of editor.review.watch()) {
    seen.push([event, journalId > 0]);
    if (event === "started") await editor.review.submit();
    if (event === "submitted") await reviewer.apply({ selection: ["/app/main.txt"], approve: true });
    if (event === "applied") break;
  }
  expect([seen[0], seen.at(-1)]).toEqual([["started", false], ["applied", true]]);
  expect(seen).toContainEqual(["submitted", false]);
  const stop = new AbortController();
  const watching = (async () => { for await (const { event } of editor.review.watch({ signal: stop.signal })) if (event === "started") stop.abort(); })();
  await expect(watching).rejects.toMatchObject({ name: "AbortError" });
});

describe("a refusal is a CtxfsError", () => {
  test("with each conflict, and nothing is applied", async () => {
    await edit();
    const users = numbers.replace("line 3\n", "line III\n");
    await writeFile(inApp("main.txt"), users);
    await rm(inApp("old.txt"));
    await writeFile(inApp("new.bin"), "the user's");
    const error: unknown = await server.review(editor.contextId).apply({ selection: "all", approve: true }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(CtxfsError);
    expect(error).toMatchObject({ name: "CtxfsError", code: "CONFLICT", conflicts: [{ path: "/app/main.txt", kind: "content" }, { path: "/app/new.bin", kind: "add-add" }] });
    expect((error as Error).stack).toContain("review.test");
    expect(await readFile(inApp("main.txt"), "utf8")).toBe(users);
  });

  test("for what is not approved, and for a revision that has passed", async () => {
    await edit();
    const reviewer = server.review(editor.contextId);
    const { revision, changes: seen } = await reviewer.changes();
    await expect(reviewer.apply({ selection: "all" })).rejects.toMatchObject({ code: "NOT_APPROVED", conflicts: [] });
    await editor.fs.appendFile("/app/main.txt", "more\n");
    await expect(reviewer.approve("all", { ifRevision: revision })).rejects.toMatchObject({ code: "STALE_REVISION" });
    await expect(reviewer.approve(["/app"], { seen })).rejects.toMatchObject({ code: "STALE_REVISION" });
    await expect(reviewer.apply({ selection: "all", approve: true, seen })).rejects.toMatchObject({ code: "STALE_REVISION" });
    expect(await reviewer.approve(["/app/new.bin"], { seen })).toMatchObject({ changes: 1 });
  });

  test("wrong arguments are told before anything is sent; an absent file is ENOENT", async () => {
    const reviewer = server.review(editor.contextId);
    await expect(reviewer.approve("none" as never)).rejects.toThrow(/a selection is "all", "approved", an array of changes/);
    await expect(reviewer.decide("all", "perhaps" as never)).rejects.toThrow('unknown decision "perhaps"');
    await expect(reviewer.apply({ dryrun: true } as never)).rejects.toThrow("did you mean dryRun?");
    await expect(reviewer.readVersion("/app/main.txt", "toString" as never)).rejects.toThrow("the versions are base");
    await expect(reviewer.readVersion("/app/none", "base")).rejects.toMatchObject({ code: "ENOENT" });
  });
});

test("a panel with the right to review decides on others, never on itself, and reaches none of their files", async () => {
  await edit();
  await using page = await server.openPanel("panels/reviewer", { readOnly: true, review: true });
  await using fs = await connect({ socket: server.socket, token: page.token });
  const reviewer = fs.reviewer(editor.contextId);
  expect((await reviewer.changes()).count).toBe(3);
  const { journalId } = await reviewer.apply({ selection: ["/app/main.txt"], approve: true });
  expect(await reviewer.journal()).toMatchObject([{ journalId, actor: "panels/reviewer" }]);
  await expect(fs.reviewer(page.contextId).approve("all")).rejects.toMatchObject({ code: "EACCES", hint: expect.stringContaining("another panel") as string });
  await expect(reviewer.discard("all")).rejects.toMatchObject({ code: "EROFS" });
  await expect(editor.fs.reviewer(page.contextId).approve("all")).rejects.toMatchObject({ code: "EACCES" });
  await using other = await connect({ socket: server.socket, token: page.token, contextId: editor.contextId });
  await expect(other.readFile("/app/main.txt")).rejects.toMatchObject({ code: "EACCES" });
  await using without = await server.openPanel("panels/reviewer");
  expect(without.contextId).toBe(page.contextId);
  await expect(reviewer.changes()).rejects.toBeInstanceOf(ConnectionError); // its session has ended
  await expect(reviewer.changes()).rejects.toMatchObject({ code: "EACCES" }); // and its token begins no other
});
