import { execFile } from "node:child_process";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { request, type IncomingMessage } from "node:http";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemErrors } from "../src/errors/table.js";
import { inFunctions } from "../src/errors/words.js";
import { connect, CtxfsError, type CtxFs, type GitStagedCommit } from "../src/index.js";
import { serveGit, type GitHttp } from "./githttp.js";
import { startTestServer, type TestServer } from "./serve.js";

const run = promisify(execFile);

/** What the sources of the server say: every text of an error, the names of the API, and every reason of a refusal. */
interface Said { texts: { file: string; text: string }[]; names: string[]; reasons: Record<string, { ListedBy: string }> }

let said: Said;
let server: TestServer;
let host: CtxFs;
let fs: CtxFs;
let contextId: string;
let remotes: GitHttp;
let closed: GitHttp;
/** Commits that were staged for the branch "side", for the branch that is checked out, and for that of a repository with a lock. */
let staged: Record<"side" | "main" | "locked", GitStagedCommit>;

const git = (repo: string, ...args: string[]) => run("git", ["-C", join(server.workspace, repo), "-c", "user.name=t", "-c", "user.email=t@example.com", ...args]);

/** Makes a repository of the workspace with one commit. */
async function repository(name: string, files: Record<string, string> = { main: "a\n" }): Promise<void> {
  await mkdir(join(server.workspace, name));
  for (const [file, content] of Object.entries(files)) await writeFile(join(server.workspace, name, file), content);
  await git(name, "init", "-q", "-b", "main");
  await git(name, "add", "-A");
  await git(name, "commit", "-q", "-m", "c");
}

/** Writes a file of the workspace, as its user does. */
const userWrites = (path: string, content: string, mode = 0o644) => writeFile(join(server.workspace, path), content, { mode });

