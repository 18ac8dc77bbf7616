import { mkdir, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A picture of one pixel. */
const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

const files: Record<string, string | Buffer> = {
  "repo/hello.txt": "hello\n", // a new context has it
  "hello.txt": "hello\n",
  "Lines.txt": "one\ntwo\nthree\nfour\nfive\n",
  "unended.txt": "a\nb\nc",
  "windows.txt": "one\r\ntwo\r\nthree\r\n",
  "empty.txt": "",
  "foreign.txt": "grüße\n日本\n",
  "latin1.txt": Buffer.from("gr\xfc\xdfe\n", "latin1"),
  "code/main.go": "package main\n\nfunc main() {\n\tif ok {\n\t\tprintln(\"hi\")\n\t\tprintln(\"hi\")\n\t}\n}\n",
  "code/notes.md": "# Notes\n\n```sh\nmake\n```\n",
  "code/deep/a.ts": "export {};\n",
  "code/deep/a.test.ts": "import './a';\n",
  "code/deep/.hidden": "hidden\n",
  "code/build/out.js": "0\n",
  "media/pixel.png": pixel,
  "media/LOUD.WAV": Buffer.from("RIFF\0\0\0\0WAVE"),
  "media/data.bin": Buffer.from([0, 1, 2, 254, 255]),
  "media/vector.svg": "<svg/>\n",
  "sizes/b.5000": Buffer.alloc(5000, "b"),
  "sizes/C.2": "cc",
  "sizes/a.3000000": Buffer.alloc(3_000_000, "a"),
  "sizes/d.1536": Buffer.alloc(1536, "d"),
  "old/moved.txt": "moved\n",
  "old/taken.txt": "taken\n",
};

/** Fills a directory with the files that the calls are about. */
export async function fill(dir: string): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(dir, name, ".."), { recursive: true });
    await writeFile(join(dir, name), content);
    await utimes(join(dir, name), 1_700_000_000, 1_700_000_000);
  }
  await mkdir(join(dir, "sizes/folder"));
  await mkdir(join(dir, "vacant"));
  await mkdir(join(dir, "linked"));
  await symlink("../Lines.txt", join(dir, "linked/file"));
  await symlink("../code", join(dir, "linked/folder"));
  await symlink("nowhere", join(dir, "linked/dangling"));
}
