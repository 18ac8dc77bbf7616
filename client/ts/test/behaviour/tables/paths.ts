import { pathToFileURL } from "node:url";
import { crossed, marked, same, type Table } from "../row.js";
import { pathCalls } from "./calls.js";

class Named {
  toString(): string {
    return "a.txt";
  }
}
function named(): string {
  return "a.txt";
}

/** Values that are no path. */
const wrong: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  true: true,
  "a number": 5,
  "a negative number": -1,
  NaN: NaN,
  "a bigint": 5n,
  "a symbol": Symbol("a"),
  "an object": {},
  "an object with entries": { a: 1 },
  "an array": [],
  "an array of a path": ["a.txt"],
  "a function": named,
  "a nameless function": () => 1,
  "a Date": new Date(0),
  "a String": new String("a.txt"),
  "an instance": new Named(),
  "an object without prototype": Object.create(null),
  "a Uint16Array": new Uint16Array([97]),
  "a DataView": new DataView(new ArrayBuffer(1)),
  "an ArrayBuffer": new ArrayBuffer(1),
  "a promise": Promise.resolve("a.txt"),
  "a RegExp": /a/,
  "a Map": new Map(),
  "an empty string": "",
  "an empty Buffer": Buffer.alloc(0),
  "a NUL": "a\0b",
  "a NUL at the end": "a\0",
  "a NUL in a Buffer": Buffer.from("a\0b"),
  "an http URL": new URL("http://example.org/a.txt"),
  "a URL with a host": new URL("file://host/a.txt"),
  "a URL with an encoded slash": new URL("file:///a%2Fb"),
  "a URL with a NUL": new URL("file:///a%00b"),
  "a data URL": new URL("data:,a"),
};

/** Paths in each of their forms, of a file and of a directory. */
const forms: Record<string, (dir: string) => unknown> = {
  "a Buffer": (dir) => Buffer.from(`${dir}/a.txt`),
  "a Uint8Array": (dir) => new TextEncoder().encode(`${dir}/a.txt`),
  "a URL": (dir) => pathToFileURL(`${dir}/a.txt`),
  "a URL of localhost": (dir) => new URL(`file://localhost${dir}/a.txt`),
  "an object like a URL": (dir) => ({ href: `file://${dir}/a.txt`, protocol: "file:", pathname: `${dir}/a.txt`, hostname: "" }),
  "a Buffer of a directory": (dir) => Buffer.from(`${dir}/dir`),
  "a relative path": (dir) => `${dir.slice(dir.lastIndexOf("/") + 1)}/a.txt`,
  "./ before a relative path": (dir) => `./${dir.slice(dir.lastIndexOf("/") + 1)}/a.txt`,
  "a path with ..": (dir) => `${dir}/dir/../a.txt`,
  "a path with .. of a link": (dir) => `${dir}/dirlink/../a.txt`,
  "doubled slashes": (dir) => `${dir}//dir///b.txt`,
  "a slash after a directory": (dir) => `${dir}/dir/`,
  "a slash after a file": (dir) => `${dir}/a.txt/`,
  "a slash after a link to a directory": (dir) => `${dir}/dirlink/`,
  "a slash after what is not there": (dir) => `${dir}/new/`,
  "a dot": (dir) => `${dir}/dir/.`,
};

/** Names that are in no fixture. */
const names: Record<string, (dir: string) => unknown> = {
  "a name of 255 bytes": (dir) => `${dir}/${"n".repeat(255)}`,
  "a name of 256 bytes": (dir) => `${dir}/${"n".repeat(256)}`,
  "a path of 5,000 bytes": (dir) => `${dir}/${"abcdefghi/".repeat(500)}`,
  "a name with spaces and quotes": (dir) => `${dir}/it's "a" name`,
  "a name with a line's end": (dir) => `${dir}/one\ntwo`,
  "an emoji": (dir) => `${dir}/😀`,
  "a composed letter": (dir) => `${dir}/\u00e9`,
  "a decomposed letter": (dir) => `${dir}/e\u0301`,
  "half a surrogate pair": (dir) => `${dir}/a\ud800b`,
  "bytes that are no UTF-8": (dir) => Buffer.concat([Buffer.from(`${dir}/`), Buffer.from([0x61, 0xff, 0xfe])]),
  "a percent sign": (dir) => `${dir}/100%25`,
  "a URL with encoded letters": (dir) => new URL(`file://${dir}/%C3%A4%20%25`),
  "a backslash": (dir) => `${dir}/a\\b`,
  "a URL with an encoded backslash": (dir) => new URL(`file://${dir}/a%5Cb`),
};

