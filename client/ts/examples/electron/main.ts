// Electron's main process: `npm install && npm start -- WORKSPACE`. Two windows, each with a panel, over one connection.
import { join } from "node:path";
import { argv } from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createBridge } from "@ctxfs/client/electron-main";
import { startServer } from "@ctxfs/client/server";
import { app, BrowserWindow } from "electron";

const here = fileURLToPath(new URL(".", import.meta.url));
const page = join(here, "index.html");
const server = await startServer({ workspace: argv[2] ?? "." });
const bridge = createBridge(server, { onError: (error, contextId) => { console.error(contextId, error); } });

async function openWindow(panelId: string): Promise<void> {
  const { partition, contextId } = await bridge.open(panelId, {
    onProgress: ({ phase, filesDone, filesTotal }) => { console.log(`${panelId}: ${phase}, ${filesDone} of ${filesTotal} files`); },
  });
  const window = new BrowserWindow({ title: panelId, webPreferences: { partition, preload: join(here, "preload.cjs") } });
  window.webContents.setWindowOpenHandler(() => ({ action: "deny" }));
  // Before the page loads. Only our page gets the files, should the window ever be led elsewhere.
  bridge.attach(window.webContents, contextId, { allow: (url) => url === pathToFileURL(page).href });
  await window.loadFile(page);
}

app.on("window-all-closed", () => {
  void bridge.close().then(() => server.stop()).finally(() => { app.quit(); });
});

await app.whenReady();
await Promise.all([openWindow("examples/editor"), openWindow("examples/terminal")]);
