import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { lstat, mkdtemp, readFile, readlink, readdir, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestServer, type TestServer } from "../serve.js";
import { documented } from "./calls.js";
import { call, connectTo, connectToReference, transports, type Answer, type Args } from "./clients.js";
import { differences } from "./differences.js";
import { fill } from "./files.js";

/* The documented calls of the reference file-system server, made to it and to ctxfs on the same files. */

let server: TestServer;
beforeAll(async () => { server = await startTestServer(); });
afterAll(() => server.stop());

/** The two servers, on the same files. */
interface Pair { dir: string; reference: Client; folder: string; contextId: string; ctxfs: Client }

async function openPair(transport: (typeof transports)[number]): Promise<Pair> {
  const dir = await realpath(await mkdtemp(join(tmpdir(), "ctxfs-mcp-")));
  const id = `reference-${transport}`;
  const { token, contextId } = await server.openPanel(id);
  const folder = server.folder(contextId);
  await fill(dir);
  await fill(folder);
  return { dir, reference: await connectToReference(dir), folder, contextId, ctxfs: await connectTo(server, { id, token }, transport) };
}

/** The arguments with paths below the directory of the reference server, whose paths are those of the disk. */
function below(root: string, args: Args): Args {
  const place = (value: unknown): unknown => (Array.isArray(value) ? value.map(place) : typeof value === "string" && value.startsWith("/") ? root + value : value);
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [name, ["path", "paths", "source", "destination"].includes(name) ? place(value) : value]));
}

/** The calls of the system that errors name: two servers take different ones to the same end. */
const systemCalls = / (glob|mkdir|open|opendir|realpath|scandir|stat|edit)( '|$)/g;

/** What of an answer both must have: paths begin at the root, and spaces at the end of a line are no difference. */
function comparable(answer: Answer, { dir, contextId }: Pair): unknown {
  const { failed, text, content, structured } = answer;
  const root = (value: unknown): unknown => typeof value === "string"
    ? value.replaceAll(`${dir}/`, "/").replaceAll(dir, "/").replaceAll(`ctxfs://${contextId}/`, "file:///").replaceAll(/ +$/gm, "")
    : value;
  const mapped = JSON.stringify(failed ? { failed, text: text.replaceAll(systemCalls, " CALL$2") } : { failed, content, structured }, (_, value: unknown) => root(value));
  return JSON.parse(mapped);
}

/** All that is below a directory: modes and contents by name. */
async function contentsOf(root: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const mode = ((await lstat(path)).mode & 0o777).toString(8);
    const content = entry.isSymbolicLink() ? `-> ${await readlink(path)}` : entry.isFile() ? JSON.stringify((await readFile(path, "latin1")).slice(0, 100)) : "";
    found[path.slice(root.length)] = `${mode} ${content}`;
  }
  return found;
}

/** A schema, as far as a caller relies on it. ctxfs checks some bounds itself, and its schemas say that numbers of lines are whole. */
function relied(schema: unknown): unknown {
  const kept = (key: string, value: unknown): unknown => (["description", "$schema", "additionalProperties", "default", "title", "enum", "minItems"].includes(key) ? undefined : value === "integer" ? "number" : value);
  return JSON.parse(JSON.stringify(schema ?? {}, kept));
}

describe.each(transports)("over %s", (transport) => {
  let pair: Pair;
  beforeAll(async () => { pair = await openPair(transport); });
  afterAll(async () => {
    await Promise.all([pair.reference.close(), pair.ctxfs.close()]);
    await rm(pair.dir, { recursive: true, force: true });
  });

  test.each(documented)("$tool: $what", async ({ tool, what, args }) => {
    const [expected, got] = await Promise.all([call(pair.reference, tool, below(pair.dir, args)), call(pair.ctxfs, tool, args)]);
    const difference = differences[`${tool}: ${what}`];
    if (!difference) return expect(comparable(got, pair)).toEqual(comparable(expected, pair));
    expect(comparable(got, pair), "the same as the reference server: the difference is gone").not.toEqual(comparable(expected, pair));
    expect(got.text.replaceAll(/ +$/gm, "")).toEqual(typeof difference.ctxfs === "string" ? difference.ctxfs.replaceAll(/ +$/gm, "") : expect.stringMatching(difference.ctxfs));
  });

  test("both have left the same files", async () => {
    // ctxfs keeps the line ends of a file that it edits.
    expect(await contentsOf(pair.folder)).toEqual({ ...(await contentsOf(pair.dir)), "/windows.txt": String.raw`644 "one\r\n2\r\nthree\r\n"` });
  });

  test("ctxfs has the tools of the reference server with their arguments, results and hints", async () => {
    const { tools } = await pair.reference.listTools();
    const own = new Map((await pair.ctxfs.listTools()).tools.map((tool) => [tool.name, tool]));
    for (const theirs of tools) {
      const ours = own.get(theirs.name);
      expect(relied(ours?.inputSchema), theirs.name).toMatchObject(relied(theirs.inputSchema) as object);
      expect(ours?.annotations, theirs.name).toMatchObject(theirs.annotations ?? {});
      expect(relied(ours?.outputSchema), theirs.name).toEqual(relied(theirs.outputSchema));
    }
  });
});

test("each difference is of a documented call", () => {
  const names = new Set(documented.map(({ tool, what }) => `${tool}: ${what}`));
  expect(names.size).toBe(documented.length);
  expect(Object.keys(differences).filter((name) => !names.has(name))).toEqual([]);
});
