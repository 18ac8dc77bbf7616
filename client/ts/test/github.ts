import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The part of GitHub's API that sandboxes use, on a real git repository. It stands in for GitHub alone: objects, refs and refusals are git's. */
export interface GitHubServer {
  readonly url: string;
  /** Called before each request is answered; the route as "PATCH /git/refs/heads/main". It may answer itself, and then returns true. */
  before: (route: string, response: ServerResponse) => boolean | Promise<boolean>;
  /** The routes that were asked for. */
  readonly asked: string[];
  /** Runs git in the repository. */
  git(...args: string[]): Promise<string>;
  close(): Promise<void>;
}

/** Serves a bare repository as o/reports. */
export async function serveGitHub(dir: string): Promise<GitHubServer> {
  const asked: string[] = [];
  const git = async (...args: string[]): Promise<string> => (await run("git", ["--git-dir", dir, ...args], { maxBuffer: 64 << 20 })).stdout;
  const server = createServer((request, response) => {
    reply(request, response).catch((error: unknown) => { send(response, 500, { message: String(error) }); });
  });
  const out: GitHubServer = {
    url: "", asked, git, before: () => false,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  const reply = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", "http://localhost");
    const path = decodeURIComponent(url.pathname).replace(/^\/repos\/o\/reports/, "");
    const route = `${request.method ?? "GET"} ${path}`;
    asked.push(route);
    const body = await bodyOf(request);
    if (await out.before(route, response)) return;
    if (request.headers.authorization !== "token secret") {
      send(response, 401, { message: "Bad credentials" });
      return;
    }
    for (const [pattern, handler] of handlers(git, dir)) {
      const match = pattern.exec(route);
      if (match) return handler(match[1] ?? "", body, response, url);
    }
    send(response, 404, { message: "Not Found" });
  };
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return Object.assign(out, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

type Body = Record<string, unknown>;
type Handler = (name: string, body: Body, response: ServerResponse, url: URL) => Promise<void> | void;

function handlers(git: GitHubServer["git"], dir: string): [RegExp, Handler][] {
  const found = async (name: string): Promise<string | undefined> => git("rev-parse", "--verify", "-q", name).then((out) => out.trim(), () => undefined);
  return [
    [/^GET \/user$/, (_, __, response) => { send(response, 200, { login: "octo", id: 7, name: null }); }],
    [/^GET $/, (_, __, response) => { send(response, 200, { default_branch: "main", html_url: "https://github.example/o/reports" }); }],
    [/^GET \/git\/ref\/(heads\/.+)$/, async (ref, _, response) => {
      const sha = await found(`refs/${ref}`);
      send(response, sha ? 200 : 404, sha ? { object: { sha } } : { message: "Not Found" });
    }],
    [/^GET \/commits\/(.+)$/, async (ref, _, response) => {
      const sha = await found(`${ref}^{commit}`);
      send(response, sha ? 200 : 404, sha ? { sha, commit: { tree: { sha: await found(`${sha}^{tree}`) } } } : { message: "Not Found" });
    }],
    [/^GET \/git\/trees\/(.+)$/, async (sha, _, response, url) => {
      const list = await git("ls-tree", "-z", ...(url.searchParams.has("recursive") ? ["-r", "-t"] : []), sha);
      const tree = list.split("\0").filter((line) => line !== "").map((line) => {
        const [, mode, type, name, path] = /^(\d+) (\w+) (\w+)\t(.*)$/s.exec(line) ?? [];
        return { mode, type, sha: name, path };
      });
      send(response, 200, { tree, truncated: false });
    }],
    [/^GET \/git\/blobs\/(.+)$/, async (sha, _, response) => {
      const { stdout } = await run("git", ["--git-dir", dir, "cat-file", "blob", sha], { encoding: "buffer", maxBuffer: 64 << 20 });
      send(response, 200, { content: stdout.toString("base64").replace(/.{60}/g, "$&\n"), encoding: "base64" });
    }],
    [/^POST \/git\/blobs$/, async (_, body, response) => {
      send(response, 201, { sha: await gitWith(dir, Buffer.from(body.content as string, "base64"), {}, "hash-object", "-w", "--stdin") });
    }],
    [/^POST \/git\/trees$/, async (_, body, response) => {
      const env = { GIT_INDEX_FILE: `${dir}/made-index` };
      await gitWith(dir, "", env, "read-tree", body.base_tree as string);
      const lines = (body.tree as { path: string; mode: string; sha: string | null }[]).map(({ path, mode, sha }) => `${sha === null ? "0" : mode} ${sha ?? "0".repeat(40)}\t${path}\0`);
      await gitWith(dir, lines.join(""), env, "update-index", "-z", "--index-info");
      send(response, 201, { sha: await gitWith(dir, "", env, "write-tree") });
    }],
    [/^POST \/git\/commits$/, async (_, body, response) => {
      const { name, email, date } = body.author as Record<string, string>;
      const env = { GIT_AUTHOR_NAME: name, GIT_AUTHOR_EMAIL: email, GIT_AUTHOR_DATE: date, GIT_COMMITTER_NAME: name, GIT_COMMITTER_EMAIL: email, GIT_COMMITTER_DATE: date };
      const parents = (body.parents as string[]).flatMap((parent) => ["-p", parent]);
      send(response, 201, { sha: await gitWith(dir, body.message as string, env, "commit-tree", body.tree as string, ...parents) });
    }],
    [/^PATCH \/git\/refs\/(heads\/.+)$/, async (ref, body, response) => {
      const old = await found(`refs/${ref}`);
      if (!old) return send(response, 422, { message: "Reference does not exist" });
      const forward = await git("merge-base", "--is-ancestor", old, body.sha as string).then(() => true, () => false);
      if (!forward && body.force !== true) return send(response, 422, { message: "Update is not a fast forward" });
      await git("update-ref", `refs/${ref}`, body.sha as string, old);
      send(response, 200, { ref: `refs/${ref}` });
    }],
    [/^POST \/git\/refs$/, async (_, body, response) => {
      const done = await git("update-ref", body.ref as string, body.sha as string, "0".repeat(40)).then(() => true, () => false);
      send(response, done ? 201 : 422, { message: done ? "" : "Reference already exists" });
    }],
  ];
}

async function gitWith(dir: string, input: string | Buffer, env: Record<string, string | undefined>, ...args: string[]): Promise<string> {
  const child = spawn("git", ["--git-dir", dir, ...args], { env: { ...process.env, ...env }, stdio: [input === "" ? "ignore" : "pipe", "pipe", "inherit"] });
  child.stdin?.end(input);
  let out = "";
  child.stdout?.on("data", (text) => { out += String(text); });
  const [code] = await once(child, "close") as [number];
  if (code !== 0) throw new Error(`git ${args.join(" ")} failed`);
  return out.trim();
}

async function bodyOf(request: IncomingMessage): Promise<Body> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text === "" ? {} : JSON.parse(text) as Body;
}

function send(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { "content-type": "application/json; charset=utf-8", "access-control-allow-origin": "*" }).end(text);
}
