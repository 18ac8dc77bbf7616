// A panel as its author writes it: for Node. A bundler's plug-in gives it fs by ctxfs.
import nodefs, { constants, existsSync, promises as fs, readFile, stat, type Stats } from "fs";
import { mkdir, readdir } from "fs/promises";
import * as everything from "node:fs";
import whole, { writeFile } from "node:fs/promises";
import { contextId, getInfo } from "@ctxfs/client/runtime";

const before = { contextId, constants: constants.O_CREAT, early: nodefs.constants === constants };

await mkdir("/src/deep", { recursive: true });
await writeFile("/src/a.txt", "from the panel\n");
await fs.appendFile("/src/a.txt", "and more\n");
await whole.copyFile("/src/a.txt", "/src/deep/b.txt");
await fs.access("/src/a.txt", constants.R_OK);
const byCallback = await new Promise((resolve, reject) => {
  readFile("/src/deep/b.txt", "utf8", (error, text) => { if (error) reject(error); else resolve(text); });
});
const stats = await new Promise<Stats>((resolve, reject) => {
  stat("/src/a.txt", (error, found) => { if (error) reject(error); else resolve(found); });
});
const handle = await fs.open("/src/a.txt", "r+");
const { bytesRead, buffer } = await handle.read(new Uint8Array(4), 0, 4, 5);
await handle.close();
const bytes = await fs.readFile("/src/a.txt");
const missing = await fs.readFile("/nope").catch((error: unknown) => error as NodeJS.ErrnoException);
const large = new Uint8Array(12 << 20).map((_, i) => i * 7);
await fs.writeFile("/large", large);
const back = await fs.readFile("/large");

let refusal = "";
try {
  existsSync("/src");
} catch (error) {
  refusal = (error as Error).message;
}

const info = await getInfo();
report({
  before, byCallback, refusal,
  after: { contextId, info },
  names: (await readdir("/src")).sort(),
  stats: { size: stats.size, isFile: stats.isFile(), date: stats.mtime instanceof Date },
  read: { bytesRead, text: new TextDecoder().decode(buffer) },
  buffer: { utf8: bytes.toString("utf8"), hex: bytes.toString("hex", 0, 4), bytes: bytes instanceof Uint8Array },
  error: missing instanceof Error ? { code: missing.code, errno: missing.errno, syscall: missing.syscall, path: missing.path, message: missing.message } : null,
  large: back.length === large.length && back.every((byte, i) => byte === large[i]),
  same: everything.promises === fs && (everything as { default?: unknown }).default === nodefs && nodefs.promises === fs && whole === fs,
});
