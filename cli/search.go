package cli

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (a *app) watchCommand() *cobra.Command {
	var recursive bool
	var count int
	cmd := &cobra.Command{
		Use: "watch [PATH]", Short: "Report changes until interrupted", Args: usage(cobra.MaximumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			w, err := f.Watch(pathArg(args), recursive)
			if err != nil {
				return err
			}
			defer func() { _ = w.Close() }()
			return a.follow(w, count)
		}),
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "report what is below as well")
	cmd.Flags().IntVarP(&count, "count", "n", 0, "end after this many events; 0 means never")
	return cmd
}

func (a *app) follow(w *client.Watcher, count int) error {
	if err := a.watching(); err != nil {
		return err
	}
	for ev, err := range w.All() {
		if err != nil {
			return err
		}
		if err := a.printEvent(ev); err != nil {
			return err
		}
		if count--; count == 0 {
			return nil
		}
	}
	return nil
}

// watching tells that changes are reported from now on.
func (a *app) watching() error {
	if a.json {
		return a.printLine(map[string]any{"ready": struct{}{}})
	}
	return a.printf("ready\n")
}

func (a *app) printEvent(ev client.Event) error {
	if !a.json {
		return a.printf("%-8s  %s\n", ev.Kind, show(ev.Name))
	}
	out := map[string]any{"eventType": ev.Kind, "filename": strings.ToValidUTF8(ev.Name, "\uFFFD")}
	if !utf8.ValidString(ev.Name) {
		out["rawFilename"] = []byte(ev.Name)
	}
	return a.printLine(out)
}

func (a *app) globCommand() *cobra.Command {
	var o client.GlobOptions
	cmd := &cobra.Command{
		Use: "glob PATTERN…", Short: "Find paths by patterns: **, *, ?, [class], {a,b}", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			o.Patterns = args
			sum, err := f.GlobWalk(o, func(e client.Entry) error {
				if a.json {
					return a.printLine(map[string]any{"path": strings.ToValidUTF8(e.Path(), "\uFFFD"), "type": typeName(e.Type())})
				}
				return a.printf("%s\n", show(e.Path()))
			})
			if err != nil {
				return err
			}
			return a.summary(sum, sum.GetTruncated(), sum.GetUnreadable())
		}),
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "directory from which the patterns count")
	cmd.Flags().StringSliceVar(&o.Exclude, "exclude", nil, "pattern of what is left out; repeatable")
	cmd.Flags().Int32Var(&o.MaxMatches, "max-matches", 0, "stop after so many; 0 means 100,000")
	return cmd
}

func (a *app) grepCommand() *cobra.Command {
	var o client.GrepOptions
	cmd := &cobra.Command{
		Use: "grep PATTERN [PATH]", Short: "Search files for an RE2 expression; exit 1 when nothing matches", Args: usage(cobra.RangeArgs(1, 2)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			o.Pattern, o.Path = args[0], pathArg(args[1:])
			sum, err := f.Grep(o, a.printMatches)
			if err != nil {
				return err
			}
			if err := a.summary(sum, sum.GetTruncated(), sum.GetUnreadable()); err != nil {
				return err
			}
			if sum.GetMatches() == 0 {
				return silentFailure{}
			}
			return nil
		}),
	}
	fl := cmd.Flags()
	fl.BoolVarP(&o.Fixed, "fixed-strings", "F", false, "the pattern is a plain string")
	fl.BoolVarP(&o.IgnoreCase, "ignore-case", "i", false, "upper and lower case are the same")
	fl.StringSliceVar(&o.Include, "include", nil, "glob of files to search; repeatable")
	fl.StringSliceVar(&o.Exclude, "exclude", nil, "glob of files and directories to pass over; repeatable")
	fl.Int32VarP(&o.Before, "before-context", "B", 0, "lines before each match")
	fl.Int32VarP(&o.After, "after-context", "A", 0, "lines after each match")
	fl.Int32Var(&o.MaxMatches, "max-matches", 0, "stop after so many; 0 means 100,000")
	return cmd
}

func (a *app) printMatches(g client.GrepFile) error {
	for _, l := range g.Lines {
		if err := a.printMatch(g.Path, l); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printMatch(path string, l *ctxfsv1.GrepLine) error {
	if a.json {
		return a.printLine(map[string]any{"path": strings.ToValidUTF8(path, "\uFFFD"), "line": l.GetLineNumber(), "context": l.GetContext(), "text": l.GetText()})
	}
	sep := ":"
	if l.GetContext() {
		sep = "-"
	}
	return a.printf("%s%s%d%s%s\n", show(path), sep, l.GetLineNumber(), sep, printable(l.GetText()))
}

// summary ends a search: in JSON always, for people only when they miss something.
func (a *app) summary(sum any, truncated bool, unreadable int64) error {
	if a.json {
		return a.printLine(map[string]any{"summary": sum})
	}
	if truncated {
		return a.warn("stopped at the most matches; raise --max-matches")
	}
	if unreadable > 0 {
		return a.warn(number(unreadable) + " files or directories could not be read")
	}
	return nil
}
