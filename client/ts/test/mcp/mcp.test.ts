import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { execFileSync } from "node:child_process";
import { access, chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { getuid } from "node:process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestServer, type TestServer } from "../serve.js";
import { call, connectTo, transports, type Args } from "./clients.js";

/* Every tool and the resources of ctxfs, by the TypeScript SDK's client. */

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer(...(getuid?.() === 0 ? ["--exec-user", "4321:4321"] : []));
  await chmod(server.workspace, 0o755); // the user of commands passes through it
  const repo = join(server.workspace, "repo");
  const git = (...args: string[]): Buffer => execFileSync("git", ["-C", repo, "-c", "user.name=U", "-c", "user.email=u@example.org", ...args]);
  git("init", "-q", "-b", "main");
  for (const [name, value] of [["user.name", "U"], ["user.email", "u@example.org"]] as const) git("config", name, value);
  await mkdir(join(repo, "src"));
  await writeFile(join(repo, "src/a.ts"), "export const one = 1;\nexport const two = 2;\n");
  git("add", "-A");
  git("commit", "-q", "-m", "begin");
});
afterAll(() => server.stop());

/** A call of a tool in the repository that a context begins with, and what its text has. */
type Row = readonly [tool: string, args: Args, text: string | RegExp];

const rows: readonly Row[] = [
  ["list_allowed_directories", {}, /^Allowed directories:\n\/$/],
  ["read_file", { path: "/repo/hello.txt" }, /^hello\n$/],
  ["read_text_file", { path: "/repo/src/a.ts", head: 1 }, /^export const one = 1;\n?$/],
  ["read_media_file", { path: "/repo/hello.txt" }, ""],
  ["read_multiple_files", { paths: ["/repo/hello.txt", "/repo/src/a.ts"] }, "const two"],
  ["list_directory", { path: "/repo" }, "[DIR] src"],
  ["list_directory_with_sizes", { path: "/repo" }, /\[FILE\] hello\.txt +6 B/],
  ["directory_tree", { path: "/repo" }, '"name": "a.ts"'],
  ["search_files", { path: "/", pattern: "**/*.ts" }, "/repo/src/a.ts"],
  ["get_file_info", { path: "/repo/hello.txt" }, "size: 6"],
  ["grep", { pattern: "const t.o", path: "/repo" }, /a\.ts.*2.*const two/],
  ["glob", { pattern: "**/*.ts" }, "/repo/src/a.ts"],
  ["write_file", { path: "/repo/new.txt", content: "new\n" }, "Successfully wrote to /repo/new.txt"],
  ["edit_file", { path: "/repo/hello.txt", edits: [{ oldText: "hello", newText: "hi" }] }, "+hi"],
  ["edit", { path: "/repo/src/a.ts", edits: [{ startLine: 2, endLine: 2, newText: "export const three = 3;\n" }] }, "+export const three = 3;"],
  ["create_directory", { path: "/repo/made/deep" }, "Successfully created directory"],
  ["move_file", { source: "/repo/new.txt", destination: "/repo/made/moved.txt" }, "Successfully moved"],
  ["batch", { steps: [{ write: "/repo/made/b.txt", content: "b\n" }, { move: "/repo/made/b.txt", destination: "/repo/made/c.txt" }] }, ""],
  ["delete_file", { path: "/repo/made/c.txt" }, ""],
  ["diff", {}, /-hello\n\+hi[^]*\+new/],
  ["submit_changes", { title: "Say hi" }, ""],
  ["stage", { message: "Say hi", repo: "/repo", branch: "hi" }, "hi"],
  ["exec", { command: "cat hello.txt", cwd: "/repo" }, ""],
];