beforeAll(async () => {
  const { stdout } = await run("go", ["run", "./scripts/refusals"], { cwd: resolve(import.meta.dirname, "../../.."), maxBuffer: 64 << 20 });
  said = JSON.parse(stdout) as Said;
  server = await startTestServer("--seed-root", ".", "--seed-max-files", "200", "--pool", "0");
  await userWrites("loose", "");
  for (const name of ["app", "dirty", "moved", "busy", "hooks", "push", "recorded"]) await repository(name);
  await repository("filter", { ".gitattributes": "*.bin filter=none\n", "a.bin": "a\n" });
  await git("push", "branch", "side");
  await userWrites("dirty/main", "the user's, not committed\n");
  const panel = await server.openPanel("p");
  ({ contextId } = panel);
  fs = await connect({ socket: server.socket, token: panel.token });
  host = await connect({ socket: server.socket, contextId });
  for (const name of ["app/main", "dirty/main", "moved/main", "busy/main", "hooks/main", "push/main", "filter/a.bin"]) await fs.writeFile(`/${name}`, "the panel's\n");
  await fs.writeFile("/loose", "x");
  await fs.writeFile("/app/.gitmodules", "x");
  await fs.mkdir("/app/x/.git", { recursive: true });
  await fs.writeFile("/app/x/.git/HEAD", "x");
  const stage = (repo: string, branch: string) => fs.git.stage({ files: [`/${repo}/main`], branch, message: "m" });
  staged = { side: await stage("push", "side"), main: await stage("push", "main"), locked: await stage("busy", "main") };

  await server.openPanel("recorded");
  await server.ctxfs("-c", "ctx_recorded", "ls", "/");
  await writeFile(join(server.folder("ctx_recorded"), "recorded/main"), "the panel's\n");
  await userWrites("recorded/main", "the user's\n");
  await host.reviewer("ctx_recorded").rebase({ paths: ["/recorded/main"], onConflict: "record" });

  await userWrites("app/main", "the user's\n");
  await userWrites("push/main", "the user's\n");
  await userWrites("moved/main", "the user's\n");
  await git("moved", "commit", "-q", "-a", "-m", "the user's");
  await git("push", "branch", "-f", "side", (await git("push", "commit-tree", "-p", "main", "-m", "other", "main^{tree}")).stdout.trim());
  await userWrites("busy/.git/index.lock", "");
  await userWrites("hooks/.git/hooks/pre-commit", "#!/bin/sh\nexit 1\n", 0o755);

  // A branch with more files than a seeding may have.
  const blob = (await git("app", "rev-parse", "main:main")).stdout.trim();
  const many = execFile("git", ["-C", join(server.workspace, "app"), "mktree"]);
  many.stdin?.end(Array.from({ length: 300 }, (_, i) => `100644 blob ${blob}\tf${i}\n`).join(""));
  const tree = (await text(many.stdout as NodeJS.ReadableStream)).trim();
  await git("app", "branch", "many", (await git("app", "commit-tree", "-m", "many", tree)).stdout.trim());

  const bare = join(server.workspace, "bare");
  await run("git", ["clone", "-q", "--bare", join(server.workspace, "push"), join(bare, "strict.git")]);
  await run("git", ["-C", join(bare, "strict.git"), "config", "http.receivepack", "true"]);
  await userWrites("bare/strict.git/hooks/pre-receive", "#!/bin/sh\nexit 1\n", 0o755);
  remotes = await serveGit(bare);
  closed = await serveGit(bare, { name: "u", password: "p" });
  await git("push", "remote", "add", "strict", `${remotes.url}/strict.git`);
  await git("app", "remote", "add", "private", `${closed.url}/strict.git`);
  await git("app", "remote", "add", "gone", "http://127.0.0.1:1/gone.git");

  const layers = join(server.workspace, ".contexts/.ctxfs/layers");
  const before = await readdir(layers);
  await userWrites("more", "another layer");
  await server.openPanel("layerless");
  await server.ctxfs("-c", "ctx_layerless", "ls", "/");
  for (const layer of await readdir(layers)) if (!before.includes(layer)) await rm(join(layers, layer), { recursive: true });
});
afterAll(async () => {
  await fs.disconnect();
  await host.disconnect();
  await remotes.close();
  await closed.close();
  await server.stop();
});

test("no text of the server names its API, or a flag of a command that users run", () => {
  const names = new RegExp(`\\b(?:${said.names.join("|")})\\b|--(?:commit|branch|hooks|author)\\b|'ctxfs (?:apply|diff|log|conflicts|changes|rebase|discard)\\b`);
  const lists = Object.values(said.reasons).map(({ ListedBy }) => ({ file: "fserrpb", text: `${ListedBy.replace(/.*\//, "")} lists them all` }));
  const repeated = [...said.texts, ...lists].filter((t) => names.test(inFunctions(t.text)));
  expect(said.texts.length).toBeGreaterThan(500);
  expect(repeated).toEqual([]);
});

/** How a refusal is provoked: by the client if it has the call, by a command, and over HTTP. The server's own text, which the Go client has, is the one over HTTP. */
interface Row { npm?: () => Promise<unknown>; cli?: readonly string[] | (() => readonly string[]); http: readonly [rpc: string, request: object | (() => object)] }

async function all(list: AsyncIterable<unknown>): Promise<unknown> {
  for await (const entry of list) return entry;
  return undefined;
}

const reviewer = () => host.reviewer(contextId);
const change = (path: string) => ({ changes: { changes: [{ path }] } });
const commit = { message: "m", author: { name: "a", email: "a@example.com" } };
const committing = { approve: true, target: "APPLY_TARGET_COMMIT", commit: { message: "m", authorName: "a", authorEmail: "a@example.com" } };

