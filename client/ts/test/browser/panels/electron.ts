// Stands for Electron in a preload that runs in a frame of a page: the page is the main process.
interface Main {
  sync(channel: string): unknown;
  post(channel: string, ports: MessagePort[]): void;
}

const main = (window.parent as unknown as { electron: Main }).electron;

export const ipcRenderer = {
  sendSync: (channel: string): unknown => main.sync(channel),
  postMessage: (channel: string, _: unknown, ports: MessagePort[]): void => { main.post(channel, ports); },
};

export const contextBridge = {
  exposeInMainWorld: (name: string, value: unknown): void => {
    Object.defineProperty(globalThis, name, { value: structuredClone(value), enumerable: true });
  },
};
