package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
)

func (a *app) feedCommand() *cobra.Command {
	var o client.FeedOptions
	var count int
	var noFollow bool
	cmd := &cobra.Command{
		Use: "feed [PATH]", Short: "Report the calls that changed a context, from a cursor on, over restarts", Args: usage(cobra.MaximumNArgs(1)),
		Long: `Report the calls that changed a context, in order: the number of the change, the panel, the operation and the path.

The first feed begins at the present end; "ready" has its cursor. With --cursor it reports what came after that cursor, once and in order,
also if this command or the server was restarted in between. "reset" says that changes are missing: read the files again.

It does not see what commands (ctxfs exec) and programs on the host write: ctxfs watch does while it runs.`,
		RunE: a.withFS(func(f *client.FS, args []string) error {
			o.Path, o.Once = "", noFollow
			if len(args) == 1 {
				o.Path = args[0]
			}
			for n, err := range f.Feed(o) {
				if err == nil {
					err = a.printNotice(n)
				}
				if err != nil {
					return err
				}
				if n.Kind == client.NoticeChange {
					if count--; count == 0 {
						return nil
					}
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&o.Cursor, "cursor", "", "report what came after this cursor, as ready, a change (--json) or reset has it")
	cmd.Flags().BoolVar(&noFollow, "no-follow", false, "end when all changes up to now are reported")
	cmd.Flags().IntVarP(&count, "count", "n", 0, "end after this many changes; 0 means never")
	return cmd
}

func (a *app) printNotice(n client.Notice) error {
	if a.json {
		return a.printNoticeJSON(n)
	}
	switch n.Kind {
	case client.NoticeIdle:
		return nil
	case client.NoticeReady:
		return a.printf("ready  %s\n", n.Cursor)
	case client.NoticeReset:
		return a.printf("reset  %s  %s\n", n.Cursor, n.Reason)
	}
	c := n.Change
	who := c.Panel
	if who == "" {
		who = c.Role
	}
	words := []string{show(c.Path)}
	if c.Dest != "" {
		words = append(words, show(c.Dest))
	}
	for _, p := range c.Also {
		words = append(words, "("+show(p)+")")
	}
	if c.Failed != "" {
		words = append(words, "failed: "+c.Failed)
	}
	return a.printf("%6d  %s  %-12s  %s\n", c.Sequence, show(who), c.Operation, strings.Join(words, "  "))
}

func (a *app) printNoticeJSON(n client.Notice) error {
	switch n.Kind {
	case client.NoticeReset:
		return a.printLine(object{{"kind", n.Kind}, {"cursor", n.Cursor}, {"reason", n.Reason}})
	case client.NoticeChange:
		c := n.Change
		also, steps := []string{}, []object{}
		for _, p := range c.Also {
			also = append(also, valid(p))
		}
		for _, s := range c.Steps {
			steps = append(steps, object{{"operation", s.Operation}, {"path", valid(s.Path)}, {"rawPath", raw(s.Path)}, {"dest", valid(s.Dest)}, {"rawDest", raw(s.Dest)}})
		}
		return a.printLine(object{
			{"kind", n.Kind}, {"cursor", n.Cursor}, {"sequence", c.Sequence}, {"time", c.Time.UTC()}, {"role", c.Role}, {"panelId", c.Panel},
			{"operation", c.Operation}, {"path", valid(c.Path)}, {"rawPath", raw(c.Path)}, {"dest", valid(c.Dest)}, {"rawDest", raw(c.Dest)}, {"below", c.Below},
			{"steps", steps}, {"also", also}, {"failed", c.Failed}, {"requestId", c.RequestID},
		})
	}
	return a.printLine(object{{"kind", n.Kind}, {"cursor", n.Cursor}})
}