const committed = (path: string, more: { runHooks?: true } = {}): Row => ({
  npm: () => reviewer().apply({ selection: [path], approve: true, commit: { ...commit, ...more } }),
  cli: ["apply", "p", path, "--unseen", "--commit", "-m", "m", "--author", "a <a@example.com>", ...more.runHooks ? ["--hooks"] : []],
  http: ["ReviewService/Apply", { selection: change(path), ...committing, commit: { ...committing.commit, ...more.runHooks ? { hooks: "COMMIT_HOOKS_RUN" } : {} } }],
});
const stages = (path: string, branch = ""): Row => ({
  npm: () => fs.git.stage({ files: [path], message: "m", branch }), cli: ["git", "stage", "-c", "ctx_p", path, "-m", "m", "--branch", branch],
  http: ["GitService/Stage", { files: [path], message: "m", branch }],
});
const pulls = (repo: string, from: { remote?: string; ref?: string }): Row => ({
  npm: () => host.git.pull({ repo, ...from }), cli: ["git", "pull", "-c", "ctx_p", repo, ...Object.entries(from).flatMap(([flag, value]) => [`--${flag}`, value])],
  http: ["GitService/Pull", { repo, ...from }],
});
const pushes = (of: keyof typeof staged, options: { target?: "worktree" | "remote"; remote?: string; branch?: string } = {}, expected?: string): Row => ({
  npm: () => host.git.push(staged[of].id, { expectedCommit: expected ?? staged[of].commit, ...options }),
  cli: () => [
    "git", "push", staged[of].id, "--expected", expected ?? staged[of].commit, ...options.target === "worktree" ? ["--worktree"] : [], ...options.remote ? [`--remote=${options.remote}`] : [],
    ...options.branch ? ["--branch", options.branch] : [],
  ],
  http: ["GitService/Push", () => ({
    id: staged[of].id, expectedCommit: expected ?? staged[of].commit, ...options,
    target: { worktree: "PUSH_TARGET_WORKTREE", remote: "PUSH_TARGET_REMOTE", branch: "PUSH_TARGET_UNSPECIFIED" }[options.target ?? "branch"],
  })],
});

/** A row for each reason that this test provokes. */
const reasons: Readonly<Record<string, Row>> = {
  CONFLICT: {
    npm: () => reviewer().apply({ selection: ["/app/main"], approve: true }), cli: ["apply", "p", "/app/main", "--unseen"],
    http: ["ReviewService/Apply", { selection: change("/app/main"), approve: true }],
  },
  STALE_REVISION: {
    npm: () => reviewer().approve(["/loose"], { ifRevision: "r_0" }), cli: ["approve", "p", "/loose", "--revision", "r_0"],
    http: ["ReviewService/Decide", { selection: change("/loose"), decision: "DECISION_APPROVED", ifRevision: "r_0" }],
  },
  NOT_APPROVED: { npm: () => reviewer().apply(), cli: ["apply", "p"], http: ["ReviewService/Apply", {}] },
  BARRED_PATH: {
    npm: () => reviewer().apply({ selection: ["/app/x/.git/HEAD"], approve: true }), cli: ["apply", "p", "/app/x/.git/HEAD", "--unseen"],
    http: ["ReviewService/Apply", { selection: change("/app/x/.git/HEAD"), approve: true }],
  },
  NO_REPOSITORY: committed("/loose"),
  UNRESOLVED: {
    npm: () => host.reviewer("ctx_recorded").apply({ selection: ["/recorded/main"], approve: true }), cli: ["apply", "ctx_recorded", "/recorded/main", "--unseen"],
    http: ["ReviewService/Apply", { contextId: "ctx_recorded", selection: change("/recorded/main"), approve: true }],
  },
  NOT_APPLIED: { cli: ["context", "delete", "p"], http: ["ContextService/DeleteContext", {}] }, // the npm client neither deletes nor restores contexts
  DIRTY_COMMIT: committed("/dirty/main"), REPOSITORY_BUSY: committed("/busy/main"), HOOK_FAILED: committed("/hooks/main", { runHooks: true }),
  LAYER_MISSING: { npm: () => host.reviewer("ctx_layerless").changes(), cli: ["changes", "ctx_layerless"], http: ["ReviewService/ListChanges", { contextId: "ctx_layerless" }] },
  GIT_CONFLICT: stages("/moved/main", "main"), GIT_FILTER: stages("/filter/a.bin"), GIT_SUBMODULE: stages("/app/.gitmodules"),
  GIT_STALE_BASE: pushes("side", {}, "1".repeat(40)), GIT_NON_FAST_FORWARD: pushes("side"), GIT_WORKTREE_DIRTY: pushes("main", { target: "worktree" }),
  GIT_LOCKED: pushes("locked", { target: "worktree" }), GIT_REJECTED: pushes("main", { target: "remote", remote: "strict" }),
  GIT_AUTH: pulls("/app", { remote: "private" }), GIT_UNREACHABLE: pulls("/app", { remote: "gone" }), GIT_TOO_LARGE: pulls("/app", { ref: "many" }),
  GIT_NOTHING_TO_COMMIT: {
    npm: () => fs.git.stage({ files: ["/app/none"], message: "m" }), cli: ["git", "stage", "-c", "ctx_p", "/app/none", "-m", "m"],
    http: ["GitService/Stage", { files: ["/app/none"], message: "m" }],
  },
  GIT_NO_REPOSITORY: { npm: () => fs.git.branches("/none"), http: ["GitService/ListBranches", { repo: "/none" }] },
  GIT_NO_REF: {
    npm: () => fs.git.pull({ repo: "/app", remote: "none", ref: "x", paths: ["."] }), cli: ["git", "pull", "-c", "ctx_p", "/app", "--remote", "none", "--ref", "x"],
    http: ["GitService/Pull", { repo: "/app", remote: "none", ref: "x", paths: ["."] }],
  },
  GIT_NO_STAGED: { npm: () => fs.git.getStaged("none"), cli: ["git", "show", "none"], http: ["GitService/GetStaged", { id: "none" }] },
};

