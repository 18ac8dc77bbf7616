package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (a *app) reviewCommand() *cobra.Command {
	return &cobra.Command{
		Use: "review CONTEXT [PATH...]", Short: "Decide on changes one by one, at a terminal", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.onReview(func(ctx context.Context, c *client.Client, r *client.Review, args []string) error {
			return (&reviewer{a: a, r: r, in: bufio.NewScanner(a.env.Stdin), looks: a.looksAt(c, r.ContextID())}).run(ctx, args)
		}),
	}
}

// reviewer asks about one hunk after the other.
type reviewer struct {
	a  *app
	r  *client.Review
	in *bufio.Scanner
	// looks remembers the files of which each hunk was shown.
	looks looks
	// cut is the last file of which a line was cut.
	cut string
	// approved and rejected count decisions.
	approved, rejected int
}

// question is a hunk, or a change without hunks.
type question struct {
	change *ctxfsv1.Change
	hunk   *ctxfsv1.Hunk
	n      int
	// last is the change if this is its last question, nil otherwise.
	last *ctxfsv1.Change
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
	summary, err := v.r.Hunks(ctx, &ctxfsv1.GetDiffRequest{Paths: paths}, func(c *ctxfsv1.Change, h *ctxfsv1.Hunk) error {
		decidable := c.GetBarred() == "" && !c.GetUnstable() && c.GetContent() != ctxfsv1.ContentKind_CONTENT_KIND_TREE
		byHunk := c.GetHunks() > 0
		if decidable && (h != nil) == byHunk && c.GetDecision() == 0 && h.GetDecision() == 0 {
			n := 1
			if len(all) > 0 && all[len(all)-1].change.GetPath() == c.GetPath() {
				n = all[len(all)-1].n + 1
			}
			if n > 1 {
				all[len(all)-1].last = nil
			}
			all = append(all, question{c, h, n, c})
		}
		return nil
	})
	if err == nil {
		err = printGone(v.a.env.Stdout, v.r.ContextID(), summary)
	}
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
			if isCut(q.hunk) {
				if err := v.a.printf("not approved: lines of it are not shown whole\n"); err != nil {
					return false, err
				}
				continue
			}
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
	_, err := v.r.Decide(ctx, &ctxfsv1.DecideRequest{Decision: d, Comment: comment, Selection: &ctxfsv1.Selection{
		What: &ctxfsv1.Selection_Changes{Changes: &ctxfsv1.SelectedChanges{Changes: []*ctxfsv1.SelectedChange{c}}},
	}})
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
	err := v.a.printf("\n%s\n", head)
	if err == nil && q.hunk != nil {
		err = v.lines(q.hunk)
	}
	if err == nil && isCut(q.hunk) {
		v.cut = q.change.GetPath()
		err = v.a.printf("lines longer than 4 KiB are cut here; 'ctxfs approve' with the path approves the file once this has shown it: ctxfs diff %s %s\n",
			v.looks.context, argument(q.change.GetPath(), q.change.GetRawPath()))
	}
	if err != nil || q.last == nil || v.cut == q.change.GetPath() {
		return err
	}
	return v.looks.shown(v.a, []string{cmp.Or(string(q.last.GetRawPath()), q.last.GetPath())}, []*ctxfsv1.Change{q.last})
}

// isCut reports whether the server cut a line of a hunk.
func isCut(h *ctxfsv1.Hunk) bool {
	return slices.ContainsFunc(h.GetLines(), func(l *ctxfsv1.DiffLine) bool { return l.GetCut() })
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
