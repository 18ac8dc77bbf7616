import { nodeError } from "./node.js";

/** Throws when an object of options has one that does not exist: most often it is misspelt. */
export function requireKnown(options: object, known: readonly string[]): void {
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const near = known.find((name) => distance(name.toLowerCase(), unknown.toLowerCase()) <= 2);
  const why = near === undefined ? `the options are ${known.join(", ")}` : `did you mean ${near}?`;
  throw nodeError(TypeError, "ERR_INVALID_ARG_VALUE", `unknown option ${JSON.stringify(unknown)}: ${why}`);
}

/** How many letters have to be changed, left out or added to get from one word to another. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const [left = 0, up = 0, corner = 0] = [next[j - 1], row[j], row[j - 1]];
      next.push(Math.min(left + 1, up + 1, corner + (from[i - 1] === to[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
