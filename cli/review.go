package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

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
			"+ approved, - rejected, ± in part. Below stand decisions on changes that the context does not have any more, or has changed since, with commands that\n" +
			"withdraw them: apply still writes what was approved.",
	}
	cmd.Flags().BoolVar(&req.Ignored, "ignored", false, "list the files of new ignored directories one by one")
	cmd.RunE = a.onReview(func(ctx context.Context, c *client.Client, r *client.Review, args []string) error {
		req.Paths = args
		changes, summary, err := r.Changes(ctx, req)
		if err != nil {
			return err
		}
		if err := a.printChanges(r.ContextID(), changes, summary); err != nil {
			return err // what was not printed whole was not seen
		}
		return a.looksAt(c, r.ContextID()).shown(a, args, changes)
	})
	return cmd
}

func (a *app) printChanges(context string, changes []*ctxfsv1.Change, summary *ctxfsv1.ChangesSummary) error {
	if a.json {
		return a.printJSON(object{{"changes", jsonOfAll(changes)}, {"summary", jsonOf(summary.ProtoReflect())}})
	}
	if err := a.printf("%s\n", heading(summary)); err != nil {
		return err
	}
	rows := make([][]string, len(changes))
	for i, c := range changes {
		rows[i] = []string{" " + changeLetter(c) + decisionSign(c), showPath(c.GetPath(), c.GetRawPath()), lineCounts(c), remarks(c)}
	}
	if err := a.section(nil, rows); err != nil {
		return err
	}
	if err := a.printOthers(summary); err != nil {
		return err
	}
	return printGone(a.env.Stdout, context, summary)
}

// printGone names the decisions that no change shows, with the commands that withdraw them.
func printGone(w io.Writer, context string, s *ctxfsv1.ChangesSummary) error {
	var errs []error
	for _, g := range s.GetGone() {
		_, err := fmt.Fprintf(w, "%s: ctxfs reject %s %s\n", goneText(g), show(context), argument(g.GetPath(), g.GetRawPath()))
		errs = append(errs, err)
	}
	if more := int(s.GetGoneCount()) - len(s.GetGone()); more > 0 {
		_, err := fmt.Fprintf(w, "decided, but gone or changed since: %s more\n", files(int64(more)))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// goneText says which decision no change shows. It ends with what the command is for that follows.
func goneText(g *ctxfsv1.GoneDecision) string {
	approved := g.GetDecision() == ctxfsv1.Decision_DECISION_APPROVED
	text := "decided, but gone: "
	if g.GetReplaced() {
		text = "decided, but changed since: "
	}
	text += showPath(g.GetPath(), g.GetRawPath()) + map[bool]string{true: " approved", false: " rejected"}[approved]
	if g.GetActor() != "" {
		text += " by " + show(g.GetActor())
	}
	switch {
	case approved && g.GetReplaced():
		text += ", and 'ctxfs apply' still writes what was approved"
	case approved:
		text += ", and 'ctxfs apply' still writes it"
	case g.GetReplaced():
		text += ", and not as it is now"
	}
	if g.GetReplaced() {
		return text + "; decide again with 'ctxfs approve', or"
	}
	return text + "; to withdraw it"
}

// printOthers names the other contexts that change the same files.
func (a *app) printOthers(s *ctxfsv1.ChangesSummary) error {
	for _, o := range s.GetOtherContexts() {
		paths := o.GetPaths()
		text := show(strings.TrimPrefix(paths[0], "/"))
		if n := o.GetPathCount(); n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		if err := a.printf("also changed in %s: %s\n", show(o.GetContextId()), text); err != nil {
			return err
		}
	}
	return nil
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
	add(c.GetUnresolved(), "conflict, see 'ctxfs conflicts'")
	return strings.Join(out, "; ")
}

func showPath(path string, raw []byte) string {
	if len(raw) > 0 {
		path = string(raw)
	}
	return show(strings.TrimPrefix(path, "/"))
}

// selection is what the flags and arguments of a command name.
type selection struct {
	all   bool
	hunks []string
	patch string
}

func (s *selection) flags(cmd *cobra.Command, verb string) {
	all := verb + " all that is neither sensitive nor ignored, as a directory does"
	if verb == "reject" {
		all = "reject everything, also sensitive and ignored files, as a directory does"
	}
	cmd.Flags().BoolVar(&s.all, "all", false, all)
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

// named returns the selection as of does, and fails when nothing is named.
func (s *selection) named(a *app, paths []string) (*ctxfsv1.Selection, error) {
	what, err := s.of(a, paths)
	if err == nil && what == nil {
		err = usagef("name paths, --patch or --all")
	}
	return what, err
}

func (a *app) readInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.env.Stdin)
	}
	return os.ReadFile(name)
}

