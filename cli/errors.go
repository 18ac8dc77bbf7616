package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/near"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The exit codes of the program. Errors of a server's start have their own (sysexits.h); a signal is 128 and its number.
const (
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// ExitCode is 2.
func (e *usageError) ExitCode() int { return exitUsage }

// usage turns the error of an argument check into a usageError.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		return usagef("%w: %s; see '%s --help'", err, strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
	}
}

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// silentFailure exits with 1 and prints nothing, as grep does when nothing matches.
type silentFailure struct{}

func (silentFailure) Error() string { return "" }

// onlyCommands is the argument check of a command that only has others below it.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usagef("unknown command %q for %q%s; see '%s --help'", args[0], cmd.CommandPath(), didYouMean(args[0], names), cmd.CommandPath())
}

// flagError adds the nearest flag to the error of an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return &usageError{err}
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); len(short) > 1 {
		name = short // -panel was meant as --panel
	}
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name) })
	return usagef("%w%s; see '%s --help'", err, didYouMean("--"+name, flags), cmd.CommandPath())
}

// didYouMean names the candidate that is nearest to a word; "" if none is near.
func didYouMean(word string, candidates []string) string {
	best := near.Best(word, candidates)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", show(best))
}

// Run runs root with args and returns the exit code: 0; 1 for a failure; 2 for a wrong command line; what the error's ExitCode
// returns; or that of ctx's cause, if ctx was cancelled by a signal. It prints each error on standard error in one line, with --json as
// an object, unless it is empty.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var coded interface{ ExitCode() int }
	code := exitFailure
	if cause := context.Cause(ctx); !errors.As(err, &coded) && errors.As(cause, &coded) {
		err = interrupted(cause, err)
	}
	if coded != nil {
		code = coded.ExitCode()
	}
	json, _ := root.PersistentFlags().GetBool("json")
	for _, err := range apart(err) {
		switch text := oneLine(describe(err)); {
		case text == "":
		case json:
			_, _ = fmt.Fprintln(root.ErrOrStderr(), errorJSON(err, text, code))
		default:
			_, _ = fmt.Fprint(root.ErrOrStderr(), filesIn(err)+"ctxfs: "+text+"\n")
		}
	}
	return code
}

// apart returns the errors that errors.Join has joined.
func apart(err error) (errs []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		errs = append(errs, apart(e)...)
	}
	return errs
}

// interrupted describes what a signal ended.
func interrupted(cause, err error) error {
	var t *client.TransportError
	if errors.As(err, &t) && t.MayHaveHappened {
		return fmt.Errorf("%w; the command may have taken effect, look before you repeat it", cause)
	}
	return cause
}

// errorJSON is the form of an error with --json, in one line.
func errorJSON(err error, text string, code int) string {
	_, detail, hint, refused := partsOf(err)
	out := struct {
		Code      string   `json:"code"`
		Message   string   `json:"message"`
		Detail    *string  `json:"detail"`
		Hint      *string  `json:"hint"`
		Syscall   *string  `json:"syscall"`
		Path      *string  `json:"path"`
		Dest      *string  `json:"dest"`
		Files     []object `json:"files"`
		FileCount int32    `json:"fileCount"`
		ListedBy  *string  `json:"listedBy"`
		ExitCode  int      `json:"exitCode"`
	}{
		Code: errorCode(err), Message: text, Detail: orNil(inCommands(detail)), Hint: orNil(inCommands(hint)), Files: []object{},
		FileCount: refused.GetFileCount(), ListedBy: orNil(commandOf(refused.GetListedBy())), ExitCode: code,
	}
	for _, f := range refused.GetFiles() {
		out.Files = append(out.Files, jsonOf(f.ProtoReflect()))
	}
	var e *fserr.Error
	var pe *fs.PathError
	if errors.As(err, &e) {
		out.Syscall, out.Path, out.Dest = orNil(e.Op), orNil(e.Path), orNil(e.Dest)
	}
	if errors.As(err, &pe) {
		out.Syscall, out.Path = orNil(pe.Op), orNil(pe.Path)
	}
	if code > 128 {
		out.Code = "CANCELED" // by a signal
	}
	data, _ := json.Marshal(map[string]any{"error": out}) // strings and numbers encode
	return string(data)
}

// partsOf returns what an error of the server says: the reason if it is a refusal, the detail, the hint and the files; "" and nil where it
// says nothing.
func partsOf(err error) (reason, detail, hint string, files *ctxfsv1.RefusedFiles) {
	var git *client.GitError
	var review *client.ReviewError
	var exec *client.ExecUnavailableError
	var e *fserr.Error
	switch {
	case errors.As(err, &git):
		return git.Reason, git.Detail, git.Hint, git.Files
	case errors.As(err, &review):
		return review.Reason, review.Detail, review.Hint, review.Files
	case errors.As(err, &exec):
		return client.ReasonExecUnavailable, exec.Detail, exec.Hint, nil
	case errors.As(err, &e):
		return e.Reason, e.Detail, e.Hint, nil
	}
	return "", "", "", nil
}

