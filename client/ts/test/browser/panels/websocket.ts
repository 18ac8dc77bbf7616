// A page that makes its fs itself.
import { createFs } from "@ctxfs/client";

const { url, panel } = settings as { url: string; panel: string };
const tokenOf = async (id: string): Promise<string> => ((await (await fetch(`/panel/${id}`)).json()) as { token: string }).token;
const fs = createFs({ url, token: () => tokenOf(panel) });

await fs.writeFile("/a.txt", "äöü");
const names = Array.from({ length: 300 }, (_, i) => `/many-${i}`);
await Promise.all(names.map((name, i) => fs.writeFile(name, String(i))));
const many = await Promise.all(names.map((name) => fs.readFile(name, "utf8")));

const large = new Uint8Array(24 << 20).map((_, i) => i * 13);
await fs.writeFile("/large", large);
const back = await fs.readFile("/large");

// What the page's own fetch does, and that the client used it. Its entry comes some time after the body.
const isLarge = ({ name }: { name: string }): boolean => name.startsWith(`${url}/v1/content?path=%2Flarge`);
const fetched = await new Promise<number>((resolve) => {
  new PerformanceObserver((list) => {
    const found = list.getEntries().filter(isLarge).length;
    if (found > 0) resolve(found);
  }).observe({ type: "resource", buffered: true });
});
const authorization = `Bearer ${await tokenOf(panel)}`;
const put = await fetch(`${url}/v1/content?path=/put`, { method: "PUT", headers: { authorization }, body: large });
const range = await fetch(`${url}/v1/content?path=/put&start=3&end=5`, { headers: { authorization } });
const content = {
  fetched, put: [put.status, put.headers.get("ctxfs-written")], range: [...new Uint8Array(await range.arrayBuffer())],
  none: (await fetch(`${url}/v1/content?path=/none`, { headers: { authorization } })).headers.get("ctxfs-error"),
  credentials: await fetch(`${url}/v1/content?path=/put`, { headers: { authorization }, credentials: "include" }).then(() => "read", () => "refused"),
};

const handle = await fs.open("/lines", "w+");
await handle.write("one\ntwo\n");
await handle.write("three");
await handle.close();
const lines: string[] = [];
const reading = await fs.open("/lines");
for await (const line of reading.readLines()) lines.push(line);

let seen: unknown;
const watching = (async () => {
  for await (const { filename } of fs.watch("/", { signal: AbortSignal.timeout(60_000) })) {
    seen = filename;
    if (filename === "seen.txt") return;
  }
})();
while (seen !== "seen.txt") await fs.writeFile("/seen.txt", "x");
await watching;

const failure = async (call: Promise<unknown>): Promise<unknown> => call.then(() => "no error", (e: unknown) => {
  const { code, message, path } = e as { code?: string; message: string; path?: string };
  return { code, message, path };
});

report({
  text: await fs.readFile("/a.txt", "utf8"),
  many: many.every((text, i) => text === String(i)),
  large: back.length === large.length && back.every((byte, i) => byte === large[i]),
  content, lines, seen,
  entries: (await fs.readdir("/repo", { withFileTypes: true })).map((entry) => [entry.name, entry.isFile()]),
  missing: await failure(fs.stat("/none")),
  wrong: await failure(fs.readFile(5 as never, "no-such-encoding" as never)),
  refused: await failure(createFs({ url, token: "none" }).stat("/")),
  unreachable: await failure(createFs({ url: "http://127.0.0.1:1", token: "none" }).stat("/")),
  info: await fs.info(),
  review: {
    submitted: (await fs.review.submit({ title: "from a page" })).count, state: (await fs.review.state()).state,
    changes: (await fs.review.changes({ paths: ["/a.txt"] })).changes.map(({ path, kind }) => [path, kind]),
    version: (await fs.review.readVersion("/a.txt", "context")).toString(),
    refused: await failure(fs.reviewer(`ctx_${panel}`).approve("all")),
  },
});
await fs.disconnect();
