import { createBrowserSandbox } from "@ctxfs/client/sandbox";

/* Does one step of the story that opfs.test.ts tells over several pages. */

const { step = "" } = settings;
const sandbox = createBrowserSandbox({ workspaceId: "story" });

const steps: Record<string, () => Promise<unknown>> = {
  async write() {
    const { fs } = sandbox;
    await sandbox.write("/workspace/dir/a.txt", "first");
    await fs.symlink("dir/a.txt", "/workspace/link");
    await fs.link("/workspace/dir/a.txt", "/workspace/other");
    await fs.chmod("/workspace/dir/a.txt", 0o640);
    await fs.utimes("/workspace/dir/a.txt", 5, 1.5);
    await sandbox.writeBinary("/cache/large", new Uint8Array(5_000_000).fill(7));
    await fs.rename("/workspace/dir", "/workspace/moved");
    await sandbox.write("/workspace/gone", "x");
    await fs.unlink("/workspace/gone");
    return fs.readdir("/workspace");
  },
  async read() {
    const { fs } = sandbox;
    const stat = await fs.stat("/workspace/moved/a.txt");
    const large = await sandbox.readBinary("/cache/large");
    await fs.writeFile("/workspace/other", "second");
    const handle = await fs.open("/cache/large", "r+");
    await handle.write("tail", 5_000_000);
    await fs.unlink("/cache/large");
    const tail = await handle.read(new Uint8Array(4), 0, 4, 5_000_000);
    await handle.close();
    return {
      names: await fs.readdir("/workspace"), text: await sandbox.read("/workspace/moved/a.txt"), link: await fs.readlink("/workspace/link"),
      mode: stat.mode & 0o777, nlink: stat.nlink, mtimeMs: stat.mtimeMs, sum: large.length, sevens: large.every((b) => b === 7), tail: tail.bytesRead,
    };
  },
  second: () => sandbox.list("/workspace").then(() => "opened", (error: unknown) => (error as { code: string }).code),
  async stored() {
    await sandbox.fs.disconnect();
    const root = await navigator.storage.getDirectory();
    const dir = await (await root.getDirectoryHandle("workspaces")).getDirectoryHandle("story");
    const names: string[] = [];
    for await (const name of dir.keys()) names.push(name);
    return names.length;
  },
};

report(await steps[step]?.());
