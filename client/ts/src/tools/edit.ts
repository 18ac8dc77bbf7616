/** An edit by exact text. */
export interface Edit { path: string; oldText: string; newText: string; replaceAll: boolean }

/** Why an edit cannot be made. */
class EditError extends Error {
  constructor(readonly code: "NO_MATCH" | "AMBIGUOUS", message: string) {
    super(message);
  }
}

/** Replaces text. Throws, with what the model needs to try again, when it is not there, or there more than once. */
export function applyEdit(text: string, { path, oldText, newText, replaceAll }: Edit): { text: string; places: number } {
  const found = placesOf(text, oldText);
  if (found.length === 0) throw new EditError("NO_MATCH", `oldText is not in ${path}. ${nearest(text, oldText)}`);
  if (found.length > 1 && !replaceAll) {
    const where = found.slice(0, 10).map((at) => lineAt(text, at)).join(", ");
    throw new EditError("AMBIGUOUS", `oldText is ${found.length} times in ${path}, at lines ${where}. Add lines around it, or set replaceAll.`);
  }
  return { text: text.split(oldText).join(newText), places: found.length };
}

function placesOf(text: string, part: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) found.push(at);
  return found;
}

function lineAt(text: string, at: number): number {
  return text.slice(0, at).split("\n").length;
}

/** Shows the lines that are most like the first line of what was not found. */
function nearest(text: string, oldText: string): string {
  const [wanted = ""] = oldText.trim().split("\n");
  const words = new Set(wanted.split(/\W+/).filter((word) => word !== ""));
  let best = { score: 0, number: 0, line: "" };
  for (const [i, line] of text.split("\n").entries()) {
    const score = line.split(/\W+/).filter((word) => words.has(word)).length;
    if (score > best.score) best = { score, number: i + 1, line };
  }
  return best.score === 0 ? "Read the file first." : `The nearest line is ${best.number}: ${JSON.stringify(best.line)}`;
}
