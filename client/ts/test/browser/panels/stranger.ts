// A page of an origin that the server does not let in.
import { createFs } from "@ctxfs/client";

const { url, token } = settings as { url: string; token: string };
const headers = { authorization: `Bearer ${token}` };
const failure = async (call: Promise<unknown>): Promise<string> => call.then(() => "let in", (e: unknown) => String(e));
report({
  error: await createFs({ url, token }).stat("/").then(() => "let in", (e: unknown) => (e as Error).message),
  content: [await failure(fetch(`${url}/v1/content?path=/`, { headers })), await failure(fetch(`${url}/v1/content?path=/put`, { method: "PUT", headers, body: "x" }))],
});
