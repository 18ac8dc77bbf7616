import { once } from "node:events";
import { createConnection, createServer, type AddressInfo, type Socket } from "node:net";

/** A TCP relay to a unix socket, whose connections a test can hold up and break. */
export interface Proxy {
  readonly address: string;
  /** Connections that were made so far. */
  readonly connections: number;
  /** Breaks all connections. */
  cut(): void;
  /** Takes what the client sends, and hands on nothing that the server answers. */
  mute(): void;
  close(): Promise<void>;
}

/** Starts a relay. */
export async function startProxy(socket: string): Promise<Proxy> {
  const pairs = new Set<[Socket, Socket]>();
  const state = { connections: 0, muted: false };
  const server = createServer((client) => {
    const target = createConnection(socket);
    const pair: [Socket, Socket] = [client, target];
    pairs.add(pair);
    state.connections++;
    client.pipe(target);
    target.on("data", (bytes) => { if (!state.muted) client.write(bytes); });
    for (const end of pair) end.on("error", () => undefined).on("close", () => { for (const other of pair) other.destroy(); });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    get connections() { return state.connections; },
    cut: () => {
      state.muted = false;
      for (const pair of pairs) for (const end of pair) end.destroy();
      pairs.clear();
    },
    mute: () => { state.muted = true; },
    close: async () => {
      for (const pair of pairs) for (const end of pair) end.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
