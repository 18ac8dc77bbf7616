package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (a *app) reviewCommands() []*cobra.Command {
	return []*cobra.Command{
		a.changesCommand(), a.diffCommand(), a.reviewCommand(), a.submitCommand(),
		a.decideCommand("approve", "Approve changes, for apply", ctxfsv1.Decision_DECISION_APPROVED),
		a.decideCommand("reject", "Reject changes, with a remark for the panel", ctxfsv1.Decision_DECISION_REJECTED),
		a.applyCommand(), a.discardCommand(), a.journalCommand(), a.undoCommand(),
		a.rebaseCommand(), a.conflictsCommand(), a.resolveCommand(),
	}
}

// onReview runs f with the review of the context that the first argument names: an ID or a panel.
func (a *app) onReview(f func(ctx context.Context, c *client.Client, r *client.Review, args []string) error) func(*cobra.Command, []string) error {
	return a.withContext(func(ctx context.Context, c *client.Client, args []string) error {
		return f(ctx, c, c.Review(args[0]), args[1:])
	})
}

func (a *app) changesCommand() *cobra.Command {
	req := &ctxfsv1.ListChangesRequest{}
	cmd := &cobra.Command{
		Use: "changes CONTEXT [PATH...]", Short: "List what a context changed", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Lists what a context changed since it was seeded. CONTEXT is an ID or a panel.\n\n" +
			"The first column says what a change does: A added, M modified, D deleted, T another type, X executable or not. The second says what was decided:\n" +
			"+ approved, - rejected, ± in part.",
	}
	cmd.Flags().BoolVar(&req.Ignored, "ignored", false, "list the files of new ignored directories one by one")
	cmd.RunE = a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, args []string) error {
		req.Paths = args
		changes, summary, err := r.Changes(ctx, req)
		if err != nil {
			return err
		}
		if a.json {
			return errors.Join(printProtos(a, changes))
		}
		if err := a.printf("%s\n", heading(summary)); err != nil {
			return err
		}
		rows := make([][]string, len(changes))
		for i, c := range changes {
			rows[i] = []string{" " + changeLetter(c) + decisionSign(c), showPath(c.GetPath(), c.GetRawPath()), lineCounts(c), remarks(c)}
		}
		return a.section(nil, rows)
	})
	return cmd
}

func heading(s *ctxfsv1.ChangesSummary) string {
	out := fmt.Sprintf("%s, +%d -%d", files(int64(s.GetChanges())), s.GetAddedLines(), s.GetRemovedLines())
	if n := s.GetDrifted(); n > 0 {
		out += fmt.Sprintf("   %s changed in the workspace since", files(int64(n)))
	}
	return out
}

func changeLetter(c *ctxfsv1.Change) string {
	return map[ctxfsv1.ChangeKind]string{
		ctxfsv1.ChangeKind_CHANGE_KIND_ADDED: "A", ctxfsv1.ChangeKind_CHANGE_KIND_MODIFIED: "M", ctxfsv1.ChangeKind_CHANGE_KIND_DELETED: "D",
		ctxfsv1.ChangeKind_CHANGE_KIND_TYPE_CHANGED: "T", ctxfsv1.ChangeKind_CHANGE_KIND_MODE_CHANGED: "X",
	}[c.GetKind()]
}

func decisionSign(c *ctxfsv1.Change) string {
	approved := c.GetDecision() == ctxfsv1.Decision_DECISION_APPROVED || (c.GetHunks() > 0 && c.GetApprovedHunks() == c.GetHunks())
	rejected := c.GetDecision() == ctxfsv1.Decision_DECISION_REJECTED || (c.GetHunks() > 0 && c.GetRejectedHunks() == c.GetHunks())
	switch {
	case approved:
		return "+"
	case rejected:
		return "-"
	case c.GetApprovedHunks()+c.GetRejectedHunks() > 0:
		return "±"
	}
	return " "
}

func lineCounts(c *ctxfsv1.Change) string {
	var out []string
	if n := c.GetAddedLines(); n > 0 {
		out = append(out, fmt.Sprintf("+%d", n))
	}
	if n := c.GetRemovedLines(); n > 0 {
		out = append(out, fmt.Sprintf("-%d", n))
	}
	return strings.Join(out, " ")
}

