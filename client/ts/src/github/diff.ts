/** How many lines around a change a hunk shows. */
const around = 3;
/** The most edits that are looked for one by one. Beyond, what differs is shown as one piece. */
const maxEdits = 2000;

/** Lines of two texts: those of both, or of one. */
interface Step { kind: " " | "-" | "+"; line: string }

/** A file on one side of a diff. */
export interface DiffSide {
  /** Git's mode, such as "100644". */
  mode: string;
  bytes: Uint8Array;
}

const decoder = new TextDecoder("utf-8");

/** Returns the diff of a file, as git apply accepts it. Content that is no text is only named. */
export function fileDiff(path: string, before: DiffSide | undefined, after: DiffSide | undefined): string {
  const [from, to] = [quoted(`a/${path}`), quoted(`b/${path}`)];
  const head = [`diff --git ${from} ${to}`];
  if (!before && after) head.push(`new file mode ${after.mode}`);
  else if (before && !after) head.push(`deleted file mode ${before.mode}`);
  else if (before && after && before.mode !== after.mode) head.push(`old mode ${before.mode}`, `new mode ${after.mode}`);
  const [old, now] = [before?.bytes ?? new Uint8Array(0), after?.bytes ?? new Uint8Array(0)];
  const [left, right] = [before ? from : "/dev/null", after ? to : "/dev/null"];
  if (isBinary(old) || isBinary(now)) return `${head.join("\n")}\nBinary files ${left} and ${right} differ\n`;
  const hunks = hunksOf(linesOf(decoder.decode(old)), linesOf(decoder.decode(now)));
  return hunks === "" ? `${head.join("\n")}\n` : `${head.join("\n")}\n--- ${left}\n+++ ${right}\n${hunks}`;
}

function isBinary(bytes: Uint8Array): boolean {
  return bytes.subarray(0, 8000).includes(0);
}

/** Quotes a path as git does, if it has characters that would end it. */
function quoted(path: string): string {
  // eslint-disable-next-line no-control-regex -- those are meant
  if (!/["\\\x00-\x1f]/.test(path)) return path;
  // eslint-disable-next-line no-control-regex -- as above
  const escaped = path.replace(/["\\]/g, "\\$&").replace(/[\x00-\x1f]/g, (c) => `\\${c.charCodeAt(0).toString(8).padStart(3, "0")}`);
  return `"${escaped}"`;
}

/** Returns the lines of a text, each with its end. */
function linesOf(text: string): string[] {
  return text === "" ? [] : text.split(/(?<=\n)/);
}

function hunksOf(before: readonly string[], after: readonly string[]): string {
  const steps = stepsOf(before, after);
  let out = "";
  let [oldLine, newLine] = [1, 1];
  for (let i = 0; i < steps.length;) {
    const first = steps.findIndex(({ kind }, at) => at >= i && kind !== " ");
    if (first < 0) break;
    const start = Math.max(i, first - around);
    let end = first;
    for (let at = first, same = 0; at < steps.length && same <= 2 * around; at++) {
      same = steps[at]?.kind === " " ? same + 1 : 0;
      if (same === 0) end = at + 1;
    }
    oldLine += start - i;
    newLine += start - i;
    const hunk = steps.slice(start, Math.min(steps.length, end + around));
    const [removed, added] = (["-", "+"] as const).map((kind) => hunk.filter((step) => step.kind === " " || step.kind === kind).length) as [number, number];
    out += `@@ -${range(oldLine, removed)} +${range(newLine, added)} @@\n${hunk.map(shown).join("")}`;
    oldLine += removed;
    newLine += added;
    i = start + hunk.length;
  }
  return out;
}

function range(line: number, count: number): string {
  return count === 1 ? String(line) : `${count === 0 ? line - 1 : line},${count}`;
}

function shown({ kind, line }: Step): string {
  return line.endsWith("\n") ? kind + line : `${kind}${line}\n\\ No newline at end of file\n`;
}

/** Returns how one list of lines becomes another. */
function stepsOf(before: readonly string[], after: readonly string[]): Step[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  const same = (lines: readonly string[]): Step[] => lines.map((line) => ({ kind: " ", line }));
  return [...same(before.slice(0, start)), ...edits(before.slice(start, before.length - end), after.slice(start, after.length - end)), ...same(before.slice(before.length - end))];
}

/** Finds the fewest edits, as Myers' algorithm does. */
function edits(before: readonly string[], after: readonly string[]): Step[] {
  const [n, m] = [before.length, after.length];
  const traces: Map<number, number>[] = [];
  const furthest = new Map<number, number>([[1, 0]]);
  for (let d = 0; d <= Math.min(n + m, maxEdits); d++) {
    traces.push(new Map(furthest));
    for (let k = -d; k <= d; k += 2) {
      let x = down(furthest, k, d) ? furthest.get(k + 1) ?? 0 : (furthest.get(k - 1) ?? 0) + 1;
      while (x < n && x - k < m && before[x] === after[x - k]) x++;
      furthest.set(k, x);
      if (x >= n && x - k >= m) return walkBack(traces, before, after);
    }
  }
  return [...before.map((line): Step => ({ kind: "-", line })), ...after.map((line): Step => ({ kind: "+", line }))];
}

function down(furthest: ReadonlyMap<number, number>, k: number, d: number): boolean {
  return k === -d || (k !== d && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
}

function walkBack(traces: readonly Map<number, number>[], before: readonly string[], after: readonly string[]): Step[] {
  const steps: Step[] = [];
  let [x, y] = [before.length, after.length];
  for (let d = traces.length - 1; d >= 0; d--) {
    const furthest = traces[d] ?? new Map<number, number>();
    const k = x - y;
    const from = down(furthest, k, d) ? k + 1 : k - 1;
    const [px, py] = d === 0 ? [0, 0] : [furthest.get(from) ?? 0, (furthest.get(from) ?? 0) - from];
    for (; x > px && y > py; y--) steps.push({ kind: " ", line: before[--x] ?? "" });
    if (d === 0) break;
    if (x === px) steps.push({ kind: "+", line: after[--y] ?? "" });
    else steps.push({ kind: "-", line: before[--x] ?? "" });
  }
  return steps.reverse();
}
