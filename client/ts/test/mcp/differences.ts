/** How an answer of ctxfs differs on purpose from that of the reference server. */
export interface Difference {
  readonly because: string;
  /** The text that ctxfs answers. */
  readonly ctxfs: string | RegExp;
}

const lines = "ctxfs returns whole lines with their line ends, and counts lines as a reader does: the reference server counts the empty text after the last line end, and cuts a line end in two";
const schema = "the arguments are checked by another library, whose message also names the argument";
const call = "ctxfs names the path in every error";
const diff = "the diff is one that git apply takes: it has the names of git, and git's three lines of context, and keeps the line ends of the file";
const strict = "an argument that means nothing is refused: otherwise a misspelt one would be ignored in silence";
const exact = "ctxfs changes a text only where it is certain which one is meant, and names the lines otherwise";
const info = "times are in ISO 8601, and the etag serves for conditional changes";
const sizes = "names are sorted by their bytes in every listing, and a link has its own size";

/** A listing with sizes: a directory has none. */
const listed = (entries: Record<string, string | undefined>, ...summary: string[]): string =>
  [...Object.entries(entries).map(([name, size]) => `${size === undefined ? "[DIR]" : "[FILE]"} ${name.padEnd(30)} ${(size ?? "").padStart(10)}`.trimEnd()), "", ...summary].join("\n");
const diffOf = (name: string, ...body: string[]): string => ["```diff", `--- a/${name}`, `+++ b/${name}`, ...body, "```\n\n"].join("\n");
const infoOf = (size: number | string, type: "file" | "directory", permissions: string): RegExp => {
  const time = String.raw`\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z`;
  return new RegExp(`^size: ${size}\ncreated: ${time}\nmodified: ${type === "file" ? "2023-11-14T22:13:20.000Z" : time}\naccessed: ${time}\nisDirectory: ${type === "directory"}\nisFile: ${type === "file"}\npermissions: ${permissions}\netag: [\\w-]{20}$`);
};

