// A panel's files from a Node script: `npm install && npm start -- WORKSPACE`. WORKSPACE is a folder with git
// repositories; this directory if none is named.
import { argv } from "node:process";
import { startServer } from "@ctxfs/client/server";

const server = await startServer({ workspace: argv[2] ?? "." });
try {
  console.log(server.started ? "started a server" : "attached to the server that runs");
  const { contextId, fs } = await server.openPanel("examples/node", {
    onProgress: ({ phase, filesDone, filesTotal }) => { console.log(`${phase}: ${filesDone} of ${filesTotal} files`); },
  });

  console.log(`${contextId} holds`, await fs.readdir("/"));
  await fs.writeFile("/notes.md", "Written by the panel; the workspace does not change.\n");
  console.log(await fs.readFile("/notes.md", "utf8"));

  for await (const path of fs.glob("**/*.md", { exclude: ["**/node_modules"] })) {
    console.log(path, (await fs.stat(path)).size);
  }
} finally {
  await server.stop();
}
