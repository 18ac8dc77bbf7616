// A worker that writes reports: `npm install && npm start -- WORKSPACE [URL]`. WORKSPACE is a folder with the git repository
// "reports". The report lists the lines of the CSV file at URL. It is pushed to the branch "prices" if you answer yes.
import { join } from "node:path";
import { argv, stdin, stdout } from "node:process";
import { createInterface } from "node:readline/promises";
import { createSandbox } from "@ctxfs/client/sandbox";

const workspace = argv[2] ?? ".";
const source = argv[3] ?? "data:text/csv,apples 3%0Apears 4%0A";

const sandbox = createSandbox({ mode: "sandboxed", root: join(workspace, ".sandbox") });
try {
  await sandbox.gitPull({ repo: "reports", paths: ["."] });

  const response = await globalThis.fetch(source);
  await sandbox.write("/cache/prices.csv", await response.text());

  const lines = (await sandbox.read("/cache/prices.csv")).trim().split("\n");
  const report = ["# Prices", "", ...lines.map((line) => `- ${line}`), ""].join("\n");
  await sandbox.write("/workspace/reports/prices.md", report);

  const staged = await sandbox.gitStage({
    repo: "reports", files: ["/workspace/reports/prices.md"], branch: "prices", message: "Report the prices",
  });

  for (const { operation, path, diff } of staged.files) console.log(`${operation} ${path}\n${diff}`);
  const person = createInterface({ input: stdin, output: stdout });
  const answer = await person.question(`Push ${staged.commit} to ${staged.branch}? `);
  person.close();

  if (answer === "yes") {
    const { url } = await sandbox.gitPush(staged.id, { expectedCommit: staged.commit });
    console.log(`pushed to ${url}`);
  } else {
    await sandbox.gitDiscard(staged.id);
    console.log("discarded");
  }
} finally {
  await sandbox.close();
}