// remarks are what a reviewer should know of a change.
func remarks(c *ctxfsv1.Change) string {
	var out []string
	add := func(when bool, text string) {
		if when {
			out = append(out, text)
		}
	}
	add(c.GetHunks() > 1, fmt.Sprintf("%d hunks", c.GetHunks()))
	add(c.GetContent() == ctxfsv1.ContentKind_CONTENT_KIND_BINARY, "binary")
	add(c.GetContent() == ctxfsv1.ContentKind_CONTENT_KIND_TOO_LARGE, size(max(c.GetBefore().GetSize(), c.GetAfter().GetSize())))
	add(c.GetContent() == ctxfsv1.ContentKind_CONTENT_KIND_TREE, fmt.Sprintf("%s, %s", files(c.GetTreeEntries()), size(c.GetTreeBytes())))
	add(c.GetRenamedFrom() != "", "was "+show(c.GetRenamedFrom()))
	add(c.GetIgnored(), "ignored")
	add(len(c.GetSensitive()) > 0, "sensitive: "+strings.Join(c.GetSensitive(), ", "))
	add(c.GetBarred() != "", "never applied: "+c.GetBarred())
	add(c.GetUnstable(), "being written")
	add(c.GetLineEndingsOnly(), "line endings only")
	add(c.GetDrifted(), "also changed in the workspace")
	return strings.Join(out, "; ")
}

func showPath(path string, raw []byte) string {
	if len(raw) > 0 {
		path = string(raw)
	}
	return show(strings.TrimPrefix(path, "/"))
}

func (a *app) diffCommand() *cobra.Command {
	var stat, names bool
	var against string
	req := &ctxfsv1.GetDiffRequest{}
	cmd := &cobra.Command{
		Use: "diff CONTEXT [PATH...]", Short: "Show what a context changed, as git diff does", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Writes what a context changed as text that git apply accepts. CONTEXT is an ID or a panel. With --against, the text leads from something else\n" +
			"than the base to the context: '--against revision' shows what changed since the last 'ctxfs submit'.\n" +
			"On a terminal it is coloured, and control characters in it are shown as \ufffd.",
	}
	f := cmd.Flags()
	f.BoolVar(&stat, "stat", false, "only count lines")
	f.BoolVar(&names, "name-status", false, "only list paths, with a letter for what changed")
	f.Int32VarP(&req.Lines, "unified", "U", 3, "lines of context around a change")
	f.BoolVar(&req.Ignored, "ignored", false, "show the content of new ignored directories")
	f.StringVar(&against, "against", "", againstUsage)
	f.Int64Var(&req.JournalId, "entry", 0, "show what this entry of 'ctxfs log' changed in the context instead")
	cmd.RunE = a.onReview(func(ctx context.Context, c *client.Client, r *client.Review, args []string) (err error) {
		req.Paths = args
		if req.Against, err = a.against(ctx, c, r, against); err != nil {
			return err
		}
		if req.GetLines() == 0 {
			req.Lines = -1
		}
		if stat || names {
			return a.listDiff(ctx, r, req, stat)
		}
		return r.Patch(ctx, a.patchWriter(), req)
	})
	return cmd
}

func (a *app) listDiff(ctx context.Context, r *client.Review, req *ctxfsv1.GetDiffRequest, stat bool) error {
	changes, summary, err := r.Changes(ctx, &ctxfsv1.ListChangesRequest{Paths: req.GetPaths(), Ignored: req.GetIgnored(), Against: req.GetAgainst(), JournalId: req.GetJournalId()})
	if err != nil {
		return err
	}
	for _, c := range changes {
		if !stat {
			err = a.printf("%s\t%s\n", changeLetter(c), showPath(c.GetPath(), c.GetRawPath()))
		} else {
			err = a.printf(" %s | %s\n", showPath(c.GetPath(), c.GetRawPath()), lineCounts(c))
		}
		if err != nil {
			return err
		}
	}
	if stat {
		return a.printf(" %s\n", heading(summary))
	}
	return nil
}

