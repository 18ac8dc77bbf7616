// A panel in a thread of its own: it gets a port, and reports what it saw.
import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { createPortFs } from "../../src/bridge/index.js";

const { port, name } = workerData as { port: MessagePort; name: string };
const fs = createPortFs(port);
await fs.writeFile("/large", Buffer.alloc(5 << 20, name));
await fs.mkdir("/dir/of/worker", { recursive: true });
const { contextId } = await fs.info();
const held = await fs.open("/held", "w");
await held.write("not closed");
parentPort?.postMessage({ contextId, entries: await fs.readdir("/dir/of"), size: (await fs.stat("/large")).size });
