package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

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

// watching prints that changes are reported from now on.
func (a *app) watching() error {
	if a.json {
		return a.printLine(object{{"ready", true}})
	}
	return a.printf("ready\n")
}

func (a *app) printEvent(ev client.Event) error {
	if !a.json {
		return a.printf("%-8s  %s\n", ev.Kind, show(ev.Name))
	}
	return a.printLine(object{{"eventType", ev.Kind}, {"filename", valid(ev.Name)}, {"rawFilename", raw(ev.Name)}})
}

func (a *app) globCommand() *cobra.Command {
	var o client.GlobOptions
	cmd := &cobra.Command{
		Use: "glob PATTERN…", Short: "Find paths by patterns: **, *, ?, [class], {a,b}", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			o.Patterns = args
			sum, err := f.GlobWalk(o, func(e client.Entry) error {
				if a.json {
					return a.printLine(object{{"path", valid(e.Path())}, {"rawPath", raw(e.Path())}, {"type", typeName(e.Type())}})
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
	var p grepForm
	cmd := &cobra.Command{
		Use: "grep PATTERN [PATH…]", Short: "Search files for an RE2 expression; exit 1 when nothing matches", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			o.Pattern = args[0]
			if args = args[1:]; len(args) == 0 {
				args = []string{"/"}
			}
			return a.grep(f, o, args, p)
		}),
	}
	fl := cmd.Flags()
	fl.BoolVarP(&p.numbers, "line-number", "n", true, "print line numbers")
	fl.BoolVarP(&p.names, "files-with-matches", "l", false, "print only the names of files that match")
	fl.BoolVar(&p.counts, "count", false, "print only how many lines of each file match (-c names a context)")
	fl.BoolVarP(&o.Fixed, "fixed-strings", "F", false, "the pattern is a plain string")
	fl.BoolVarP(&o.IgnoreCase, "ignore-case", "i", false, "upper and lower case are the same")
	fl.StringSliceVar(&o.Include, "include", nil, "glob of files to search; repeatable")
	fl.StringSliceVar(&o.Exclude, "exclude", nil, "glob of files and directories to pass over; repeatable")
	fl.Int32VarP(&o.Before, "before-context", "B", 0, "lines before each match")
	fl.Int32VarP(&o.After, "after-context", "A", 0, "lines after each match")
	fl.Int32Var(&o.MaxMatches, "max-matches", 0, "stop after so many; 0 means 100,000")
	return cmd
}

// grepForm is how grep prints what it finds.
type grepForm struct{ numbers, names, counts bool }

// grep searches each path, and fails silently if nothing matches anywhere.
func (a *app) grep(f *client.FS, o client.GrepOptions, paths []string, p grepForm) error {
	var errs []error
	var matches int64
	for _, o.Path = range paths {
		count := fileCount{app: a, form: p}
		sum, err := f.Grep(o, func(g client.GrepFile) error {
			for _, l := range g.Lines {
				if err := count.line(g.Path, l); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = errors.Join(count.end(), a.summary(sum, sum.GetTruncated(), sum.GetUnreadable()))
		}
		errs = append(errs, err)
		matches += sum.GetMatches()
	}
	if err := errors.Join(errs...); err != nil || matches > 0 {
		return err
	}
	return silentFailure{}
}

// fileCount prints matches, or counts those of a file, which may come in several parts.
type fileCount struct {
	app  *app
	form grepForm
	path string
	n    int64
}

func (c *fileCount) line(path string, l *ctxfsv1.GrepLine) error {
	if !c.form.names && !c.form.counts {
		return c.app.printMatch(path, l, c.form.numbers)
	}
	if path != c.path {
		if err := c.end(); err != nil {
			return err
		}
		c.path, c.n = path, 0
	}
	if !l.GetContext() {
		c.n++
	}
	return nil
}

// end prints the file that was counted.
func (c *fileCount) end() error {
	switch {
	case c.n == 0:
		return nil
	case c.app.json:
		return c.app.printLine(object{{"path", valid(c.path)}, {"rawPath", raw(c.path)}, {"count", c.n}})
	case c.form.names:
		return c.app.printf("%s\n", show(c.path))
	}
	return c.app.printf("%s:%d\n", show(c.path), c.n)
}

func (a *app) printMatch(path string, l *ctxfsv1.GrepLine, numbers bool) error {
	if a.json {
		return a.printLine(object{{"path", valid(path)}, {"rawPath", raw(path)}, {"line", l.GetLineNumber()}, {"context", l.GetContext()}, {"text", l.GetText()}})
	}
	sep := ":"
	if l.GetContext() {
		sep = "-"
	}
	number := ""
	if numbers {
		number = fmt.Sprint(l.GetLineNumber(), sep)
	}
	return a.printf("%s%s%s%s\n", show(path), sep, number, printable(l.GetText()))
}

// summary ends a search: in JSON always, for people only if they miss something.
func (a *app) summary(sum proto.Message, truncated bool, unreadable int64) error {
	if a.json {
		return a.printLine(object{{"summary", jsonOf(sum.ProtoReflect())}})
	}
	if truncated {
		return a.warn("stopped at the most matches; raise --max-matches")
	}
	if unreadable > 0 {
		return a.warn(number(unreadable) + " files or directories could not be read")
	}
	return nil
}