func (a *app) decideCommand(verb, short string, decision ctxfsv1.Decision) *cobra.Command {
	var sel selection
	var view viewing
	req := &ctxfsv1.DecideRequest{Decision: decision}
	cmd := &cobra.Command{Use: verb + " CONTEXT [PATH...]", Short: short, Args: usage(cobra.MinimumNArgs(1))}
	sel.flags(cmd, verb)
	approves := decision == ctxfsv1.Decision_DECISION_APPROVED
	if approves {
		view.flags(cmd, verb)
	} else {
		view.revisionFlag(cmd)
	}
	cmd.Flags().StringVarP(&req.Comment, "message", "m", "", "a remark that the panel can read")
	cmd.RunE = a.onReview(func(ctx context.Context, c *client.Client, r *client.Review, args []string) error {
		what, err := sel.named(a, args)
		if err == nil && approves {
			err = view.bind(a.looksAt(c, r.ContextID()), what)
		}
		if err != nil {
			return err
		}
		req.Selection, req.IfRevision = what, view.revision
		done, err := r.Decide(ctx, req)
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(done)
		}
		if err := a.printf("%s: %s\n", verb+map[bool]string{true: "d", false: "ed"}[strings.HasSuffix(verb, "e")], files(int64(done.GetChanges()))); err != nil {
			return err
		}
		return a.leftOut(done)
	})
	return cmd
}

