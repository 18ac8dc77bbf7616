/** An entry of a tree of git. */
export interface TreeEntry {
  /** Git's mode: "100644", "100755", "120000", "160000" or "40000". */
  mode: string;
  sha: string;
}

/** The author of a commit, and its time. */
export interface Signature {
  name: string;
  email: string;
  /** To the second, in UTC. */
  date: Date;
}

const encoder = new TextEncoder();

/** Returns the name that git gives an object. */
async function objectName(type: "blob" | "tree" | "commit", content: Uint8Array): Promise<string> {
  const head = encoder.encode(`${type} ${content.length}\0`);
  const whole = new Uint8Array(head.length + content.length);
  whole.set(head);
  whole.set(content, head.length);
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-1", whole)));
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/** Returns the name of a blob. */
export function blobName(content: Uint8Array): Promise<string> {
  return objectName("blob", content);
}

/** Returns the name of a tree. */
export function treeName(entries: ReadonlyMap<string, TreeEntry>): Promise<string> {
  const parts: Uint8Array[] = [];
  const sorted = [...entries].map(([name, entry]) => ({ key: encoder.encode(entry.mode === "40000" ? `${name}/` : name), name, entry }));
  sorted.sort((a, b) => compare(a.key, b.key));
  for (const { name, entry: { mode, sha } } of sorted) {
    parts.push(encoder.encode(`${mode} ${name}\0`), Uint8Array.from(sha.match(/../g) ?? [], (byte) => parseInt(byte, 16)));
  }
  return objectName("tree", concat(parts));
}

/** Returns the name of a commit. */
export function commitName(tree: string, parents: readonly string[], by: Signature, message: string): Promise<string> {
  const signature = `${by.name} <${by.email}> ${Math.floor(by.date.getTime() / 1000)} +0000`;
  const head = [`tree ${tree}`, ...parents.map((parent) => `parent ${parent}`), `author ${signature}`, `committer ${signature}`];
  return objectName("commit", encoder.encode(`${head.join("\n")}\n\n${message}`));
}

function compare(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
