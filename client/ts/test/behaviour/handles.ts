import type { Fs } from "./row.js";

/** Opens a file, does one thing with it, and closes it. */
export async function onHandle<T>(fs: Fs, path: string, flags: unknown, use: (handle: Fs) => T): Promise<Awaited<T>> {
  const handle = await fs.open(path, flags);
  try {
    return await use(handle);
  } finally {
    await handle.close();
  }
}

/** A handle that is closed. */
export async function closed(fs: Fs, dir: string): Promise<Fs> {
  const handle = await fs.open(`${dir}/a.txt`, "r+");
  await handle.close();
  return handle;
}
