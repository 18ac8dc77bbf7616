import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { request, type IncomingMessage } from "node:http";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemErrors } from "../src/errors/table.js";
import { inFunctions } from "../src/errors/words.js";
import { connect, CtxfsError, type CtxFs } from "../src/index.js";
import { startTestServer, type TestServer } from "./serve.js";

const run = promisify(execFile);

/** What the sources of the server say: every text of an error, the names of the API, and every reason of a refusal. */
interface Said { texts: { file: string; text: string }[]; names: string[]; reasons: Record<string, { ListedBy: string }> }

let said: Said;
let server: TestServer;
let host: CtxFs;
let fs: CtxFs;
let contextId: string;
beforeAll(async () => {
  const { stdout } = await run("go", ["run", "./scripts/refusals"], { cwd: resolve(import.meta.dirname, "../../.."), maxBuffer: 64 << 20 });
  said = JSON.parse(stdout) as Said;
  server = await startTestServer("--seed-root", ".");
  await writeFile(join(server.workspace, "loose"), "");
  const app = join(server.workspace, "app");
  await mkdir(app);
  await writeFile(join(app, "main"), "a\n");
  for (const args of [["init", "-q", "-b", "main"], ["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "c"]]) await run("git", ["-C", app, ...args]);
  const panel = await server.openPanel("p");
  ({ contextId } = panel);
  fs = await connect({ socket: server.socket, token: panel.token });
  host = await connect({ socket: server.socket, contextId });
  await fs.writeFile("/app/main", "the panel's\n");
  await fs.writeFile("/loose", "x");
  await fs.mkdir("/app/x/.git", { recursive: true });
  await fs.writeFile("/app/x/.git/HEAD", "x");
  await writeFile(join(app, "main"), "the user's\n");
});
afterAll(async () => {
  await fs.disconnect();
  await host.disconnect();
  await server.stop();
});

test("no text of the server names its API, or a flag of a command that users run", () => {
  const names = new RegExp(`\\b(?:${said.names.join("|")})\\b|--(?:commit|branch|hooks|author)\\b|'ctxfs (?:apply|diff|log|conflicts|changes|rebase|discard)\\b`);
  const lists = Object.values(said.reasons).map(({ ListedBy }) => ({ file: "fserrpb", text: `${ListedBy.replace(/.*\//, "")} lists them all` }));
  const repeated = [...said.texts, ...lists].filter((t) => names.test(inFunctions(t.text)));
  expect(said.texts.length).toBeGreaterThan(500);
  expect(repeated).toEqual([]);
});

/** How a refusal is provoked: by the client, by a command, and over HTTP. The server's own text, which the Go client has, is the one over HTTP. */
interface Row { npm: () => Promise<unknown>; cli?: readonly string[]; http: readonly [rpc: string, request: object] }

async function all(list: AsyncIterable<unknown>): Promise<unknown> {
  for await (const entry of list) return entry;
  return undefined;
}

const reviewer = () => host.reviewer(contextId);
const change = (path: string) => ({ changes: { changes: [{ path }] } });
const commit = { message: "m", author: { name: "a", email: "a@example.com" } };
const committing = { approve: true, target: "APPLY_TARGET_COMMIT", commit: { message: "m", authorName: "a", authorEmail: "a@example.com" } };

/** A row for each reason; "elsewhere" for those that a remote, a busy repository, a second program or a machine without isolation is needed for. */
const reasons: Readonly<Record<string, Row | "elsewhere">> = {
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
  NO_REPOSITORY: {
    npm: () => reviewer().apply({ selection: ["/loose"], approve: true, commit }), cli: ["apply", "p", "/loose", "--unseen", "--commit", "-m", "m", "--author", "a <a@example.com>"],
    http: ["ReviewService/Apply", { selection: change("/loose"), ...committing }],
  },
  NOT_APPLIED: "elsewhere", // hosts alone delete and restore contexts, by the Go client and the CLI
  UNRESOLVED: "elsewhere", DIRTY_COMMIT: "elsewhere", REPOSITORY_BUSY: "elsewhere", HOOK_FAILED: "elsewhere", CHECK_FAILED: "elsewhere", LAYER_MISSING: "elsewhere", EXEC_UNAVAILABLE: "elsewhere",
  GIT_CONFLICT: "elsewhere", GIT_NON_FAST_FORWARD: "elsewhere", GIT_STALE_BASE: "elsewhere", GIT_WORKTREE_DIRTY: "elsewhere", GIT_LOCKED: "elsewhere", GIT_AUTH: "elsewhere",
  GIT_REJECTED: "elsewhere", GIT_UNREACHABLE: "elsewhere", GIT_FILTER: "elsewhere", GIT_SUBMODULE: "elsewhere", GIT_TOO_LARGE: "elsewhere",
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

test("there is a row for each reason of the server", () => {
  expect(Object.keys(reasons).sort()).toEqual(Object.keys(said.reasons).sort());
});

interface Info { reason: string; metadata: { detail?: string; hint?: string; syscall?: string; path?: string; kind?: string } }

/** Returns what the server says over HTTP. */
async function overHTTP([rpc, sent]: Row["http"]): Promise<{ message: string; header: unknown; info: Info; files: { path: string }[] }> {
  const inContext = rpc.endsWith("Staged") || rpc.endsWith("Undo") ? sent : { contextId, ...sent };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    // The server knows the user of its socket as the host.
    const asked = request({ socketPath: server.socket, path: `/v1/${rpc}`, method: "POST", headers: { "Content-Type": "application/json" } }, resolve);
    asked.on("error", reject);
    asked.end(JSON.stringify(inContext));
  });
  const { message, details } = JSON.parse(await text(response)) as { message: string; details: Record<string, unknown>[] };
  const info = details.find((d) => "reason" in d) as unknown as Info;
  const refused = details.find((d) => String(d["@type"]).endsWith("RefusedFiles")) as { files: { path: string }[] } | undefined;
  return { message, header: response.headers["ctxfs-error"], info, files: refused?.files ?? [] };
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
  const provoked = Object.entries(reasons).filter((row): row is [string, Row] => row[1] !== "elsewhere");
  test.each([...provoked, ...Object.entries(errnos)])("%s", async (name, { npm, cli, http }) => {
    const { message, header, info: { reason, metadata }, files } = await overHTTP(http);
    const error = await failure(npm);
    expect(header).toBe(reason);
    if (name in reasons) {
      expect(reason).toBe(name);
      expect(error).toBeInstanceOf(CtxfsError);
      expect(error.message).toBe(inFunctions(message));
      expect(error.files?.map(({ path }) => path)).toEqual(files.map(({ path }) => path));
    }
    expect([error.code, error.reason, error.detail ?? "", error.hint ?? ""]).toEqual([reason, reason, inFunctions(metadata.detail ?? ""), inFunctions(metadata.hint ?? "")]);
    expect(error.message).toContain(error.detail ?? "");
    expect(error.message).toContain(error.hint ?? "");
    const node = systemErrors[reason]?.[1];
    if (node !== undefined && metadata.kind === undefined) expect(error.message.startsWith(`${reason}: ${node}`)).toBe(true);
    if (cli === undefined) return;
    const printed = await byCommand(cli);
    expect(printed).toMatchObject({ code: reason, files: files.map(({ path }) => ({ path })) });
    expect((printed.detail ?? "").slice(0, 20)).toBe((metadata.detail ?? "").slice(0, 20));
  });
});
