import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

/** A smart-HTTP git server: git http-backend behind Node's http. */
export interface GitHttp {
  readonly url: string;
  close(): Promise<void>;
}

/** Serves the repositories in a folder: to all, or to those with the name and the password. */
export async function serveGit(root: string, user?: { name: string; password: string }): Promise<GitHttp> {
  const backend = join(execFileSync("git", ["--exec-path"], { encoding: "utf8" }).trim(), "git-http-backend");
  const wanted = user && `Basic ${Buffer.from(`${user.name}:${user.password}`).toString("base64")}`;
  const server = createServer((request, response) => {
    if (wanted !== undefined && request.headers.authorization !== wanted) {
      response.writeHead(401, { "WWW-Authenticate": 'Basic realm="git"' }).end();
      return;
    }
    answer(backend, root, request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

/** Speaks CGI: headers, an empty line, and the body. */
function answer(backend: string, root: string, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? "/", "http://localhost");
  const env = {
    ...process.env, GIT_PROJECT_ROOT: root, GIT_HTTP_EXPORT_ALL: "1", REMOTE_USER: "test", PATH_INFO: url.pathname,
    QUERY_STRING: url.search.slice(1), REQUEST_METHOD: request.method ?? "GET", CONTENT_TYPE: request.headers["content-type"] ?? "",
    HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "", GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
  };
  const child = spawn(backend, { env, stdio: ["pipe", "pipe", "inherit"] });
  request.pipe(child.stdin);
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  child.stdout.on("end", () => {
    const out = Buffer.concat(chunks);
    const end = out.indexOf("\r\n\r\n");
    for (const line of out.subarray(0, end).toString().split("\r\n")) {
      const [name = "", value = ""] = line.split(": ");
      if (name === "Status") response.statusCode = parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.end(out.subarray(end + 4));
  });
}
