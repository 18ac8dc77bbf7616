import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const repository = fileURLToPath(new URL("../../..", import.meta.url));

/**
 * Builds the ctxfs that the tests run against, with the console that is in console/dist, unless CTXFS_BIN names one. Gives all tests one temporary directory, and removes it at the end
 * with what failed tests left there.
 */
export default async function build(): Promise<() => Promise<void>> {
  if (!process.env.CTXFS_BIN) {
    process.env.CTXFS_BIN = join(repository, "bin/test/ctxfs");
    await promisify(execFile)("go", ["build", "-o", process.env.CTXFS_BIN, "./cmd/ctxfs"], { cwd: repository });
  }
  const dir = await mkdtemp(join(tmpdir(), "web-"));
  await chmod(dir, 0o755); // the user of commands passes through it
  process.env.TMPDIR = dir;
  return () => rm(dir, { recursive: true, force: true, maxRetries: 10 });
}
