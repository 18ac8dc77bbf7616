// Stands for the module electron in a main process that runs in Node. Its windows do what a page with the example's
// preload does, and print what they saw.
import { EventEmitter } from "node:events";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { createPortFs } from "../../src/bridge/index.js";

/** As Electron's: an emitter of events with data, deaf until start, which transfers nothing but others of its kind. */
class MessagePortMain extends EventEmitter {
  private started = false;
  private readonly early: unknown[] = [];

  constructor(private readonly port: MessagePort) {
    super();
    port.on("message", (data: unknown) => {
      if (this.started) this.emit("message", { data, ports: [] });
      else this.early.push(data);
    });
    port.on("close", () => this.emit("close"));
  }

  start(): void {
    this.started = true;
    for (const data of this.early.splice(0)) this.emit("message", { data, ports: [] });
  }

  postMessage(message: unknown, transfer: unknown[] = []): void {
    if (transfer.some((one) => !(one instanceof MessagePortMain))) throw new TypeError("Invalid value for transfer");
    this.port.postMessage(message);
  }

  close(): void {
    this.port.close();
  }
}

export const app = Object.assign(new EventEmitter(), {
  whenReady: () => Promise.resolve(),
  quit: () => { console.log("quit"); },
});

let open = 0;

export class BrowserWindow {
  readonly webContents = Object.assign(new EventEmitter(), { ipc: new EventEmitter(), setWindowOpenHandler: () => undefined });

  constructor(private readonly options: { webPreferences: { partition: string } }) {
    open++;
  }

  async loadFile(path: string): Promise<void> {
    const senderFrame = { url: `file://${path}`, parent: null };
    const event = { ports: [], senderFrame, returnValue: undefined };
    this.webContents.ipc.emit("ctxfs:info", event);
    const { port1, port2 } = new MessageChannel();
    this.webContents.ipc.emit("ctxfs:port", { ...event, ports: [new MessagePortMain(port1)] });
    const fs = createPortFs(port2);
    const bytes = Buffer.alloc(3 << 20, this.options.webPreferences.partition);
    await fs.writeFile("/large", bytes);
    const held = await fs.open("/visits.txt", "a");
    await held.write("a visit\n");
    const same = bytes.equals(await fs.readFile("/large"));
    console.log(JSON.stringify({ info: event.returnValue, partition: this.options.webPreferences.partition, same }));
    this.webContents.emit("destroyed");
    if (--open === 0) app.emit("window-all-closed");
  }
}
