// isomorphic-git on a panel's files: `npm install && npm start -- WORKSPACE`. The fs object is the plug-in as it is.
import { argv } from "node:process";
import { startServer } from "@ctxfs/client/server";
import git from "isomorphic-git";

const server = await startServer({ workspace: argv[2] ?? "." });
try {
  const { fs } = await server.openPanel("examples/git");
  const repo = { fs, dir: "/sketch" };
  const author = { name: "Example", email: "example@example.org" };

  await fs.rm(repo.dir, { recursive: true, force: true });
  await fs.mkdir(repo.dir);
  await git.init({ ...repo, defaultBranch: "main" });
  await fs.writeFile("/sketch/readme.md", "# Sketch\n");
  await git.add({ ...repo, filepath: "readme.md" });
  await git.commit({ ...repo, message: "Begin", author });

  await fs.appendFile("/sketch/readme.md", "More.\n");
  console.log("status:", await git.statusMatrix(repo));
  await git.add({ ...repo, filepath: "readme.md" });
  await git.commit({ ...repo, message: "Go on", author });
  for (const { oid, commit } of await git.log(repo)) console.log(oid.slice(0, 8), commit.message.trim());
} finally {
  await server.stop();
}