// leftOut names what --all, or a directory, did not take.
func (a *app) leftOut(done interface {
	GetLeftOut() []*ctxfsv1.LeftOut
	GetLeftOutCount() int32
}) error {
	named := done.GetLeftOut()
	for _, l := range named {
		reason := l.GetReason()
		if n := l.GetHunks(); n > 0 {
			reason = fmt.Sprintf("%d of its hunks: %s", n, reason)
		}
		if err := a.printf("left out  %s  %s\n", showPath(l.GetPath(), l.GetRawPath()), reason); err != nil {
			return err
		}
	}
	if more := int64(done.GetLeftOutCount()) - int64(len(named)); more > 0 {
		return a.printf("left out  %s more\n", files(more))
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
	var view viewing
	var commit committing
	var check checking
	req := &ctxfsv1.ApplyRequest{}
	cmd := &cobra.Command{
		Use: "apply CONTEXT [PATH...]", Short: "Merge approved changes into the workspace", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Merges what is approved into the workspace: all of it, or nothing if one file cannot be merged. Named paths, --hunk, --patch and --all are approved and\n" +
			"applied in one step, if diff, changes or review have shown them as they are now. A directory and --all leave ignored and sensitive files out, and say so.\n" +
			"What the workspace changed of the same files is kept. 'ctxfs undo' takes it back.\n\n" +
			"With --commit the changes are committed as well; with --branch they are committed to a branch, and no file changes. The commit holds nothing\n" +
			"that is not approved: your own changes and what you have staged stay out of it. No filter or signing program runs, and no hook without --hooks.",
	}
	sel.flags(cmd, "approve and apply")
	view.flags(cmd, "approve and apply")
	commit.flags(cmd)
	check.flags(cmd)
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "only say what would be done, or why it would be refused")
	cmd.Flags().BoolVar(&req.RefuseMerge, "no-merge", false, "apply nothing if the workspace has changed one of the files since")
	cmd.RunE = a.onReview(func(ctx context.Context, c *client.Client, r *client.Review, args []string) error {
		what, err := sel.of(a, args)
		if err == nil {
			err = commit.set(req)
		}
		if err == nil {
			err = view.bind(a.looksAt(c, r.ContextID()), what)
		}
		if err != nil {
			return err
		}
		req.Selection, req.Approve, req.IfRevision = what, what != nil, view.revision
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
			return err
		}
		if a.json {
			return a.printProto(done)
		}
		if err := errors.Join(a.printCommits(done.GetCommits()), a.leftOut(done)); err != nil {
			return err
		}
		return a.printApplied("applied", done.GetFiles(), done.GetJournalId())
	})
	return cmd
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
		if f.GetOwnerChanged() {
			what += ", with the server's user as its owner"
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
	var view viewing
	cmd := &cobra.Command{Use: "discard CONTEXT [PATH...]", Short: "Put back in the context what it was seeded with", Args: usage(cobra.MinimumNArgs(1))}
	sel.flags(cmd, "discard")
	view.revisionFlag(cmd)
	cmd.RunE = a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, args []string) error {
		what, err := sel.named(a, args)
		if err != nil {
			return err
		}
		done, err := r.Discard(ctx, &ctxfsv1.DiscardRequest{Selection: what, IfRevision: view.revision})
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(done)
		}
		if err := a.leftOut(done); err != nil {
			return err
		}
		return a.printf("discarded %s; to take it back: ctxfs undo %d\n", files(int64(len(done.GetPaths()))), done.GetJournalId())
	})
	return cmd
}

func (a *app) journalCommand() *cobra.Command {
	var limit int
	var path string
	var selectors []string
	cmd := &cobra.Command{Use: "log [CONTEXT]", Short: "List what was applied, discarded and undone", Args: usage(cobra.MaximumNArgs(1))}
	cmd.Flags().IntVarP(&limit, "number", "n", 20, "at most so many entries")
	cmd.Flags().StringVar(&path, "path", "", "only entries that touched this path or something below it")
	selectFlag(cmd, &selectors, "entries of contexts")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) (err error) {
		id := ""
		if len(args) == 1 {
			if id, err = a.contextNamed(ctx, c, args[0]); err != nil {
				return err
			}
		}
		entries, err := c.Review(id).Journal(ctx, path, limit, selectors...)
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
	var commit committing
	cmd := &cobra.Command{
		Use: "undo ENTRY", Short: "Take an entry of 'ctxfs log' back", Args: usage(cobra.ExactArgs(1)),
		Long: "Gives each file of an entry what it held before, merged with what was done to it since. Undoing an undo does it again.\n\n" +
			"The commits of the entry stay. With --commit, a further commit in each repository takes them back.",
	}
	cmd.Flags().BoolVar(&commit.commit, "commit", false, "also take the commits of the entry back, by further commits on the same branches")
	commit.optionFlags(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		entry, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return usagef("%q is no number of an entry; 'ctxfs log' lists them", args[0])
		}
		var opts *ctxfsv1.CommitOptions
		if commit.commit {
			if opts, err = commit.options(); err != nil {
				return err
			}
		} else if commit.hasOptions() {
			return usagef("--message, --author, --trailer and --hooks need --commit")
		}
		done, err := c.UndoCommits(ctx, entry, opts, dry)
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(done)
		}
		if err := a.printCommits(done.GetCommits()); err != nil {
			return err
		}
		return errors.Join(a.printApplied("undone", done.GetFiles(), done.GetJournalId()), a.leftOut(done))
	})
	return cmd
}