// Colours of a diff on a terminal, as git has them.
const (
	bold, red, green, cyan, plain = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[m"
)

// isTerminal reports whether standard output is one.
func (a *app) isTerminal() bool {
	f, ok := a.env.Stdout.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// patchWriter writes to standard output: on a terminal in colours, and without what a terminal might obey.
func (a *app) patchWriter() io.Writer {
	if !a.isTerminal() {
		return a.env.Stdout
	}
	return &colourer{out: a.env.Stdout}
}

// colourer colours the lines of a patch. It holds a line until it is whole.
type colourer struct {
	out  io.Writer
	held []byte
}

func (c *colourer) Write(p []byte) (int, error) {
	c.held = append(c.held, p...)
	for {
		line, rest, ok := strings.Cut(string(c.held), "\n")
		if !ok {
			return len(p), nil
		}
		c.held = []byte(rest)
		if _, err := fmt.Fprintf(c.out, "%s%s%s\n", colourOf(line), printable(line), plain); err != nil {
			return 0, err
		}
	}
}

func colourOf(line string) string {
	switch {
	case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return bold
	case strings.HasPrefix(line, "@@"):
		return cyan
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "+"):
		return green
	}
	return ""
}

// selection is what the flags and arguments of a command name.
type selection struct {
	all   bool
	hunks []string
	patch string
}

func (s *selection) flags(cmd *cobra.Command, verb string) {
	cmd.Flags().BoolVar(&s.all, "all", false, verb+" all that is neither sensitive nor ignored")
	cmd.Flags().StringSliceVar(&s.hunks, "hunk", nil, verb+" only these hunks of the one PATH, by their IDs")
	cmd.Flags().StringVar(&s.patch, "patch", "", verb+" the hunks in this patch; - reads standard input")
}

// of returns the selection; nil when nothing is named.
func (s *selection) of(a *app, paths []string) (*ctxfsv1.Selection, error) {
	switch {
	case s.patch != "" && len(paths) == 0 && !s.all:
		data, err := a.readInput(s.patch)
		return client.SelectPatch(data), err
	case s.all && len(paths) == 0:
		return client.SelectAll(), nil
	case len(s.hunks) > 0 && len(paths) == 1:
		return client.SelectHunks(paths[0], s.hunks...), nil
	case len(paths) > 0 && !s.all && s.patch == "" && len(s.hunks) == 0:
		return client.SelectPaths(paths...), nil
	case len(paths) == 0 && !s.all && s.patch == "" && len(s.hunks) == 0:
		return nil, nil
	}
	return nil, usagef("name paths, one path with --hunk, --patch, or --all")
}

func (a *app) readInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.env.Stdin)
	}
	return os.ReadFile(name)
}

func (a *app) decideCommand(verb, short string, decision ctxfsv1.Decision) *cobra.Command {
	var sel selection
	var comment string
	cmd := &cobra.Command{Use: verb + " CONTEXT [PATH...]", Short: short, Args: usage(cobra.MinimumNArgs(1))}
	sel.flags(cmd, verb)
	cmd.Flags().StringVarP(&comment, "message", "m", "", "a remark that the panel can read")
	cmd.RunE = a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, args []string) error {
		what, err := sel.of(a, args)
		if err == nil && what == nil {
			err = usagef("name paths, --patch or --all")
		}
		if err != nil {
			return err
		}
		done, err := r.Decide(ctx, what, decision, comment)
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(done)
		}
		if err := a.printf("%s: %s\n", verb+map[bool]string{true: "d", false: "ed"}[strings.HasSuffix(verb, "e")], files(int64(done.GetChanges()))); err != nil {
			return err
		}
		return a.leftOut(done.GetLeftOut())
	})
	return cmd
}

// leftOut names what --all does not take.
func (a *app) leftOut(paths []string) error {
	for _, p := range paths {
		if err := a.printf("left out  %s: name it to decide on it\n", show(strings.TrimPrefix(p, "/"))); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) submitCommand() *cobra.Command {
	var title, message string
	cmd := &cobra.Command{Use: "submit CONTEXT", Short: "Say that the changes are ready to be reviewed", Args: usage(cobra.ExactArgs(1))}
	cmd.Flags().StringVarP(&title, "title", "t", "", "one line")
	cmd.Flags().StringVarP(&message, "message", "m", "", "what the reviewer should know")
	cmd.RunE = a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, _ []string) error {
		done, err := r.Submit(ctx, title, message)
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(done)
		}
		return a.printf("submitted: %s, revision %s\n", heading(done.GetSummary()), done.GetRevision())
	})
	return cmd
}

