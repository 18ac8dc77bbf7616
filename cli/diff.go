package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (a *app) diffCommand() *cobra.Command {
	var stat, names bool
	var against string
	req := &ctxfsv1.GetDiffRequest{}
	cmd := &cobra.Command{
		Use: "diff CONTEXT [PATH...]", Short: "Show what a context changed, as git diff does", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Writes what a context changed as text that git apply accepts, and on standard error the decisions that no change shows. CONTEXT is an ID or a panel. With --against, the text leads from something else\n" +
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
			return a.listDiff(ctx, c, r, req, stat)
		}
		changes, summary, err := r.Patch(ctx, a.patchWriter(), req)
		if err == nil {
			err = printGone(a.env.Stderr, r.ContextID(), summary) // standard output is a patch
		}
		if err != nil || !ofBase(req) {
			return err
		}
		return a.looksAt(c, r.ContextID()).shown(a, args, changes)
	})
	return cmd
}

// ofBase reports whether a difference leads from the base to the context, which is what is decided on.
func ofBase(req *ctxfsv1.GetDiffRequest) bool {
	return req.GetAgainst() == nil && req.GetJournalId() == 0
}

func (a *app) listDiff(ctx context.Context, c *client.Client, r *client.Review, req *ctxfsv1.GetDiffRequest, stat bool) error {
	changes, summary, err := r.Changes(ctx, &ctxfsv1.ListChangesRequest{Paths: req.GetPaths(), Ignored: req.GetIgnored(), Against: req.GetAgainst(), JournalId: req.GetJournalId()})
	if err != nil {
		return err
	}
	for _, change := range changes {
		if !stat {
			err = a.printf("%s\t%s\n", changeLetter(change), showPath(change.GetPath(), change.GetRawPath()))
		} else {
			err = a.printf(" %s | %s\n", showPath(change.GetPath(), change.GetRawPath()), lineCounts(change))
		}
		if err != nil {
			return err
		}
	}
	if stat {
		err = a.printf(" %s\n", heading(summary))
	}
	if err == nil {
		err = printGone(a.env.Stderr, r.ContextID(), summary)
	}
	if err != nil || !ofBase(req) {
		return err
	}
	return a.looksAt(c, r.ContextID()).shown(a, req.GetPaths(), changes)
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
