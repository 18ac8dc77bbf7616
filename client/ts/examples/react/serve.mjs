// A React page on a panel's files: `npm install && npm start -- WORKSPACE`, then open the address that it prints.
// WORKSPACE is a folder with git repositories; this directory if none is named.
import { argv, env } from "node:process";
import { fileURLToPath, URL } from "node:url";
import { createServer } from "vite";
import { startServer } from "@ctxfs/client/server";
import { ctxfs } from "@ctxfs/client/vite";

const port = Number(env.PORT ?? 5173);
const origin = `http://localhost:${port}`;
const server = await startServer({ workspace: argv[2] ?? ".", args: ["--http", "127.0.0.1:0", "--origin", origin] });
if (!server.started) console.log(`a server runs already: it must have been started with --http and --origin ${origin}`);
const panel = await server.openPanel("examples/react");

// Give a token only to whom you would give the panel's files: ask for your own log-in here.
const tokens = {
  name: "tokens",
  configureServer: (vite) => {
    vite.middlewares.use("/ctxfs", (_, response, next) => {
      const answer = async () => JSON.stringify({ url: server.url, token: await panel.renewToken() });
      answer().then((body) => { response.setHeader("content-type", "application/json").end(body); }, next);
    });
  },
};
const vite = await createServer({
  root: fileURLToPath(new URL(".", import.meta.url)), configFile: false, logLevel: "warn",
  plugins: [ctxfs(), tokens], esbuild: { jsx: "automatic" }, server: { host: "localhost", port, strictPort: true },
});
await vite.listen();
console.log(`open ${origin}`);
