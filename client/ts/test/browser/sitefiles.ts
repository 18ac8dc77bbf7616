import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** Files of a site, by name. */
export type Files = Readonly<Record<string, string | Buffer>>;

/** Writes files into a folder. */
export async function put(folder: string, files: Files): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
}

/** A PNG of one red pixel. */
export const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dwn4EIwDiqkL4KAQB8LQMBYgqA6QAAAABJRU5ErkJggg==", "base64");

/** A sound of n seconds, 8,000 bytes each. */
export function wav(seconds: number): Buffer {
  const rate = 8000, head = Buffer.alloc(44);
  head.write("RIFF");
  head.writeUInt32LE(36 + rate * seconds, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE(rate, 28);
  head.writeUInt16LE(1, 32);
  head.writeUInt16LE(8, 34);
  head.write("data", 36);
  head.writeUInt32LE(rate * seconds, 40);
  return Buffer.concat([head, Buffer.alloc(rate * seconds, 128)]);
}