func (a *app) applyCommand() *cobra.Command {
	var sel selection
	var commit committing
	var check checking
	req := &ctxfsv1.ApplyRequest{}
	cmd := &cobra.Command{
		Use: "apply CONTEXT [PATH...]", Short: "Merge approved changes into the workspace", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Merges what is approved into the workspace: all of it, or nothing if one file cannot be merged. Named paths, --hunk, --patch and --all are approved and\n" +
			"applied in one step. What the workspace changed of the same files is kept. 'ctxfs undo' takes it back.\n\n" +
			"With --commit the changes are committed as well; with --branch they are committed to a branch, and no file changes. The commit holds nothing\n" +
			"that is not approved: your own changes and what you have staged stay out of it. No hook, filter or signing program runs.",
	}
	sel.flags(cmd, "approve and apply")
	commit.flags(cmd)
	check.flags(cmd)
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().BoolVar(&req.RefuseMerge, "no-merge", false, "apply nothing if the workspace has changed one of the files since")
	cmd.RunE = a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, args []string) error {
		what, err := sel.of(a, args)
		if err == nil {
			err = commit.set(req)
		}
		if err != nil {
			return err
		}
		req.Selection, req.Approve = what, what != nil
		checks, err := check.of(req)
		if err != nil {
			return err
		}
		var done *ctxfsv1.ApplyResponse
		if len(checks) > 0 {
			done, err = a.applyChecked(ctx, r, req, checks)
		} else {
			done, err = r.Apply(ctx, req)
		}
		if err != nil {
			return a.refused(err)
		}
		if a.json {
			return a.printProto(done)
		}
		if err := a.printCommits(done.GetCommits()); err != nil {
			return err
		}
		return a.printApplied("applied", done.GetFiles(), done.GetJournalId())
	})
	return cmd
}

// refused names each conflict of a refusal.
func (a *app) refused(err error) error {
	var r *client.ReviewError
	if !errors.As(err, &r) || len(r.Conflicts) == 0 || a.json {
		return err
	}
	for _, c := range r.Conflicts {
		kind := strings.ToLower(strings.TrimPrefix(c.GetKind().String(), "CONFLICT_KIND_"))
		if _, err := fmt.Fprintf(a.env.Stderr, "conflict  %s: %s\n", showPath(c.GetPath(), c.GetRawPath()), strings.ReplaceAll(kind, "_", " ")); err != nil {
			return err
		}
	}
	return err
}

func (a *app) printApplied(verb string, list []*ctxfsv1.AppliedFile, journal int64) error {
	for _, f := range list {
		what := strings.ToLower(strings.TrimPrefix(f.GetKind().String(), "APPLIED_KIND_"))
		if f.GetKind() == ctxfsv1.AppliedKind_APPLIED_KIND_UNSPECIFIED {
			what = "as it was"
		}
		if f.GetMerged() {
			what += ", merged with the workspace's changes"
		}
		if err := a.printf("%s  %s\n", showPath(f.GetPath(), f.GetRawPath()), what); err != nil {
			return err
		}
	}
	if journal == 0 {
		return a.printf("nothing was done: this is a dry run of %s\n", files(int64(len(list))))
	}
	return a.printf("%s %s; to take it back: ctxfs undo %d\n", verb, files(int64(len(list))), journal)
}

func (a *app) discardCommand() *cobra.Command {
	var sel selection
	cmd := &cobra.Command{Use: "discard CONTEXT [PATH...]", Short: "Put back in the context what it was seeded with", Args: usage(cobra.MinimumNArgs(1))}
	sel.flags(cmd, "discard")
	cmd.RunE = a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, args []string) error {
		what, err := sel.of(a, args)
		if err == nil && what == nil {
			err = usagef("name paths, --patch or --all")
		}
		if err != nil {
			return err
		}
		done, err := r.Discard(ctx, what)
		if err != nil {
			return a.refused(err)
		}
		if a.json {
			return a.printProto(done)
		}
		return a.printf("discarded %s; to take it back: ctxfs undo %d\n", files(int64(len(done.GetPaths()))), done.GetJournalId())
	})
	return cmd
}

