import type { Args } from "./clients.js";

/** What must never be read. */
export const secret = "SECRET-3f1c9a7e of the host\n";

/** Paths that lead out, for a context whose folder has the links of links below. other is the ID of another panel's context. */
export function pathsOut(workspace: string, other: string): string[] {
  return [
    "../../secret", "/../../secret", "/code/../../../secret", "code/../../../secret", "./.././../secret", "/..", "/../..",
    "%2e%2e/%2e%2e/secret", "..%2f..%2fsecret", "%252e%252e%252f%252e%252e%252fsecret", "..\\..\\secret", "\\..\\..\\secret", "．．/．．/secret",
    `${workspace}/secret`, "/etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/1/root/etc/passwd", "/dev/stdin", "~/secret", "~root", "C:\\secret", "C:/secret",
    `file://${workspace}/secret`, "file:///etc/passwd", `../${other}/secret`, `/../${other}/secret`, `ctxfs://${other}/secret`,
    "/out-relative", "/out-absolute", "/out-folder/secret", "/out-folder", "/out-folder/.contexts/.ctxfs/host.token", "/etc-link/passwd", "/chain/secret",
    "/hello.txt\0", "\0", "/hello.txt\0/../../../secret", "../../secret\0.txt", "\0../../secret",
    "/" + "../".repeat(2000) + "secret", "/" + "x".repeat(5000), "/" + "x/".repeat(3000), "\ud800", "",
  ];
}

/** The links that lead out, by name. */
export function links(workspace: string): Record<string, string> {
  return { "out-relative": "../../secret", "out-absolute": `${workspace}/secret`, "out-folder": "../..", "etc-link": "/etc", chain: "out-folder" };
}

/** How a tool is called with a path, by the name of the tool. */
export const withPath: Readonly<Record<string, (path: string) => Args[]>> = {
  read_file: (path) => [{ path }],
  read_text_file: (path) => [{ path }, { path, head: 3 }, { path, tail: 3 }],
  read_media_file: (path) => [{ path }],
  read_multiple_files: (path) => [{ paths: ["/hello.txt", path] }],
  write_file: (path) => [{ path, content: "pwned" }],
  edit_file: (path) => [{ path, edits: [{ oldText: "SECRET", newText: "pwned" }] }, { path, edits: [{ oldText: "e", newText: "e" }], dryRun: true }],
  delete_file: (path) => [{ path, recursive: true }],
  edit: (path) => [{ path, edits: [{ startLine: 1, endLine: 1, newText: "pwned" }] }],
  batch: (path) => [{ steps: [{ write: path, content: "pwned" }] }, { steps: [{ move: path, destination: "/stolen" }] }, { steps: [{ move: "/victim.txt", destination: path }] }, { steps: [{ edit: path, edits: [{ oldText: "SECRET", newText: "pwned" }] }], dryRun: true }],
  grep: (path) => [{ pattern: ".", path }, { pattern: "SECRET", include: path }],
  glob: (path) => [{ pattern: "**", path }, { pattern: path }],
  diff: (path) => [{ paths: [path] }],
  create_directory: (path) => [{ path: `${path}/pwned` }],
  list_directory: (path) => [{ path }],
  list_directory_with_sizes: (path) => [{ path }],
  directory_tree: (path) => [{ path }],
  search_files: (path) => [{ path, pattern: "**" }, { path: "/", pattern: path }],
  get_file_info: (path) => [{ path }],
  move_file: (path) => [{ source: path, destination: "/stolen" }, { source: "/victim.txt", destination: path }],
};
