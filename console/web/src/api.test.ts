// @vitest-environment-options {"url": "http://localhost/console/"}
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApiError, base64Of, bytesOf, call, collect } from "./api";
import { session, signInByAddress } from "./session";

let answer: () => Response;
const sent: { url: string; init: RequestInit }[] = [];

beforeEach(async () => {
  sent.length = 0;
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    sent.push({ url, init });
    return Promise.resolve(answer());
  });
  answer = () => Response.json({ token: "secret", version: "1" });
  location.hash = "#code=one%2Bcode";
  await signInByAddress();
});

afterEach(() => vi.unstubAllGlobals());

it("trades the code of the address for a token, and takes it out of the address", () => {
  expect(sent[0]?.url).toBe("/v1/console/exchange");
  expect(sent[0]?.init.body).toBe('{"code":"one+code"}');
  expect(location.hash).toBe("");
  expect(session()?.token).toBe("secret");
});

it("sends the token with each call", async () => {
  answer = () => Response.json({ contexts: [{ contextId: "ctx_a" }] });
  await expect(call("ContextService/ListContexts", {})).resolves.toEqual({ contexts: [{ contextId: "ctx_a" }] });
  expect(sent[1]?.url).toBe("/v1/ContextService/ListContexts");
  expect(new Headers(sent[1]?.init.headers).get("Authorization")).toBe("Bearer secret");
});

it("throws the server's error with its reason and hint", async () => {
  answer = () => Response.json({ code: 5, message: "ENOENT: gone; look elsewhere", details: [{ "@type": "x/ctxfs.v1.Conflict", path: "/x" }, { "@type": "x", reason: "ENOENT", metadata: { hint: "look elsewhere" } }] }, { status: 404 });
  const error: unknown = await call("FsService/Stat", { path: "/x" }).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({ message: "ENOENT: gone", status: 404, reason: "ENOENT", hint: "look elsewhere" });
  expect((error as ApiError).details[0]).toMatchObject({ path: "/x" });
});

it("forgets a token that no longer counts", async () => {
  answer = () => new Response("no", { status: 401 });
  await expect(call("ContextService/ListContexts", {})).rejects.toMatchObject({ status: 401 });
  expect(session()).toBeNull();
});

it("reads a stream whose lines are cut anywhere, to the error at its end", async () => {
  const lines = '{"matches":{"entries":[{"name":"ü"}]}}\n{"summary":{"matches":"1"}}\n';
  const chunked = (text: string) => () => new Response(new ReadableStream({
    start(controller) {
      for (const byte of new TextEncoder().encode(text)) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  }));
  answer = chunked(lines);
  await expect(collect("FsService/Glob", {})).resolves.toEqual([{ matches: { entries: [{ name: "ü" }] } }, { summary: { matches: "1" } }]);
  answer = chunked(`${lines}{"error":{"code":4,"message":"ETIMEDOUT: late"}}`);
  await expect(collect("FsService/Glob", {})).rejects.toMatchObject({ message: "ETIMEDOUT: late" });
});

it("turns base64 into bytes and back", () => {
  const bytes = Uint8Array.from({ length: 20_000 }, (_, i) => i % 256);
  expect(bytesOf(base64Of(bytes))).toEqual(bytes);
});
