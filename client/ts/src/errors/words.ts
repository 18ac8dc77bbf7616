/**
 * What the server says of its API and of the command line, and what does the same here. Phrases stand before those that they contain.
 * Flags of `ctxfs serve` and commands of the server's operator stay: nothing here does the same.
 */
const phrases: readonly (readonly [server: string, here: string])[] = [
  ["call EnsureContext or OpenPanel to try anew", "try again with openPanel()"],
  ["call EnsureContext or OpenPanel", "make it with openPanel()"],
  ["its host opens it anew by OpenPanel", "its host opens it again with openPanel()"],
  ["its host gets another by RenewToken", "its host gets another with renewToken()"],
  ["renew it with RenewToken before it expires, or call OpenPanel", "renew it with renewToken() before it expires, or call openPanel()"],
  ["call OpenPanel", "call openPanel()"],
  ["set context_id, or send -H 'ctxfs-panel: NAME'", "use the files of a panel, or of fs(contextId)"],
  ["name a context_id, or close some handles", "use another context, or close some handles"],
  ["name an explicit context_id", "name a contextId of your own"],
  ["set open_stdin and use SendInput", "use the option stdin: \"stream\""],
  ["set one of stdin, open_stdin and pty", "set one of the options input, stdin and pty"],
  ["set open_stdin", "use the option stdin: \"stream\""],
  ["ListProcesses lists those that are known", "processes() lists those that are known"],
  ["set repo to one that ListRepositories lists", "set repo to one that repositories() lists"],
  ["create it: create_branch", "create it: createBranch: true"],
  ["a host opens it with PANEL_RIGHT_EXEC", "a host opens it with openPanel(id, { exec: true })"],
  ["or opens the panel with PANEL_RIGHT_GIT_PUSH", "or opens the panel with the right git-push"],
  ["or a panel that was opened with PANEL_RIGHT_REVIEW", "or a panel that was opened with { review: true }"],
  ["leave out one of seed_from and template; a panel beside a template needs a context_id for that", "leave out one of seedFrom and template; a panel beside a template needs a contextId for that"],
  ["set discard_changes", "use --discard-changes of 'ctxfs context delete' and 'ctxfs snapshot restore'"],
  ["fixed_strings searches for plain text", "the option fixedStrings searches for plain text"],
  ["(FsService/ListHandles lists them)", "(a FileHandle is closed with close())"],
  ["a panel may call FsService and ContextService/GetInfo, ReviewService for its own changes, GatewayService for its own sites, ZoneService/ListZones, GitService but Push, and with PANEL_RIGHT_EXEC ExecService", "a panel may use its files, its own changes, its own sites, zones(), its git but push(), and exec() with that right"],
  ["use FsService/ReadStream with a range of bytes, or FsService/Grep", "use createReadStream() with a range of bytes, or grep()"],
  ["use FsService/ReadStream and WriteStream", "use createReadStream() and createWriteStream()"],
  ["use FsService/WriteStream, in chunks of 256 KiB to 1 MiB", "use createWriteStream()"],
  ["FsService/ReadStream", "createReadStream()"],
  ["FsService/Grep", "grep()"],
  ["the first message of a WriteStream must be open", "the first message of a stream must open it"],
  ["a WriteStream has one open, its first message", "a stream is opened once, by its first message"],
  ["(CloseSite, ctxfs sites --close ID)", "(close() of a site)"],
  ["ListSites or 'ctxfs sites' lists them", "'ctxfs sites' lists them"],
  ["ListSnapshots lists them", "'ctxfs snapshot list' lists them"],
  ["ListChanges lists", "changes() lists"],
  ["ListConflicts lists", "conflicts() lists"],
  ["ListRepositories lists", "repositories() lists"],
  ["GitStatus lists", "status() lists"],
  ["git status lists", "'git status' lists"],
  ["'ctxfs conflicts' lists them", "conflicts() lists them"],
  ["'ctxfs log' lists them", "journal() lists them"],
  ["'ctxfs zones list' lists them", "zones() lists them"],
  ["'ctxfs diff' prints it", "patch() returns it"],
  ["apply them without --commit and --branch", "apply them without the option commit"],
  ["apply without --commit and --branch", "apply without the option commit"],
  ["apply without --hooks", "apply without runHooks"],
  ["undo without --commit", "undo without a commit"],
  ["commit to a branch instead (--branch)", "commit to a branch instead (commit.branch)"],
  ["commit to what is checked out (--commit)", "commit to what is checked out (commit without branch)"],
  ["name an author (--author)", "name an author (commit.author)"],
  ["commit with 'ctxfs apply --commit --hooks'", "have a host commit with runHooks"],
  ["lower --disk-reserve", "have the operator lower --disk-reserve"],
];

/** The fields of requests that the server's texts name. Options here have the same names in camel case. */
const fields = [
  "context_id", "panel_id", "seed_from", "if_match", "if_none_match", "dest_if_match", "mode_octal", "buffer_size", "chunk_size", "atime_ns", "mtime_ns",
  "max_count", "fixed_strings", "old_text", "new_text", "start_line", "end_line", "wall_ms", "grace_ms", "ttl_ms", "journal_id", "label_selectors", "request_id",
  "memory_bytes", "live_reload", "on_moved", "create_branch", "open_stdin",
];

// A name in a path, or of a file, is not a field.
const field = new RegExp(`(?<![\\w/.'-])(?:${fields.join("|")})(?![\\w/.'-])`, "g");

/** Replaces what the server says of its API with the functions and options that do the same. */
export function inFunctions(text: string): string {
  let said = text;
  for (const [server, here] of phrases) said = said.replaceAll(server, here);
  return said.replace(field, (name) => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()));
}
