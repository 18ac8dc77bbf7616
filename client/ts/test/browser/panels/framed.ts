// A panel in a frame, or in a worker, whose host serves it through a port.
import { createPortFs } from "@ctxfs/client/bridge";

const inFrame = typeof window !== "undefined";
const host = (inFrame ? window.parent : globalThis) as unknown as { postMessage(message: unknown, origin?: string): void };
const contextId = inFrame ? (settings as { contextId: string }).contextId : self.name;
const say = (message: unknown): void => { if (inFrame) host.postMessage(message, "*"); else host.postMessage(message); };

const port = await new Promise<MessagePort>((resolve) => {
  globalThis.addEventListener("message", (event: MessageEvent) => { if (event.ports[0]) resolve(event.ports[0]); });
  say({ say: "want", contextId });
});
const fs = createPortFs(port);
await fs.writeFile("/who", contextId);
const large = new Uint8Array(9 << 20).map((_, i) => i * 3);
await fs.writeFile("/large", large);
const back = await fs.readFile("/large");
// Never closed. A handle that nothing refers to would be closed with its object.
(globalThis as unknown as { held: unknown }).held = await fs.open("/held", "w");
say({ say: "done", who: await fs.readFile("/who", "utf8"), info: await fs.info(), large: back.length === large.length && back.every((byte, i) => byte === large[i]) });
