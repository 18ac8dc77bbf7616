// Measures a sandbox in memory beside memfs, in turns: node memory.mjs CTXFS_SANDBOX_MODULE ROUNDS FILES. It prints, in JSON, the versions of
// Node and memfs, and rows with the median time of an operation of each, in nanoseconds.
import { readFileSync } from "node:fs";
import { memfs } from "memfs";

const [module, rounds, files] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const { createMemorySandbox } = await import(module);

const small = "x".repeat(4 << 10);
const name = (i) => `/workspace/d/f${i}`;

// What the sandbox's read, write, list and delete are for fs/promises.
const over = (p) => ({
  begin: () => p.mkdir("/workspace/d", { recursive: true }),
  read: (path) => p.readFile(path, "utf8"),
  write: (path, text) => p.writeFile(path, text),
  list: (path) => p.readdir(path),
  delete: (path) => p.rm(path, { recursive: true }),
});
const subjects = {
  sandbox: () => {
    const s = createMemorySandbox();
    return { begin: () => s.mkdir("/workspace/d"), read: s.read.bind(s), write: s.write.bind(s), list: s.list.bind(s), delete: s.delete.bind(s) };
  },
  fs: () => over(createMemorySandbox().fs),
  memfs: () => over(memfs({ "/workspace": null }).fs.promises),
};

const all = async (run) => {
  for (let i = 0; i < files; i++) await run(name(i));
};
const lists = 20;
const list = async (s) => {
  for (let i = 0; i < lists; i++) {
    const names = await s.list("/workspace/d");
    if (names.length !== files) throw new Error(`listed ${names.length} names, not ${files}`);
  }
};
const read = async (s, path) => {
  if ((await s.read(path)).length !== small.length) throw new Error(`read another content from ${path}`);
};

// The steps of a round in their order, each with the number of its operations.
const steps = [
  { what: "write a new file of 4 KiB", ops: files, run: (s) => all((path) => s.write(path, small)) },
  { what: "write an existing file of 4 KiB", ops: files, run: (s) => all((path) => s.write(path, small)) },
  { what: "read a file of 4 KiB", ops: files, run: (s) => all((path) => read(s, path)) },
  { what: `list ${files.toLocaleString("en")} names`, ops: lists, run: list },
  { what: "delete a file", ops: files, run: (s) => all((path) => s.delete(path)) },
];

const took = steps.map(() => Object.fromEntries(Object.keys(subjects).map((subject) => [subject, []])));
for (let round = -1; round < rounds; round++) { // the first is a warm-up
  const made = Object.entries(subjects).map(([subject, make]) => [subject, make()]);
  for (const [, s] of made) await s.begin();
  for (const [step, { ops, run }] of steps.entries()) {
    made.push(made.shift()); // the next one begins
    for (const [subject, s] of made) {
      const begun = process.hrtime.bigint();
      await run(s);
      if (round >= 0) took[step][subject].push(Number(process.hrtime.bigint() - begun) / ops);
    }
  }
}
const median = (times) => Math.round(times.sort((a, b) => a - b)[times.length >> 1]);
const rows = steps.map(({ what }, step) => ({ what, ...Object.fromEntries(Object.entries(took[step]).map(([subject, times]) => [subject, median(times)])) }));
const { version } = JSON.parse(readFileSync(new URL("node_modules/memfs/package.json", import.meta.url), "utf8"));
console.log(JSON.stringify({ node: process.version, memfs: version, rows }));