/** The reasons that this test does not provoke, each with the cause. */
const elsewhere: Readonly<Record<string, string>> = {
  CHECK_FAILED: "a check needs a machine that isolates commands",
  EXEC_UNAVAILABLE: "it needs a machine that does not isolate commands",
};

/** Errors with an errno whose text Node does not have. */
const errnos: Readonly<Record<string, Row>> = {
  "a pattern": { npm: () => all(fs.glob("[")), cli: ["-c", "ctx_p", "glob", "["], http: ["FsService/Glob", { patterns: ["["] }] },
  "a regular expression": { npm: () => all(fs.grep("(")), cli: ["-c", "ctx_p", "grep", "(", "/"], http: ["FsService/Grep", { path: "/", pattern: "(" }] },
  "a file of no repository": {
    npm: () => fs.git.stage({ files: ["/loose"], message: "m" }), cli: ["git", "stage", "-c", "ctx_p", "/loose", "-m", "m"], http: ["GitService/Stage", { files: ["/loose"], message: "m" }],
  },
  "a pull without a repository": { npm: () => fs.git.pull({ repo: "", paths: ["/"] }), http: ["GitService/Pull", { paths: ["/"] }] },
  "an edit of what is not there": { npm: () => fs.editFile("/app/main", [{ oldText: "nope", newText: "x" }]), http: ["FsService/EditFile", { path: "/app/main", edits: [{ oldText: "nope", newText: "x" }] }] },
  "an unknown context": { npm: () => host.reviewer("ctx_none").changes(), cli: ["changes", "ctx_none"], http: ["ReviewService/ListChanges", { contextId: "ctx_none" }] },
  "a journal entry": { npm: () => reviewer().undo(99), cli: ["undo", "99"], http: ["ReviewService/Undo", { journalId: "99" }] },
};

test("each reason of the server is provoked, or listed with the cause why it is not", () => {
  expect([...Object.keys(reasons), ...Object.keys(elsewhere)].sort()).toEqual(Object.keys(said.reasons).sort());
  console.info(`not provoked: ${Object.entries(elsewhere).map(([reason, why]) => `${reason} (${why})`).join(", ")}`);
});

