import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const repository = fileURLToPath(new URL("../../..", import.meta.url));

/** Builds the ctxfs that the tests run against, with the console that is in console/dist, unless CTXFS_BIN names one. */
export default async function build(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.CTXFS_BIN) return undefined;
  const dir = await mkdtemp(join(tmpdir(), "ctxfs-console-bin-"));
  const binary = join(dir, "ctxfs");
  await promisify(execFile)("go", ["build", "-o", binary, "./cmd/ctxfs"], { cwd: repository });
  process.env.CTXFS_BIN = binary;
  return () => rm(dir, { recursive: true });
}
