// Runs in the page. It imports fs as it would in Node; the esbuild plug-in gives it ctxfs.
import { promises as fs } from "fs";
import { configure, getInfo } from "@ctxfs/client/runtime";

interface Settings { url: string; token: string }

const settings = async (): Promise<Settings> => (await (await fetch("/ctxfs")).json()) as Settings;
const { url } = await settings();
configure({ url, token: async () => (await settings()).token });

function element(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no element with the id ${id}`);
  return found;
}

const notes = element("notes") as HTMLTextAreaElement;
element("context").textContent = (await getInfo()).contextId;

async function list(): Promise<void> {
  const entries = await fs.readdir("/", { withFileTypes: true });
  element("files").replaceChildren(...entries.map((entry) => {
    const item = document.createElement("li");
    item.textContent = entry.name + (entry.isDirectory() ? "/" : "");
    return item;
  }));
}

async function save(): Promise<void> {
  await fs.writeFile("/notes.md", notes.value);
  element("state").textContent = `saved, ${(await fs.stat("/notes.md")).size} bytes`;
  await list();
}

notes.value = await fs.readFile("/notes.md", "utf8").catch((error: unknown) => {
  if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  return "";
});
element("save").addEventListener("click", () => {
  save().catch((error: unknown) => { element("state").textContent = String(error); });
});
await list();
