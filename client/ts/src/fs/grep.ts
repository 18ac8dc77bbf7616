import type { Core } from "./core.js";
import { pathOf, type PathLike } from "./paths.js";
import { requireObject, requireSignal, requireString } from "./validate.js";

/** Options of grep. */
export interface GrepOptions {
  /** The file or directory to search; the root unless told. */
  path?: PathLike | undefined;
  /** The pattern is a plain string. */
  fixedStrings?: boolean | undefined;
  /** Upper and lower case are the same. */
  ignoreCase?: boolean | undefined;
  /** Globs of files to search; one without a slash is matched with the name. */
  include?: readonly string[] | undefined;
  /** Globs of files and directories to pass over. */
  exclude?: readonly string[] | undefined;
  /** Lines before and after each match that come along, 0 to 100. */
  before?: number | undefined;
  after?: number | undefined;
  /** The most matching lines of one file, and of all: no bound and 100,000 unless told. */
  maxCount?: number | undefined;
  maxMatches?: number | undefined;
  /** Ends the search. */
  signal?: AbortSignal | undefined;
}

/** A line that was found, or that surrounds one. */
export interface GrepLine {
  /** From 1. */
  number: number;
  /** The line without its end; of a very long one the first 4 KiB. */
  text: string;
  /** It surrounds a match and is none. */
  context: boolean;
}

/** Lines of one file, in order. A file with very many comes in several. */
export interface GrepMatch { path: string; lines: GrepLine[] }

/** What a search has counted when it ends. */
export interface GrepSummary {
  /** Lines that matched. */
  matches: number;
  filesSearched: number;
  /** A bound ended the search: there may be more. */
  truncated: boolean;
}

/** Searches files for a regular expression: RE2's syntax on a server, JavaScript's in memory. Returns the summary at its end. */
export type Grep = (pattern: string, options?: GrepOptions) => AsyncGenerator<GrepMatch, GrepSummary>;

/** Makes grep over what calls the server. */
export function grepFunction({ caller }: Core): Grep {
  return async function* grep(pattern, given = {}) {
    const options = requireObject(given, "options") as GrepOptions;
    const path = pathOf(options.path ?? "/", "options.path");
    const request = {
      path: path.path, rawPath: path.raw, pattern: requireString(pattern, "pattern"), fixedStrings: options.fixedStrings ?? false,
      ignoreCase: options.ignoreCase ?? false, include: [...(options.include ?? [])], exclude: [...(options.exclude ?? [])],
      beforeContext: options.before ?? 0, afterContext: options.after ?? 0, maxCount: options.maxCount ?? 0, maxMatches: options.maxMatches ?? 0,
    };
    const summary: GrepSummary = { matches: 0, filesSearched: 0, truncated: false };
    for await (const { event } of caller.parts("grep", request, { signal: requireSignal(options.signal, "options.signal") })) {
      if (event.case === "file") {
        yield { path: event.value.path, lines: event.value.lines.map(({ lineNumber, text, context }) => ({ number: Number(lineNumber), text, context })) };
      } else if (event.case === "summary") {
        Object.assign(summary, { matches: Number(event.value.matches), filesSearched: Number(event.value.filesSearched), truncated: event.value.truncated });
      }
    }
    return summary;
  };
}
