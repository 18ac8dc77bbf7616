import type { CtxFs } from "../create.js";
import type { TextEdit } from "../fs/edit.js";
import { dirname } from "../fs/posix.js";
import { sandboxError } from "../sandbox/errors.js";
import type { Sandbox } from "../sandbox/sandbox.js";
import { lines } from "./text.js";

type LineEdit = Extract<TextEdit, { startLine: number }>;

/** What the tools write, and how it is told. */
interface Written { text: string; etag: string | undefined }

/** Writes a file whole, with its directories; with ifMatch only the file that has this etag. */
export async function writeWhole(sandbox: Sandbox, path: string, content: string, ifMatch: string | null): Promise<Written> {
  const existed = await sandbox.exists(path); // which checks the path
  let etag: string | undefined;
  try {
    if (ifMatch === null) await sandbox.fs.mkdir(dirname(path), { recursive: true });
    await sandbox.fs.writeFile(path, content, { ifMatch: ifMatch ?? undefined, onEtag: (is) => { etag = is; } });
  } catch (error) {
    throw (error as { code?: string }).code === "ENOTSUP" && ifMatch !== null ? noEtags() : sandboxError(error, path);
  }
  return { text: `${existed ? "Replaced" : "Created"} ${path} (${lines(new TextEncoder().encode(content)).length} lines)`, etag };
}

/** An edit as the tool gets it: of oldText, or of the lines from startLine to endLine. */
export interface Edit { path: string; oldText: string | null; startLine: number | null; endLine: number | null; newText: string; replaceAll: boolean | null; ifMatch: string | null }

/** Why an edit cannot be made. */
class EditError extends Error {
  constructor(readonly code: "NO_MATCH" | "AMBIGUOUS" | "NO_LINES" | "EINVAL" | "ENOTSUP", message: string) {
    super(message);
  }
}

function noEtags(): EditError {
  return new EditError("ENOTSUP", "the files of this sandbox have no etags: give null as ifMatch");
}

/** Edits a file where it is: a server reads and replaces it in one step, so that no other change is lost. */
export async function editInPlace(sandbox: Sandbox, edit: Edit): Promise<Written> {
  const { path, ifMatch } = edit;
  const change = changeOf(edit);
  await sandbox.exists(path); // which checks the path
  const done = await onServer(sandbox.fs, path, change, ifMatch) ?? await inMemory(sandbox, path, change, ifMatch);
  return { text: "startLine" in change ? toldLines(change, path) : `Replaced ${done.places} place${done.places === 1 ? "" : "s"} in ${path}`, etag: done.etag };
}

interface Done { places: number; etag: string | undefined }

function changeOf({ oldText, startLine, endLine, newText, replaceAll }: Edit): TextEdit {
  if (oldText !== null && startLine === null && endLine === null) return { oldText, newText, all: replaceAll ?? false };
  if (oldText === null && startLine !== null && endLine !== null && !replaceAll) return { startLine, endLine, newText };
  throw new EditError("EINVAL", "give either oldText, or startLine and endLine, and null for the others");
}

function toldLines({ startLine, endLine }: LineEdit, path: string): string {
  return endLine < startLine ? `Inserted before line ${startLine} of ${path}` : `Replaced lines ${startLine}-${endLine} of ${path}`;
}

/** Undefined where the files have no editFile. */
async function onServer(fs: CtxFs, path: string, change: TextEdit, ifMatch: string | null): Promise<Done | undefined> {
  try {
    const { replacements, etag } = await fs.editFile(path, change, { ifMatch: ifMatch ?? undefined });
    return { places: replacements[0] ?? 0, etag: etag || undefined };
  } catch (error) {
    if ((error as { code?: string }).code !== "ENOSYS") throw sandboxError(error, path);
    return undefined;
  }
}

async function inMemory(sandbox: Sandbox, path: string, change: TextEdit, ifMatch: string | null): Promise<Done> {
  if (ifMatch !== null) throw noEtags();
  const { text, places } = applyEdit(await sandbox.read(path), path, change);
  await sandbox.write(path, text);
  return { places, etag: undefined };
}

/** Makes an edit. Throws, with what the model needs to try again, if its text or its lines are not there, or the text more than once. */
function applyEdit(text: string, path: string, change: TextEdit): { text: string; places: number } {
  if ("startLine" in change) return { text: withLines(text, path, change), places: 1 };
  const { oldText, newText, all } = change;
  const found = placesOf(text, oldText);
  if (found.length === 0) throw new EditError("NO_MATCH", `oldText is not in ${path}. ${nearest(text, oldText)}`);
  if (found.length > 1 && !all) {
    const where = found.slice(0, 10).map((at) => lineAt(text, at)).join(", ");
    throw new EditError("AMBIGUOUS", `oldText is ${found.length} times in ${path}, at lines ${where}. Add lines around it, or set replaceAll.`);
  }
  return { text: text.split(oldText).join(newText), places: found.length };
}

/** Replaces lines as the server does: the last new line ends as the last one that it replaces. */
function withLines(text: string, path: string, { startLine, endLine, newText }: LineEdit): string {
  const all = text.split(/(?<=\n)/).filter((line) => line !== "");
  if (startLine > all.length + 1 || endLine < startLine - 1 || endLine > all.length) {
    throw new EditError("NO_LINES", `lines ${startLine}-${endLine} are not in ${path}, which has ${all.length}. Read the file again.`);
  }
  const ends = /\r?\n$/;
  const usual = all.length > 0 && all.every((line) => line.endsWith("\r\n") || !line.endsWith("\n")) && text.includes("\r\n") ? "\r\n" : "\n";
  const replaced = all[endLine - 1];
  const added = usual === "\n" ? newText : newText.replace(/\r?\n/g, usual);
  const before = all.slice(0, startLine - 1).join("");
  const after = all.slice(endLine).join("");
  if (added === "" || all.length === 0) return before + added + after;
  if (endLine >= startLine) return before + added.replace(ends, "") + (ends.exec(replaced ?? "")?.[0] ?? "") + after;
  if (after === "" && !before.endsWith("\n")) return before + usual + added.replace(ends, ""); // the last line keeps that it has no end
  return before + added.replace(ends, "") + usual + after;
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