interface Info { reason: string; metadata: { detail?: string; hint?: string; syscall?: string; path?: string; kind?: string } }

interface Status { message: string; details: Record<string, unknown>[] }

/** Returns what the server says over HTTP. */
async function overHTTP([rpc, sent]: Row["http"]): Promise<{ message: string; header: unknown; info: Info; files: { path: string }[] }> {
  const given = typeof sent === "function" ? (sent as () => object)() : sent;
  const inContext = /(?:Staged|Undo|Push)$/.test(rpc) ? given : { contextId, ...given };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    // The server knows the user of its socket as the host.
    const asked = request({ socketPath: server.socket, path: `/v1/${rpc}`, method: "POST", headers: { "Content-Type": "application/json" } }, resolve);
    asked.on("error", reject);
    asked.end(JSON.stringify(inContext));
  });
  const lines = (await text(response)).trimEnd().split("\n");
  const last = JSON.parse(lines.at(-1) ?? "") as Status & { error?: Status };
  const { message, details } = last.error ?? last;
  const info = details.find((d) => "reason" in d) as unknown as Info;
  const refused = details.find((d) => String(d["@type"]).endsWith("RefusedFiles")) as { files: { path: string }[] } | undefined;
  const header = lines.length > 1 ? info.reason : response.headers["ctxfs-error"]; // the headers of a stream are sent with its first message
  return { message, header, info, files: refused?.files ?? [] };
}

interface Printed { code: string; detail: string | null; files: { path: string }[] }

/** Returns the error that a command prints. */
async function byCommand(args: readonly string[]): Promise<Printed> {
  const failed = await server.ctxfs("--json", ...args).then((out) => new Error(`it printed ${out}`), (error: unknown) => error as Error);
  const line = /\{"error":.*\}/.exec(failed.message)?.[0];
  if (line === undefined) throw failed;
  return (JSON.parse(line) as { error: Printed }).error;
}

type Failed = Error & Partial<Pick<CtxfsError, "code" | "reason" | "detail" | "hint" | "files">>;

async function failure(call: () => Promise<unknown>): Promise<Failed> {
  return call().then((done) => { throw new Error(`it did not fail: ${JSON.stringify(done)}`); }, (error: unknown) => error as Failed);
}

describe("the clients say the same of a refusal", () => {
  test.each([...Object.entries(reasons), ...Object.entries(errnos)])("%s", async (name, { npm, cli, http }) => {
    const { message, header, info: { reason, metadata }, files } = await overHTTP(http);
    expect(header).toBe(reason);
    if (name in reasons) expect(reason).toBe(name);
    if (npm !== undefined) {
      const error = await failure(npm);
      if (name in reasons) {
        expect(error).toBeInstanceOf(CtxfsError);
        expect(error.message).toBe(inFunctions(message));
        expect(error.files?.map(({ path }) => path)).toEqual(files.map(({ path }) => path));
      }
      expect([error.code, error.reason, error.detail ?? "", error.hint ?? ""]).toEqual([reason, reason, inFunctions(metadata.detail ?? ""), inFunctions(metadata.hint ?? "")]);
      expect(error.message).toContain(error.detail ?? "");
      expect(error.message).toContain(error.hint ?? "");
      const node = systemErrors[reason]?.[1];
      if (node !== undefined && metadata.kind === undefined) expect(error.message.startsWith(`${reason}: ${node}`)).toBe(true);
    }
    if (cli === undefined) return;
    const printed = await byCommand(typeof cli === "function" ? cli() : cli);
    expect(printed).toMatchObject({ code: reason, files: files.map(({ path }) => ({ path })) });
    expect((printed.detail ?? "").slice(0, 20)).toBe((metadata.detail ?? "").slice(0, 20));
  });
});