// filesIn has a line for each file of a refusal; "" if there is no more to say of them than the text of the error does.
func filesIn(err error) string {
	_, _, _, refused := partsOf(err)
	var lines strings.Builder
	for _, f := range refused.GetFiles() {
		name := showPath(f.GetPath(), f.GetRawPath())
		switch kind := strings.ToLower(strings.TrimPrefix(f.GetKind().String(), "CONFLICT_KIND_")); {
		case f.GetKind() != ctxfsv1.ConflictKind_CONFLICT_KIND_UNSPECIFIED:
			fmt.Fprintf(&lines, "conflict  %s: %s\n", name, strings.ReplaceAll(kind, "_", " "))
		case refused.GetFileCount() > fserr.FewNames:
			fmt.Fprintf(&lines, "refused  %s\n", name)
		}
	}
	return lines.String()
}

// commandOf returns the command that does what a call does, for the calls that RefusedFiles names in listed_by.
func commandOf(call string) string {
	const lists = " lists them all"
	if call == "" {
		return ""
	}
	return strings.Trim(strings.TrimSuffix(inCommands(path.Base(call)+lists), lists), "'")
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// errorCode is an errno's name, the reason of a refusal, or one of these: USAGE, NO_SERVER, TIMEOUT, CANCELED, TRANSPORT, OUTPUT_MISSING, FAILED.
func errorCode(err error) string {
	var e *fserr.Error
	var wrong *usageError
	var lost *client.TransportError
	var missing missingOutput
	reason, _, _, _ := partsOf(err)
	switch {
	case reason != "":
		return reason
	case errors.As(err, &missing):
		return reasonOutputMissing
	case errors.As(err, &wrong):
		return "USAGE"
	case noServer(err):
		return "NO_SERVER"
	case errors.Is(err, context.DeadlineExceeded):
		return "TIMEOUT"
	case errors.Is(err, context.Canceled):
		return "CANCELED"
	case errors.As(err, &lost):
		return "TRANSPORT"
	case errors.As(err, &e):
		return e.Code.String()
	}
	if code := fserr.CodeOf(err); code != fserr.EIO {
		return code.String()
	}
	return "FAILED"
}

// noServer reports whether a command failed since no server runs here.
func noServer(err error) bool {
	var missing *client.NoServerError
	var silent *client.UnreachableError
	return errors.As(err, &missing) || errors.As(err, &silent)
}

// describe is an error's text in the words of the commands.
func describe(err error) string { return inCommands(client.Describe(err)) }

// inCommands replaces what the server says of its API, for programs, with the commands and flags that do the same.
func inCommands(text string) string { return commandWords.Replace(text) }

// commandWords has the longer phrases before those that they contain.
var commandWords = strings.NewReplacer(
	"call EnsureContext or OpenPanel to try anew", "try again with 'ctxfs context create' or 'ctxfs panel open'",
	"call EnsureContext or OpenPanel", "make it with 'ctxfs context create' or 'ctxfs panel open'; 'ctxfs context list' lists those that exist",
	"its host opens it anew by OpenPanel", "'ctxfs panel open' opens it again",
	"renew it with RenewToken before it expires, or call OpenPanel", "get a new one with 'ctxfs panel open'",
	"set discard_changes", "give --discard-changes",
	"set open_stdin and use SendInput", "use --interactive",
	"start it with pty", "start it with --tty",
	"set open_stdin", "start it with --interactive",
	"ListProcesses lists those that are known", "'ctxfs ps -a' lists those that are known",
	"kill it first", "end it with 'ctxfs kill'",
	"name an author, or set them with git config", "name one with --author, or set them with git config",
	"a site with a hub has the host form:", "--hub and --sandbox exclude each other:",
	"set repo to one that ListRepositories lists", "name a repository that 'ctxfs git repositories' lists",
	"call OpenPanel again", "open it again with 'ctxfs panel open'",
	"call OpenPanel", "open it with 'ctxfs panel open'",
	"set context_id, or send -H 'ctxfs-panel: NAME'", "name a panel with --panel, or a context with -c",
	"a host makes it, without ctxfs-panel, or a panel that was opened with PANEL_RIGHT_REVIEW", "make it as the host, without --panel, or as a panel of 'ctxfs panel open --review'",
	"a host pushes what the panel staged, or opens the panel with PANEL_RIGHT_GIT_PUSH", "push it without --panel, or open the panel with 'ctxfs panel open --git-push'",
	"merge them (on_moved), or stage", "merge them (--merge), or stage",
	"create it: create_branch", "create it with --create",
	"push to the branch without its working tree, or check it out", "leave out --worktree, or check the branch out",
	"push to it with its working tree, or name another branch", "push with --worktree, or name another branch with --branch",
	"a host pushes it", "push it without --panel",
	"a host opens it with PANEL_RIGHT_EXEC", "open it with 'ctxfs panel open --exec'",
	"set context_id to the context of another panel", "name the context of another panel",
	"name an explicit context_id", "name a context with -c",
	"name the panel's context_id, or a template, and none is looked for", "name a context with -c, or a template with --template",
	"leave out one of context_id and template", "leave out one of -c and --template",
	"leave out one of seed_from and template; a panel beside a template needs a context_id for that", "leave out one of --seed-from and --template; a panel beside a template needs a context named with -c for that",
	"leave out one of seed_from and unsafe", "leave out one of --seed-from and --unsafe",
	"leave out seed_from and zones, or delete the context first", "leave out --seed-from and --zones, or delete the context with 'ctxfs context delete'",
	"bad seed_from", "bad --seed-from",
	"leave out one of unsafe and template", "leave out one of --unsafe and --template",
	"leave context_id out", "leave -c out",
	"leave context_id empty", "leave -c out",
	"leave label_selectors empty", "leave --label out",
	"set one of context_id and panel_id", "name a context or a panel",
	"set one of new_context_id and new_panel_id", "name the new context, or --new-panel",
	"name a context_id, or close some handles", "name a context with -c, or close some handles",
	"set one of template and panel_id", "name a template",
	"there, or set template", "there, or name a template",
	"ListSnapshots lists them", "'ctxfs snapshot list' lists them",
	"the syntax is RE2's; fixed_strings searches for plain text", "the syntax is RE2's; -F searches for plain text",
	"(FsService/ListHandles lists them)", "('ctxfs call ListHandles' lists them)",
	"set overwrite to replace files", "give --overwrite to replace files",
	"ask for a recursive copy", "copy directories with -r",
	"bad ttl_ms", "bad --ttl",
	"use 0 (the server's default) to 315360000000 (ten years)", "use 0 (the server's default) to 87600h (ten years)",
	"bad context_age_seconds", "bad --older-than",
	"bad context_idle_seconds", "bad --idle",
	"and not that of if_match; read the file again, and repeat the change with its new etag", "and not that of --if-match; read the file again, and repeat the command with its new etag",
	"the file is gone, and if_match requires one; repeat the change with if_none_match \"*\" to create it again", "the file is gone, and --if-match requires one; leave --if-match out to create it again",
	"and if_none_match requires that it does not", "and the condition requires that it does not",
	"repeat the change with its etag as if_match", "repeat the change with its etag",
	"the file is gone, and if_match requires one", "the file is gone, and the condition requires one",
	"repeat the change with if_none_match \"*\" to create it again", "leave the condition out to create it again",
	"and not that of if_match", "and not that of the condition",
	"old_text and start_line are both set", "--old and --lines are both given",
	"old_text is empty", "--old is empty",
	"give the text to replace, or start_line and end_line", "give --old or --lines",
	"old_text is not in the file", "the text of --old is not in the file",
	"copy old_text from the file", "copy --old from the file",
	"add text around it until it occurs once, set all, or name start_line and end_line", "add text around it until it occurs once, or use --all or --lines",
	"old_text occurs", "the text of --old occurs",
	"end_line = start_line - 1 inserts before start_line", "--lines 5-4 inserts before line 5",
	"new_text has NUL bytes, or is not UTF-8", "the text of --new is not UTF-8",
	"read fewer lines at a time, or use FsService/ReadStream", "print fewer lines at a time, or use 'ctxfs get'",
	"use FsService/ReadStream with a range of bytes, or FsService/Grep", "use 'ctxfs get' or 'ctxfs grep'",
	"write the file whole, or the bytes that change through a handle", "write it whole with 'ctxfs put'",
	"write it whole, in its encoding", "write it whole with 'ctxfs put', in its encoding",
	"so it is no text; write it whole", "so it is no text; write it whole with 'ctxfs put'",
	"or use FsService/ReadStream", "or use 'ctxfs get'",
	"use FsService/ReadStream and WriteStream", "use 'ctxfs get' and 'ctxfs put'",
	"FsService/ReadStream", "'ctxfs get'",
	"list the changes with ignored, and name the revision of that list", "name the revision that 'ctxfs changes --json --ignored' prints",
	"list the changes again", "look again with 'ctxfs changes'",
	"these changed since they were seen", "changed since you looked",
	"show the difference again", "look again with 'ctxfs diff', or give --unseen",
	"is left out of archives; set git", "is left out of archives; give --git",
	"limit memory_bytes is", "--memory is",
	"close some (CloseSite, ctxfs sites --close ID)", "close some with 'ctxfs sites --close ID'",
	"ListSites or 'ctxfs sites' lists them", "'ctxfs sites' lists them",
	"use FsService/WriteStream, in chunks of 256 KiB to 1 MiB", "use 'ctxfs put'",
	"ListChanges lists", "'ctxfs changes' lists",
	"ListConflicts lists", "'ctxfs conflicts' lists",
	"ListRepositories lists", "'ctxfs git repositories' lists",
	"GitStatus lists", "'ctxfs git status' lists",
	"git status lists", "'git status' lists",
)

// oneLine keeps an error in one line, and out of a terminal's control.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = printable(strings.TrimSpace(l))
	}
	return strings.Join(lines, " ")
}
