import { createServer, type RequestListener } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { contentByFetch } from "../src/links/fetched.js";

/** Runs do against a server, and gives the requests that came. */
async function beside(answer: RequestListener, run: (host: string) => Promise<void>): Promise<string[]> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method ?? ""} ${request.url ?? ""} ${request.headers.authorization ?? ""}`.trim());
    answer(request, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  await run(`127.0.0.1:${(server.address() as AddressInfo).port}`).finally(() => {
    server.closeAllConnections();
    server.close();
  });
  return asked;
}

const answers: [string, RequestListener, string | undefined, number][] = [
  ["is read", (_, response) => { response.end("whole"); }, "whole", 2],
  ["that ends early is left to the session", (_, response) => { response.writeHead(200, { "content-length": "9" }).write("half", () => { response.destroy(); }); }, undefined, 2],
  ["of unknown length is left to the session", (_, response) => { response.write("part"); response.end(); }, undefined, 2],
  ["that the server refuses is left to the session", (_, response) => { response.writeHead(404).end("none"); }, undefined, 2],
  ["from elsewhere is not tried again", (_, response) => { response.writeHead(307, { location: "http://127.0.0.1:1/" }).end(); }, undefined, 1],
];

test.each(answers)("content %s", async (_, answer, want, tries) => {
  const asked = await beside(answer, async (host) => {
    const content = contentByFetch({ host, secure: false }, "p/1");
    for (let i = 0; i < 2; i++) {
      const bytes = await content("secret", { contextId: "ctx_a", path: "/ä b", start: 1, end: 2 });
      expect(bytes && new TextDecoder().decode(bytes)).toBe(want);
    }
  });
  expect(asked).toEqual(Array(tries).fill("GET /v1/content?path=%2F%C3%A4+b&start=1&end=2&context_id=ctx_a&ctxfs-panel=p%2F1 Bearer secret"));
});

test("a request that is cancelled ends", async () => {
  const stop = new AbortController();
  const asked = await beside(() => { stop.abort(); }, async (host) => {
    const content = contentByFetch({ host, secure: false });
    expect(await content("", { contextId: "", rawPath: Uint8Array.of(47, 255), signal: stop.signal })).toBeUndefined();
    expect(await content("", { contextId: "", path: "/", signal: stop.signal })).toBeUndefined();
  });
  expect(asked).toEqual(["GET /v1/content?raw_path=L%2F8%3D"]);
});
