package cli

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
)

func (a *app) editCommand() *cobra.Command {
	var (
		e       client.Edit
		o       client.EditOptions
		lines   string
		ifMatch string
	)
	cmd := &cobra.Command{
		Use: "edit PATH", Short: "Change a text file by exact text or by lines, and print the diff",
		Long: "Replaces the text --old, which must occur exactly once, or the lines --lines, with --new. --lines 5-4 inserts before line 5. A new\n" +
			"file takes the place of the old one, whole. If the text is missing or occurs more than once, the error names the lines.",
		Args: usage(cobra.ExactArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			if (lines == "") == (e.Old == "") {
				return usagef("edit needs one of --old and --lines")
			}
			if lines != "" {
				var err error
				if e.StartLine, e.EndLine, err = lineRange(lines); err != nil {
					return err
				}
			}
			done, err := f.If(client.Conditions{IfMatch: ifMatch}).EditFile(args[0], []client.Edit{e}, o)
			if err != nil {
				return err
			}
			return a.printEdited(args[0], done)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&e.Old, "old", "", "the text to replace, exactly")
	f.StringVar(&e.New, "new", "", "the text that takes its place")
	f.BoolVar(&e.All, "all", false, "replace every occurrence of --old")
	f.StringVar(&lines, "lines", "", "replace these lines, such as 3-5 or 3, instead of a text")
	f.BoolVarP(&o.DryRun, "dry-run", "n", false, "change nothing, and print the diff")
	f.BoolVar(&o.Flush, "flush", false, "wait until the content is on the disk")
	f.StringVar(&ifMatch, "if-match", "", "only if the file has this etag, which 'ctxfs stat -L' prints")
	return cmd
}

func (a *app) printEdited(name string, done client.Edited) error {
	if a.json {
		return a.printJSON(object{
			{"path", name}, {"replacements", done.Replacements}, {"added", done.LinesAdded}, {"removed", done.LinesRemoved},
			{"diff", done.Diff}, {"truncated", done.DiffTruncated}, {"etag", done.ETag},
		})
	}
	if _, err := io.WriteString(a.patchWriter(), done.Diff); err != nil {
		return err
	}
	if done.DiffTruncated {
		return a.printf("… %s lines added, %s removed in all\n", number(int64(done.LinesAdded)), number(int64(done.LinesRemoved)))
	}
	return nil
}

// lineRange reads "A-B" or "A".
func lineRange(text string) (first, last int64, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err = strconv.ParseInt(from, 10, 64)
	if err == nil {
		last, err = strconv.ParseInt(to, 10, 64)
	}
	if err != nil || first < 1 || last < first-1 {
		return 0, 0, usagef("--lines is %q; give lines such as 3-5 or 3", text)
	}
	return first, last, nil
}

// catLines prints some lines of a file.
func (a *app) catLines(f *client.FS, name, lines string) error {
	first, last, err := lineRange(lines)
	if err != nil || last < first {
		return err
	}
	r, err := f.ReadLines(name, first, last-first+1)
	if err != nil {
		return err
	}
	_, err = a.env.Stdout.Write(r.Data)
	return err
}

// onlyFile refuses a directory where a command has one file in mind.
func onlyFile(local string) error {
	st, err := os.Stat(local)
	if err == nil && st.IsDir() {
		err = usagef("--if-match needs a file, and %s is a directory", show(local))
	}
	return err
}
