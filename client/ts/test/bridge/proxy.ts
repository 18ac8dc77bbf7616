import { once } from "node:events";
import { createConnection, createServer, type Socket } from "node:net";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Stands between a client and a server's unix socket, counts connections, and can break them. */
export interface Proxy {
  readonly socket: string;
  /** Connections that were made so far. */
  readonly connections: number;
  /** Breaks all connections. */
  cut(): void;
  stop(): Promise<void>;
}

/** Starts a proxy to a unix socket. */
export async function startProxy(target: string): Promise<Proxy> {
  const dir = await mkdtemp(join(tmpdir(), "ctxfs-proxy-"));
  const socket = join(dir, "sock");
  const open = new Set<Socket>();
  let connections = 0;
  const server = createServer((near) => {
    connections++;
    const far = createConnection(target);
    for (const [one, other] of [[near, far], [far, near]] as const) {
      open.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => { open.delete(one); other.destroy(); });
    }
  }).listen(socket);
  await once(server, "listening");
  const cut = (): void => { for (const one of open) one.destroy(); };
  return {
    socket, cut,
    get connections() { return connections; },
    stop: async () => {
      cut();
      server.close();
      await rm(dir, { recursive: true });
    },
  };
}
