// A page that works on a panel's files: `npm install && npm start -- WORKSPACE`, then open the address that it prints.
// WORKSPACE is a folder with git repositories; this directory if none is named.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { argv, env } from "node:process";
import { fileURLToPath, URL } from "node:url";
import { build } from "esbuild";
import { ctxfs } from "@ctxfs/client/esbuild";
import { startServer } from "@ctxfs/client/server";

const here = fileURLToPath(new URL(".", import.meta.url));
const pages = createServer().listen(Number(env.PORT ?? 8080), "localhost");
await once(pages, "listening");
const origin = `http://localhost:${pages.address().port}`;

// The ctxfs server lets pages of our origin in, at an address of their own.
const server = await startServer({ workspace: argv[2] ?? ".", args: ["--http", "127.0.0.1:0", "--origin", origin] });
if (!server.started) console.log(`a server runs already: it must have been started with --http and --origin ${origin}`);
const panel = await server.openPanel("examples/browser");

// The plug-in gives page.ts the panel's files where it imports fs.
const { outputFiles } = await build({
  entryPoints: [`${here}page.ts`], absWorkingDir: here, bundle: true, write: false, format: "esm", platform: "browser", plugins: [ctxfs()],
});

const answers = {
  "/": async () => ["text/html; charset=utf-8", await readFile(`${here}index.html`)],
  "/page.js": async () => ["text/javascript", outputFiles[0].contents],
  // Give a token only to whom you would give the panel's files: ask for your own log-in here.
  "/ctxfs": async () => ["application/json", JSON.stringify({ url: server.url, token: await panel.renewToken() })],
};
pages.on("request", (request, response) => {
  const asked = request.headers.host === new URL(origin).host && answers[request.url];
  if (!asked) return response.writeHead(404).end();
  return asked().then(
    ([type, body]) => response.writeHead(200, { "content-type": type, "cache-control": "no-store" }).end(body),
    (error) => response.writeHead(500).end(String(error)),
  );
});
console.log(`open ${origin}`);
