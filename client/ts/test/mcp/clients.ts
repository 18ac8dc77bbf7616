import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { binary, type TestServer } from "../serve.js";

/** What a tool answered, whether as a result, as a result that is an error, or as an error of the protocol. */
export interface Answer {
  readonly failed: boolean;
  /** The text blocks, one after the other. */
  readonly text: string;
  readonly content: readonly { readonly type: string }[];
  readonly structured: unknown;
}

/** Arguments of a tool. */
export type Args = Record<string, unknown>;

/** The transports of ctxfs. */
export const transports = ["stdio", "http"] as const;

/** Connects the TypeScript SDK's client to a panel of the server over one of the transports. */
export async function connectTo(server: TestServer, panel: { id: string; token: string }, transport: (typeof transports)[number], ...flags: string[]): Promise<Client> {
  if (transport === "http") return connect(httpTransport(server, panel.token));
  const env = { CTXFS_ADDRESS: `unix://${server.socket}`, HOME: server.workspace, PATH: process.env.PATH ?? "" };
  return connect(new StdioClientTransport({ command: binary(), args: ["mcp", "--panel", panel.id, ...flags], env, stderr: "ignore" }));
}

/** Connects to the reference server of the protocol's authors, which serves a directory. */
export async function connectToReference(dir: string): Promise<Client> {
  const main = createRequire(import.meta.url).resolve("@modelcontextprotocol/server-filesystem/package.json");
  return connect(new StdioClientTransport({ command: process.execPath, args: [join(dirname(main), "dist/index.js"), dir], stderr: "ignore" }));
}

/** The transport to /v1/mcp. */
export function httpTransport(server: TestServer, token: string): StreamableHTTPClientTransport {
  return new StreamableHTTPClientTransport(new URL("/v1/mcp", server.url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
}

/** Connects, and lists the tools: from then on the client checks structured results against their schemas. */
async function connect(transport: StdioClientTransport | StreamableHTTPClientTransport): Promise<Client> {
  const client = new Client({ name: "ctxfs-test", version: "1.0.0" });
  await client.connect(transport);
  await client.listTools();
  return client;
}

/** Calls a tool. An error of the protocol is an answer too. */
export async function call(client: Client, name: string, args: Args): Promise<Answer> {
  try {
    const { content, isError, structuredContent } = (await client.callTool({ name, arguments: args })) as { content: { type: string; text?: string }[]; isError?: boolean; structuredContent?: unknown };
    return { failed: isError === true, text: content.map((block) => block.text ?? "").join(""), content, structured: structuredContent };
  } catch (error) {
    return { failed: true, text: error instanceof Error ? error.message : String(error), content: [], structured: undefined };
  }
}
