import { request as ask, type IncomingMessage } from "node:http";
import { Readable } from "node:stream";

/** What of a request reaches the gateway: nothing that identifies the user, and no encoding, since Electron shows a body as it comes. */
const passed = [
  "accept", "accept-language", "cache-control", "if-match", "if-none-match", "if-range", "range", "sec-fetch-dest", "sec-fetch-mode", "service-worker",
];
/** Headers of the connection to the gateway. */
const own = new Set(["connection", "keep-alive", "transfer-encoding"]);

/** Where a request goes: to the address of the gateway, with the host name of a site there. */
export interface GatewayTarget {
  address: URL;
  host: string;
  path: string;
}

/** Sends a request to the gateway. edit may change a header of the response. */
export function askGateway({ address, host, path }: GatewayTarget, request: Request, edit: (name: string, value: string) => string): Promise<Response> {
  const headers: Record<string, string> = { host };
  for (const name of passed) {
    const value = request.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  return new Promise((resolve, reject) => {
    ask({
      host: address.hostname.replace(/^\[|\]$/g, ""), port: address.port || 80, path, method: request.method, headers, signal: request.signal,
    }, (message) => { resolve(responseOf(message, request.method, edit)); }).once("error", reject).end();
  });
}

function responseOf(message: IncomingMessage, method: string, edit: (name: string, value: string) => string): Response {
  const { statusCode: status = 502, rawHeaders } = message;
  const headers = new Headers();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? "").toLowerCase();
    if (!own.has(name)) headers.append(name, edit(name, rawHeaders[i + 1] ?? ""));
  }
  const bodyless = method === "HEAD" || status === 204 || status === 304;
  if (bodyless) message.resume();
  return new Response(bodyless ? null : Readable.toWeb(message) as unknown as ReadableStream, { status, headers });
}
