import { contextBridge, ipcRenderer } from "electron";
import { globalName, infoChannel, portChannel, portMessage, wantMessage, type ExposedPanel } from "./bridge/channels.js";

/**
 * Gives the window's page its panel: call it in the preload of a window that bridge.attach serves. It works with
 * contextIsolation and sandbox on, which are Electron's defaults, and without.
 *
 * The page sees the variable ctxfs, {contextId, partition}. A port cannot pass through contextBridge; the page asks for
 * it by a message to its own window when it first uses fs, and gets it by another. So any script of the page can ask for
 * one, as any of them can import fs: the page is the panel, and the port gives access to that panel alone.
 *
 * Throws when no bridge has attached the window, or when attach does not allow its page.
 */
export function exposeCtxfs(): void {
  const panel = ipcRenderer.sendSync(infoChannel) as ExposedPanel | null | undefined;
  if (!panel) throw new Error("this window has no panel: call bridge.attach(window.webContents, contextId) before it loads a page, and see its option allow");
  if (process.contextIsolated) contextBridge.exposeInMainWorld(globalName, panel);
  else Object.assign(globalThis, { [globalName]: panel });
  window.addEventListener("message", (event) => {
    if (event.source !== window || event.data !== wantMessage) return;
    const { port1, port2 } = new MessageChannel();
    ipcRenderer.postMessage(portChannel, null, [port2]);
    window.postMessage(portMessage, "*", [port1]);
  });
}
