// A page that stands for Electron's main process, with a window that is a frame of it.
import { createBridge, type BridgePanel, type PanelEvent } from "@ctxfs/client/electron-main";

type Listener = (event: PanelEvent) => void;

const senderFrame = { url: location.href, parent: null };

/** The part of Node's EventEmitter that WebContents shows. */
class Emitter {
  readonly #listeners = new Map<string, Listener[]>();
  on = (name: string, listener: Listener): void => { this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener]); };
  once = this.on;
  removeListener = (name: string, listener: Listener): void => { this.#listeners.set(name, (this.#listeners.get(name) ?? []).filter((l) => l !== listener)); };
  emit = (name: string, event: PanelEvent = { ports: [], senderFrame, returnValue: undefined }): void => {
    for (const listener of this.#listeners.get(name) ?? []) listener(event);
  };
}

const { url, panel, preload, script } = settings as { url: string; panel: string; preload: string; script: string };
const bridge = createBridge({
  address: { url },
  openPanel: async (id: string) => (await (await fetch(`/panel/${id}`)).json()) as BridgePanel,
});
const contents = Object.assign(new Emitter(), { ipc: new Emitter() });
Object.assign(globalThis, {
  electron: {
    sync: (channel: string) => {
      const event: PanelEvent = { ports: [], senderFrame, returnValue: undefined };
      contents.ipc.emit(channel, event);
      return event.returnValue;
    },
    post: (channel: string, ports: MessagePort[]) => { contents.ipc.emit(channel, { ports, senderFrame, returnValue: undefined }); },
  },
});

const { contextId } = await bridge.open(panel);
bridge.attach(contents, contextId);
const frame = document.createElement("iframe");
frame.src = `/page?${new URLSearchParams({ script: `${preload} ${script}` }).toString()}`;
document.body.append(frame);
const load = (): Promise<unknown> => new Promise((resolve) => { frame.addEventListener("load", resolve, { once: true }); });
const reported = (): Promise<unknown> => (frame.contentWindow as unknown as { reported: Promise<unknown> }).reported;
await load();
const first = await reported();
frame.contentWindow?.location.reload();
await load();
const second = await reported();
contents.emit("destroyed");
report({ first, second });