/** By the tool and what the call is about. */
export const differences: Readonly<Record<string, Difference>> = {
  "read_file: the old name with head": { because: lines, ctxfs: "one\n" },
  "read_text_file: the first lines": { because: lines, ctxfs: "one\ntwo\n" },
  "read_text_file: more first lines than there are": { because: lines, ctxfs: "one\ntwo\nthree\nfour\nfive\n" },
  "read_text_file: first lines that end as on Windows": { because: lines, ctxfs: "one\r\ntwo\r\n" },
  "read_text_file: the last lines of a file that ends with a line end": { because: lines, ctxfs: "four\nfive\n" },
  "read_text_file: last lines that end as on Windows": { because: lines, ctxfs: "two\r\nthree\r\n" },
  "read_text_file: bytes that are not UTF-8": { because: "a text with replaced characters would destroy the file if it were written back", ctxfs: "/latin1.txt is not a text file; use read_media_file" },
  "read_text_file: an argument that does not exist": { because: strict, ctxfs: /nonsense/ },
  "read_text_file: half a line": { because: strict, ctxfs: /head.*integer/ },
  "read_text_file: less than no lines": { because: strict, ctxfs: /head.*not negative/ },
  "read_text_file: head and tail at once": { because: "the words are shorter", ctxfs: /^head and tail exclude each other/ },
  // Node 26 names the path too.
  ...(parseInt(process.versions.node) < 26 && { "read_text_file: a directory": { because: call, ctxfs: "EISDIR: illegal operation on a directory, read '/code'" } }),
  "read_text_file: a link that leads nowhere": { because: "the directory exists, and what the link names does not", ctxfs: "ENOENT: no such file or directory, open '/linked/dangling'" },
  "read_text_file: an empty path": { because: "an empty path names nothing, as in POSIX; the reference server takes it for its directory", ctxfs: /^ENOENT: no such file or directory, open/ },
  "read_text_file: no path": { because: schema, ctxfs: /required.*path/ },
  "read_text_file: a path that is a number": { because: schema, ctxfs: /path.*string/ },
  "read_multiple_files: none": { because: schema, ctxfs: /paths.*1 to 100/ },
  "list_directory_with_sizes: sorted by name": {
    because: sizes,
    ctxfs: listed({ "C.2": "2 B", "a.3000000": "2.86 MB", "b.5000": "4.88 KB", "d.1536": "1.50 KB", folder: undefined }, "Total: 4 files, 1 directories", "Combined size: 2.87 MB"),
  },
  "list_directory_with_sizes: links": {
    because: sizes,
    ctxfs: listed({ dangling: "7 B", file: "12 B", folder: "7 B" }, "Total: 3 files, 0 directories", "Combined size: 26 B"),
  },
  "list_directory_with_sizes: sorted by age": { because: schema, ctxfs: /sortBy|name.*size/ },
  "search_files: links": { because: "a link is found whether or not it leads somewhere", ctxfs: "/linked/dangling\n/linked/file\n/linked/folder" },
  "get_file_info: a file": { because: info, ctxfs: infoOf(6, "file", "644") },
  "get_file_info: a directory": { because: info, ctxfs: infoOf("\\d+", "directory", "755") },
  "get_file_info: a link": { because: info, ctxfs: infoOf(24, "file", "644") },
  "edit_file: the diff alone": { because: diff, ctxfs: diffOf("Lines.txt", "@@ -1,5 +1,5 @@", " one", "-two", "+2", " three", " four", " five") },
  "edit_file: the diff of several edits": { because: diff, ctxfs: diffOf("Lines.txt", "@@ -1,5 +1,4 @@", " one", "-two", "-three", "+23", " four", " five") },
  "edit_file: text with a fence": { because: diff, ctxfs: `\`${diffOf("code/notes.md", "@@ -1,5 +1,5 @@", " # Notes", " ", " ```sh", "-make", "+make all", " ```").slice(0, -2)}\`\n\n` },
  "edit_file: lines that end as on Windows": { because: diff, ctxfs: diffOf("windows.txt", "@@ -1,3 +1,3 @@", " one\r", "-two\r", "+2\r", " three\r") },
  "edit_file: lines that end as on Windows, written": { because: diff, ctxfs: diffOf("windows.txt", "@@ -1,3 +1,3 @@", " one\r", "-two\r", "+2\r", " three\r") },
  "edit_file: a file without a last line end": {
    because: diff,
    ctxfs: diffOf("unended.txt", "@@ -1,3 +1,3 @@", " a", " b", "-c", "\\ No newline at end of file", "+d", "\\ No newline at end of file"),
  },
  "edit_file: a replacement with a dollar sign": { because: diff, ctxfs: diffOf("Lines.txt", "@@ -1,4 +1,4 @@", "-one", "+$& 1", " two", " three", " four") },
  "edit_file: through a link": { because: diff, ctxfs: diffOf("linked/file", "@@ -1,5 +1,5 @@", " $& 1", " two", "-three", "+3", " four", " five") },
  "edit_file: a text that is missing": { because: exact, ctxfs: /oldText is not in the file.*'\/Lines\.txt'$/ },
  "edit_file: a second text that is missing": { because: exact, ctxfs: /edit 2 of 2: oldText is not in the file/ },
  "edit_file: a text that occurs twice": { because: exact, ctxfs: /oldText occurs 2 times, in lines 5, 6/ },
  "edit_file: other indentation": { because: exact, ctxfs: /oldText is not in the file; the nearest lines are 5: / },
  "edit_file: no edits": { because: strict, ctxfs: /1 to 1000 edits/ },
  "edit_file: an empty text": { because: exact, ctxfs: /oldText is empty/ },
  "edit_file: nothing new": { because: "an empty diff has no names", ctxfs: "Nothing changed" },
  "write_file: a directory": { because: "ctxfs writes in the place of the directory, the reference server beside it", ctxfs: "EISDIR: illegal operation on a directory, open '/code'" },
  "write_file: no content": { because: schema, ctxfs: /required.*content/ },
  "move_file: onto a file": { because: "ctxfs names both paths, and says what to do", ctxfs: "EEXIST: file already exists; choose another name, or remove it first, rename '/hello.txt' -> '/old/taken.txt'" },
  "move_file: onto itself": { because: "ctxfs names both paths, and says what to do", ctxfs: "EEXIST: file already exists; choose another name, or remove it first, rename '/hello.txt' -> '/hello.txt'" },
};
