// The windows' page. It imports fs as it would in Node; the esbuild plug-in gives it ctxfs.
import { promises as fs } from "fs";
import { contextId, getInfo } from "@ctxfs/client/runtime";

const show = (text: string): void => {
  const line = document.createElement("pre");
  line.textContent = text;
  document.body.append(line);
};

async function visit(): Promise<void> {
  show(`context ${contextId ?? "unknown"}`);
  await fs.appendFile("/visits.txt", `${new Date().toISOString()}\n`);
  show(await fs.readFile("/visits.txt", "utf8"));
  show(`files: ${(await fs.readdir("/")).join(", ")}`);
  show(JSON.stringify(await getInfo(), null, 2));
}

visit().catch((error: unknown) => { show(String(error)); });