func (a *app) journalCommand() *cobra.Command {
	var limit int
	var path string
	cmd := &cobra.Command{Use: "log [CONTEXT]", Short: "List what was applied, discarded and undone", Args: usage(cobra.MaximumNArgs(1))}
	cmd.Flags().IntVarP(&limit, "number", "n", 20, "at most so many entries")
	cmd.Flags().StringVar(&path, "path", "", "only entries that touched this path or something below it")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) (err error) {
		id := ""
		if len(args) == 1 {
			if id, err = a.contextNamed(ctx, c, args[0]); err != nil {
				return err
			}
		}
		entries, err := c.Review(id).Journal(ctx, path, limit)
		if err != nil {
			return err
		}
		if a.json {
			return printProtos(a, entries)
		}
		rows := make([][]string, len(entries))
		for i, e := range entries {
			rows[i] = []string{
				strconv.FormatInt(e.GetJournalId(), 10), clock(e.GetDoneNs()), journalKind(e), show(e.GetContextId()), files(int64(len(e.GetFiles()))), "by " + show(e.GetActor()), commitList(e.GetCommits()),
			}
		}
		return a.table([]string{"ENTRY", "DONE", "WHAT", "CONTEXT", "FILES", "", "COMMITS"}, rows)
	})
	return cmd
}

func journalKind(e *ctxfsv1.JournalEntry) string {
	kind := strings.ToLower(strings.TrimPrefix(e.GetKind().String(), "JOURNAL_KIND_"))
	if e.GetUndoes() != 0 {
		kind += fmt.Sprintf(" of %d", e.GetUndoes())
	}
	if e.GetUndoneBy() != 0 {
		kind += fmt.Sprintf(", undone by %d", e.GetUndoneBy())
	}
	return kind
}

func (a *app) undoCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "undo ENTRY", Short: "Take an entry of 'ctxfs log' back", Args: usage(cobra.ExactArgs(1)),
		Long: "Gives each file of an entry what it held before, merged with what was done to it since. Undoing an undo does it again.",
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		entry, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return usagef("%q is no number of an entry; 'ctxfs log' lists them", args[0])
		}
		done, err := c.Undo(ctx, entry, dry)
		if err != nil {
			return a.refused(err)
		}
		if a.json {
			return a.printProto(done)
		}
		return a.printApplied("undone", done.GetFiles(), done.GetJournalId())
	})
	return cmd
}

func (a *app) reviewCommand() *cobra.Command {
	return &cobra.Command{
		Use: "review CONTEXT [PATH...]", Short: "Decide on changes one by one, at a terminal", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, args []string) error {
			return (&reviewer{a: a, r: r, in: bufio.NewScanner(a.env.Stdin)}).run(ctx, args)
		}),
	}
}

// reviewer asks about one hunk after the other.
type reviewer struct {
	a  *app
	r  *client.Review
	in *bufio.Scanner
	// approved and rejected count decisions.
	approved, rejected int
}

// question is a hunk, or a change without hunks.
type question struct {
	change *ctxfsv1.Change
	hunk   *ctxfsv1.Hunk
	n      int
}

// errQuit ends a review without being an error.
var errQuit = errors.New("quit")

const reviewHelp = `a - approve this
r - reject this
c - reject this with a remark that the panel can read
s - leave this undecided
f - leave the rest of the file undecided
q - quit; what was decided stays
? - show this
`

