import { marked, running, type Fs, type Run } from "../row.js";

interface Found {
  name: string;
  parentPath: string;
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}

/** What glob finds, in an order. */
async function found(entries: AsyncIterable<string | Found>): Promise<string[]> {
  const list: string[] = [];
  for await (const entry of entries) list.push(typeof entry === "string" ? entry : shown(entry));
  return list.sort();
}

function shown(entry: Found): string {
  const type = entry.isFile() ? "file" : entry.isDirectory() ? "directory" : entry.isSymbolicLink() ? "link" : "other";
  return `${entry.parentPath} | ${entry.name} | ${type}`;
}

const patterns = [
  "*",
  "*.txt",
  "**",
  "**/*.txt",
  "dir/*",
  "dir/**",
  "dir/**/*.txt",
  "{a,lines}.txt",
  "[ab].txt",
  "[!a]*.txt",
  "?.txt",
  "!(a).txt",
  "+(a|l)*",
  "@(a|b).txt",
  "*(x)a.txt",
  "dir/**/deep.txt",
  "nowhere*",
  "./a.txt",
  "./*.txt",
  "dir/../a.txt",
  "dirlink/*",
  "dirlink/**",
  "",
  "DIR/*",
  ".*",
  "dir/",
  "**/",
  "*/",
  "link",
  "broken",
  "l*/*",
  "dir/./b.txt",
  "*/*/*",
  "**/sub/**",
  "a.txt/",
  "a.txt/*",
  "..",
  "../row/*.txt",
  "{dir,empty}/*",
  "dir/{b,c}.txt",
  "{dir/*,*.bin}",
  "a\\.txt",
  "[a",
  "{a",
  "**/**/*.txt",
  "dir//b.txt",
  "**.txt",
];

const wrong: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  "a number": 5,
  true: true,
  "an object": {},
  "an array": [],
  "an array of a number": [5],
  "a function": found,
};

const globRuns: Record<string, Run> = {
  ...Object.fromEntries(patterns.map((p): [string, Run] => [`"${p}"`, (fs: Fs, dir) => found(fs.glob(p, { cwd: dir }))])),
  ...Object.fromEntries(
    ["*.txt", "**", "dir/*", "dir/**", "nowhere"].map((p): [string, Run] => [
      `"${p}" with types`,
      (fs: Fs, dir) => found(fs.glob(p, { cwd: dir, withFileTypes: true })),
    ]),
  ),
  "an absolute pattern": (fs, dir) => found(fs.glob(`${dir}/*.txt`)),
  "an absolute pattern of all": (fs, dir) => found(fs.glob(`${dir}/dir/**`)),
  "two patterns": (fs, dir) => found(fs.glob(["*.txt", "*.bin"], { cwd: dir })),
  "patterns that find the same": (fs, dir) => found(fs.glob(["a.txt", "a*"], { cwd: dir })),
  "exclude by a function": (fs, dir) => found(fs.glob("*.txt", { cwd: dir, exclude: (name: string) => name.startsWith("a") })),
  "exclude a directory by a function": (fs, dir) => found(fs.glob("**", { cwd: `${dir}/dir`, exclude: (name: string) => name === "sub" })),
  "exclude by patterns": (fs, dir) => found(fs.glob("**/*.txt", { cwd: dir, exclude: ["dir/**"] })),
  "exclude by a function, with types": (fs, dir) =>
    found(fs.glob("dir/*", { cwd: dir, withFileTypes: true, exclude: (entry: Found) => entry.name === "b.txt" })),
  "cwd that is not there": (fs, dir) => found(fs.glob("*", { cwd: `${dir}/new` })),
  "cwd that is a file": (fs, dir) => found(fs.glob("*", { cwd: `${dir}/a.txt` })),
  "the loop ends early": async (fs, dir) => {
    for await (const entry of fs.glob("a*", { cwd: dir })) return entry;
    return "none";
  },
  "glob gives an async iterator": (fs, dir) => {
    const g = fs.glob("*", { cwd: dir });
    return [typeof g.next, typeof g[Symbol.asyncIterator]];
  },
  ...Object.fromEntries(Object.entries(wrong).map(([n, v]): [string, Run] => [`pattern: ${n}`, (fs: Fs, dir) => found(fs.glob(v, { cwd: dir }))])),
  ...Object.fromEntries(
    Object.entries(wrong)
      .filter(([n]) => n !== "undefined")
      .map(([n, v]): [string, Run] => [`options: ${n}`, (fs: Fs) => found(fs.glob("row/a*", v))]),
  ),
  ...Object.fromEntries(
    Object.entries(wrong)
      .filter(([n]) => n !== "undefined")
      .map(([n, v]): [string, Run] => [`exclude: ${n}`, (fs: Fs, dir) => found(fs.glob("a*", { cwd: dir, exclude: v }))]),
  ),
  ...Object.fromEntries(
    Object.entries(wrong)
      .filter(([n]) => n !== "undefined")
      .map(([n, v]): [string, Run] => [`withFileTypes: ${n}`, (fs: Fs, dir) => found(fs.glob("a.txt", { cwd: dir, withFileTypes: v }))]),
  ),
};

const asked = "Node asks exclude only about directories that it walks through; here all that is found is asked about, as it is documented";
const groups = "the server's patterns have no !(…), +(…), ?(…) and *(…)";
const unbalanced = "the server says what is wrong with a pattern that Node takes for a name";

/** fs.promises.glob. Node 20 has none, so its rows begin with Node 22. */
export const glob = running < 22 ? {} : marked(
  globRuns,
  [/^exclude by a function$/, asked, { resolved: ["empty.txt", "lines.txt", "readonly.txt", "utf8.txt"] }],
  [/^exclude by a function, with types$/, asked, { resolved: ["/row/dir | c.txt | file", "/row/dir | sub | directory"] }],
  [/^exclude: a function$/, asked, { resolved: [] }],
  [/^"(!\(a\)\.txt|\+\(a\|l\)\*|\*\(x\)a\.txt)"$/, groups, { resolved: [] }],
  [/^"[[{]a"$/, unbalanced, { rejected: { code: "EINVAL" } }],
  [/^"\*\*" with types$/, "Node shows the directory itself with an empty parentPath", { resolved: { 0: "/ | row | directory" } }],
);