/** What a name can stand for. */
const states: Record<string, (dir: string) => unknown> = {
  "a file": (dir) => `${dir}/a.txt`,
  "an empty file": (dir) => `${dir}/empty.txt`,
  "another file": (dir) => `${dir}/lines.txt`,
  "what is not there": (dir) => `${dir}/new`,
  "a directory that is not there": (dir) => `${dir}/no/new`,
  "two directories that are not there": (dir) => `${dir}/no/no/new`,
  "below a file": (dir) => `${dir}/a.txt/below`,
  "two below a file": (dir) => `${dir}/a.txt/below/below`,
  "a directory": (dir) => `${dir}/dir`,
  "an empty directory": (dir) => `${dir}/empty`,
  "a directory below itself": (dir) => `${dir}/dir/sub/new`,
  "a link to a file": (dir) => `${dir}/link`,
  "a link to a directory": (dir) => `${dir}/dirlink`,
  "through a link to a directory": (dir) => `${dir}/dirlink/b.txt`,
  "a broken link": (dir) => `${dir}/broken`,
  "a link to itself": (dir) => `${dir}/loop`,
  "through a link to itself": (dir) => `${dir}/loop/x`,
  "below a broken link": (dir) => `${dir}/broken/x`,
};

const all: Table = {
  ...crossed(pathCalls, same(wrong)),
  ...crossed(pathCalls, forms),
  ...crossed(pathCalls, names),
  ...crossed(pathCalls, states),
};

const buffers = "Node 20's cp and recursive readdir take Buffers for texts, and fail in the middle or show numbers; ctxfs takes them as everywhere";
const shownBuffer = "info.path is the path as text, as err.path is: Node gives the Buffer there";
const slash = "the kernel that is asked for a path with a slash after it opens O_CREAT first; the server says that no directory is there";

export const paths = marked(
  all,
  [/^cp (-r )?from with a (Buffer|Uint8Array)$/, buffers, { resolved: "(undefined)" }],
  [/^cp from with a Buffer of a directory$/, buffers, { rejected: { code: "ERR_FS_EISDIR" } }],
  [/^cp -r from with a Buffer of a directory$/, buffers, { resolved: "(undefined)" }],
  [/^cp to with an empty Buffer$/, buffers, { rejected: { code: "ENOENT", syscall: "copyfile" } }],
  [/^cp -r to with an empty Buffer$/, buffers, { rejected: { code: "ENOENT", syscall: "mkdir" } }],
  [/^cp (-r )?to with bytes that are no UTF-8$/, buffers, { resolved: "(undefined)" }],
  [/^cp to with a Uint8Array$/, buffers, { rejected: { code: "ERR_FS_CP_EINVAL" } }],
  [/^cp -r to with a Uint8Array$/, buffers, { rejected: { code: "ERR_FS_CP_DIR_TO_NON_DIR" } }],
  [/^readdir -r with a Buffer of a directory$/, buffers, { resolved: ["b.txt", "c.txt", "sub", "sub/deep.txt"] }, { below: 26 }],
  [/^(copyFile|cp|cp -r) from with an empty file$/, "Node gives the copy of an empty file the times of the original", { files: {} }, { from: 22 }],
  [/^cp to with a Buffer$/, shownBuffer, { rejected: { code: "ERR_FS_CP_EINVAL" } }],
  [/^cp -r to with a Buffer$/, shownBuffer, { rejected: { code: "ERR_FS_CP_DIR_TO_NON_DIR" } }],
  [/^cp to with a Buffer of a directory$/, shownBuffer, { rejected: { code: "ERR_FS_CP_NON_DIR_TO_DIR" } }],
  [/^cp -r to with a Buffer of a directory$/, shownBuffer, { rejected: { code: "ERR_FS_CP_EINVAL" } }],
  [/^rm (-f )?with a Buffer of a directory$/, shownBuffer, { rejected: { code: "ERR_FS_EISDIR" } }],
  [
    /^(copyFile to with a slash after (a file|a link to a directory|what is not there)|cp to with a slash after what is not there)$/,
    slash,
    { rejected: { code: "ENOTDIR", syscall: "copyfile" } },
  ],
  [/^mkdir -p with a slash after a file$/, "the server says what is there instead of a directory", { rejected: { code: "EEXIST" } }],
  [
    /^mkdir -p with below a broken link$/,
    "the server follows the link and says that nothing is there; Node looks at the link itself after it failed",
    { rejected: { code: "ENOENT" } },
  ],
  [
    /^rm (-f )?with a slash after a link to a directory$/,
    "the server removes names and follows no link for a slash",
    { rejected: { code: "ENOTDIR" } },
  ],
  [
    /^rm -r with a slash after a link to a directory$/,
    "Node removes nothing and says nothing; the server says why nothing is removed",
    { rejected: { code: "ENOTDIR" } },
  ],
  [
    /^realpath with a path of 5,000 bytes$/,
    "Node's realpath looks for the first name before it finds the path too long",
    { rejected: { code: "ENAMETOOLONG" } },
  ],
);