func (v *reviewer) run(ctx context.Context, paths []string) error {
	var all []question
	err := v.r.Hunks(ctx, &ctxfsv1.GetDiffRequest{Paths: paths}, func(c *ctxfsv1.Change, h *ctxfsv1.Hunk) error {
		decidable := c.GetBarred() == "" && !c.GetUnstable() && c.GetContent() != ctxfsv1.ContentKind_CONTENT_KIND_TREE
		byHunk := c.GetHunks() > 0
		if decidable && (h != nil) == byHunk && c.GetDecision() == 0 && h.GetDecision() == 0 {
			n := 1
			if len(all) > 0 && all[len(all)-1].change.GetPath() == c.GetPath() {
				n = all[len(all)-1].n + 1
			}
			all = append(all, question{c, h, n})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return v.a.printf("nothing is left to decide on\n")
	}
	skip := ""
	for _, q := range all {
		if q.change.GetPath() == skip {
			continue
		}
		switch next, err := v.ask(ctx, q); {
		case errors.Is(err, errQuit):
			return v.summary()
		case err != nil:
			return err
		case next:
			skip = q.change.GetPath()
		}
	}
	return v.summary()
}

func (v *reviewer) summary() error {
	return v.a.printf("approved %d, rejected %d; 'ctxfs apply' merges what is approved\n", v.approved, v.rejected)
}

// ask shows a question until it is answered. skip says that the rest of the file is left undecided.
func (v *reviewer) ask(ctx context.Context, q question) (skip bool, err error) {
	if err := v.show(q); err != nil {
		return false, err
	}
	for {
		if err := v.a.printf("approve, reject, comment, skip, file, quit [a,r,c,s,f,q,?] "); err != nil {
			return false, err
		}
		if !v.in.Scan() {
			return false, errors.Join(errQuit, v.in.Err())
		}
		switch strings.TrimSpace(v.in.Text()) {
		case "a", "y":
			v.approved++
			return false, v.decide(ctx, q, ctxfsv1.Decision_DECISION_APPROVED, "")
		case "r", "n":
			v.rejected++
			return false, v.decide(ctx, q, ctxfsv1.Decision_DECISION_REJECTED, "")
		case "c":
			if err := v.a.printf("remark: "); err != nil || !v.in.Scan() {
				return false, errors.Join(errQuit, err)
			}
			v.rejected++
			return false, v.decide(ctx, q, ctxfsv1.Decision_DECISION_REJECTED, v.in.Text())
		case "s":
			return false, nil
		case "f":
			return true, nil
		case "q":
			return false, errQuit
		default:
			if err := v.a.printf("%s", reviewHelp); err != nil {
				return false, err
			}
		}
	}
}

func (v *reviewer) decide(ctx context.Context, q question, d ctxfsv1.Decision, comment string) error {
	c := &ctxfsv1.SelectedChange{Path: q.change.GetPath(), RawPath: q.change.GetRawPath(), ChangeId: q.change.GetChangeId()}
	if q.hunk != nil {
		c.HunkIds = []string{q.hunk.GetHunkId()}
	}
	_, err := v.r.Decide(ctx, &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{
		Changes: &ctxfsv1.SelectedChanges{Changes: []*ctxfsv1.SelectedChange{c}},
	}}, d, comment)
	return err
}

func (v *reviewer) show(q question) error {
	head := fmt.Sprintf("%s   %s", showPath(q.change.GetPath(), q.change.GetRawPath()), changeLetter(q.change))
	if q.hunk != nil {
		head = fmt.Sprintf("%s   hunk %d of %d", showPath(q.change.GetPath(), q.change.GetRawPath()), q.n, q.change.GetHunks())
	}
	if text := remarks(q.change); text != "" {
		head += "   " + text
	}
	if err := v.a.printf("\n%s\n", head); err != nil || q.hunk == nil {
		return err
	}
	return v.lines(q.hunk)
}

// lines prints a hunk with the line numbers of both versions.
func (v *reviewer) lines(h *ctxfsv1.Hunk) error {
	colour := v.a.isTerminal()
	leading := int32(0)
	for _, l := range h.GetLines() {
		if l.GetKind() != ctxfsv1.LineKind_LINE_KIND_UNSPECIFIED {
			break
		}
		leading++
	}
	before, after := h.GetBeforeStart()-leading, h.GetAfterStart()-leading
	if h.GetBeforeLines() == 0 {
		before++
	}
	if h.GetAfterLines() == 0 {
		after++
	}
	for _, l := range h.GetLines() {
		text, sign, n, on, off := l.GetText(), " ", after, "", ""
		if len(l.GetData()) > 0 {
			text = string(l.GetData())
		}
		switch l.GetKind() {
		case ctxfsv1.LineKind_LINE_KIND_REMOVED:
			sign, n, on = "-", before, red
			before++
		case ctxfsv1.LineKind_LINE_KIND_ADDED:
			sign, on = "+", green
			after++
		default:
			before++
			after++
		}
		if !colour {
			on = ""
		} else if on != "" {
			off = plain
		}
		if err := v.a.printf("%s%s %5d   %s%s\n", on, sign, n, printable(text), off); err != nil {
			return err
		}
	}
	return nil
}