describe.each(transports)("over %s", (transport) => {
  let client: Client;
  let folder: string;
  let contextId: string;

  beforeAll(async () => {
    const panel = await server.openPanel(transport, "--exec");
    contextId = panel.contextId;
    folder = server.folder(contextId);
    client = await connectTo(server, { id: transport, token: panel.token }, transport);
  });
  afterAll(() => client.close());

  test("each tool is called, and none approves, applies or pushes", async () => {
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    expect(rows.map(([tool]) => tool).sort()).toEqual(names.sort());
    expect(names.filter((name) => /push|approve|apply|reject/.test(name))).toEqual([]);
  });

  test("each tool has a title, a description, hints and a schema that every model takes", async () => {
    for (const { name, title, description, inputSchema, annotations } of (await client.listTools()).tools) {
      expect(inputSchema.properties, name).toBeDefined();
      expect(JSON.stringify(inputSchema), "some models refuse a list of types").not.toContain('"type":[');
      expect([title, description, annotations?.readOnlyHint, annotations?.openWorldHint], name).not.toContain(undefined);
      if (annotations?.readOnlyHint === false) expect([annotations.destructiveHint, annotations.idempotentHint], name).not.toContain(undefined);
    }
  });

  test.for(rows)("%s", async ([tool, args, text], context) => {
    const answer = await call(client, tool, args);
    if (tool === "exec" && /EXEC_UNAVAILABLE|cannot be isolated/.test(answer.text)) return context.skip(answer.text);
    expect(answer).toMatchObject({ failed: false, text: typeof text === "string" ? expect.stringContaining(text) as unknown : expect.stringMatching(text) as unknown });
    expect(answer.structured).toBeDefined();
    if (tool === "exec") expect(answer.text).toContain("hi\n");
  });

  test("the tools changed the context, and nothing of the user's", async () => {
    expect(await readFile(join(folder, "repo/hello.txt"), "utf8")).toBe("hi\n");
    expect(await readFile(join(folder, "repo/src/a.ts"), "utf8")).toBe("export const one = 1;\nexport const three = 3;\n");
    expect(await readFile(join(folder, "repo/made/moved.txt"), "utf8")).toBe("new\n");
    await expect(access(join(folder, "repo/made/c.txt"))).rejects.toThrow("ENOENT");
    expect(await readFile(join(server.workspace, "repo/hello.txt"), "utf8")).toBe("hello\n");
    expect(execFileSync("git", ["-C", join(server.workspace, "repo"), "for-each-ref", "--format=%(refname)", "refs/heads"], { encoding: "utf8" })).toBe("refs/heads/main\n");
  });

  test("resources are listed and read", async () => {
    const { resources } = await client.listResources();
    expect(resources).toContainEqual(expect.objectContaining({ uri: `ctxfs://${contextId}/repo` }));
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates.map((template) => template.uriTemplate)).toEqual([`ctxfs://${contextId}/{+path}`]);
    for (const result of [await client.listResources(), await client.readResource({ uri: `ctxfs://${contextId}/repo/hello.txt` }), await client.listTools()]) {
      expect(result, "a shared cache must not have the files of a panel").toMatchObject({ cacheScope: "private" });
    }
    await writeFile(join(folder, "a b.bin"), Buffer.from([0, 255]));
    const read = async (path: string): Promise<unknown> => (await client.readResource({ uri: `ctxfs://${contextId}/${path}` })).contents;
    expect(await read("repo/src/a.ts")).toEqual([expect.objectContaining({ text: "export const one = 1;\nexport const three = 3;\n" })]);
    expect(await read("a%20b.bin")).toEqual([expect.objectContaining({ blob: "AP8=" })]);
  });

  test("a subscription notifies of changes until it ends", async () => {
    const uri = (name: string): string => `ctxfs://${contextId}/repo/${name}`;
    const updated: string[] = [];
    let told: (() => void) | undefined;
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
      updated.push(params.uri);
      told?.();
    });
    const change = async (name: string): Promise<void> => {
      const notified = new Promise<void>((resolve) => { told = resolve; });
      await writeFile(join(folder, "repo", name), "changed\n");
      await notified;
    };
    await client.subscribeResource({ uri: uri("hello.txt") });
    await change("hello.txt");
    expect(new Set(updated)).toEqual(new Set([uri("hello.txt")]));
    await client.unsubscribeResource({ uri: uri("hello.txt") });
    await client.subscribeResource({ uri: uri("made") });
    updated.length = 0;
    await writeFile(join(folder, "repo/hello.txt"), "again\n");
    await change("made/further.txt");
    expect(new Set(updated)).toEqual(new Set([uri("made")]));
  });
});
