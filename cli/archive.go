package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// archived counts what an export or an import carried.
type archived struct {
	ContextID string `json:"contextId"`
	Files     int64  `json:"files"`
	Bytes     int64  `json:"bytes"`
	// LeftOut are names that could not be read, special files, and .git: the first 1,000.
	LeftOut []string `json:"leftOut"`
	// missing counts all of them.
	missing int64
}

func newArchived(id string, sum *ctxfsv1.ArchiveSummary) archived {
	return archived{id, sum.GetFiles(), sum.GetBytes(), append([]string{}, sum.GetLeftOutNames()...), sum.GetLeftOut()}
}

// incomplete is the error for what was left out.
func (r *archived) incomplete() error {
	if r.missing == 0 {
		return nil
	}
	names := strings.Join(r.LeftOut, ", ")
	if more := r.missing - int64(len(r.LeftOut)); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("left out because they could not be read, are special files, or a .git: %s", names)
}

func (a *app) reportArchived(r archived) error {
	if a.json {
		return errors.Join(a.printJSON(r), r.incomplete())
	}
	return errors.Join(a.printf("%s  %s, %s\n", r.ContextID, files(r.Files), size(r.Bytes)), r.incomplete())
}

// exportFlags are those of commands that export.
type exportFlags struct {
	output, format string
	exclude        []string
	git            bool
}

// archiveFormat returns a format by its name; without one, by the ending of a file's name.
func archiveFormat(format, file string) (ctxfsv1.ArchiveFormat, error) {
	switch {
	case format == "zip", format == "" && strings.EqualFold(filepath.Ext(file), ".zip"):
		return ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_ZIP, nil
	case format == "tar", format == "":
		return ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_TAR, nil
	}
	return 0, usagef("unknown --format %q: the formats are tar and zip", format)
}

// export writes a path of a context into a file, which appears whole or not at all, or to standard output.
func (a *app) export(f *client.FS, id, path string, o exportFlags) error {
	format, err := archiveFormat(o.format, o.output)
	if err != nil {
		return err
	}
	var r archived
	run := func(w io.Writer) error {
		sum, err := f.Export(w, path, client.ExportOptions{Format: format, Exclude: o.exclude, Git: o.git})
		r = newArchived(id, sum)
		return err
	}
	switch {
	case o.output != "" && o.output != "-":
		if err := writeWhole(o.output, run); err != nil {
			return err
		}
		return a.reportArchived(r)
	case isTerminal(a.env.Stdout):
		return usagef("standard output is a terminal: redirect the output to a file")
	}
	return errors.Join(run(a.env.Stdout), r.incomplete())
}

// onContext makes a RunE of a function that works in a context: in the one that the flag -c or --panel names, or else in that of the first
// argument. do gets the arguments without it.
func (a *app) onContext(do func(f *client.FS, id string, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		named := a.context != "" || a.panel != ""
		switch {
		case named && len(args) > 1:
			return usagef("the context is named twice: leave out %q, or the flag", args[0])
		case named:
			return a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				id, err := a.contextNamed(ctx, c, a.context)
				if err == nil && id == "" {
					id, err = a.ready(ctx, c, a.panel)
				}
				if err != nil {
					return err
				}
				return do(c.Context(id).With(ctx), id, args)
			})(cmd, args)
		case len(args) == 0:
			return usagef("whose files? name a context or a panel, as an argument or with -c ID or --panel NAME")
		}
		return a.withContext(func(ctx context.Context, c *client.Client, args []string) error {
			return do(c.Context(args[0]).With(ctx), args[0], args[1:])
		})(cmd, args)
	}
}

func (a *app) exportPathCommand() *cobra.Command {
	var o exportFlags
	cmd := &cobra.Command{
		Use: "export [CONTEXT] [PATH]", Short: "Write a directory of a context into a tar or zip archive",
		Long: "Writes a directory with all below it, or one file, to standard output or into a file, which appears whole or not at all.\n" +
			"CONTEXT is a context or a panel; leave it out if you give --panel or -c.\n" +
			"A tar archive keeps modes, times, symbolic links and hard links. In a zip archive hard links are files, and times have seconds.\n" +
			"Extended attributes are left out. What could not be read is named, as is a .git without --git, and the exit code is then 1.",
		Example: "  ctxfs export panels/editor src > src.tar\n  ctxfs --panel panels/editor export src > src.tar\n  ctxfs export ctx_panels~editor --exclude node_modules -o editor.zip",
		Args:    usage(cobra.MaximumNArgs(2)),
		RunE: a.onContext(func(f *client.FS, id string, args []string) error {
			return a.export(f, id, pathArg(args), o)
		}),
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "write into this file")
	cmd.Flags().StringVar(&o.format, "format", "", "tar or zip (default: as the file's name ends, else tar)")
	cmd.Flags().BoolVar(&o.git, "git", false, "export .git too: in a repository git would obey its settings and run its hooks")
	cmd.Flags().StringArrayVar(&o.exclude, "exclude", nil, "leave out what this glob matches; without a slash it is matched with the name")
	return cmd
}

func (a *app) importPathCommand() *cobra.Command {
	var file string
	var overwrite bool
	cmd := &cobra.Command{
		Use: "import [CONTEXT] [PATH]", Short: "Extract a tar or zip archive into a directory of a context",
		Long: "Extracts an archive from standard input or from a file. The directory is made if it is missing.\n" +
			"CONTEXT is a context or a panel; leave it out if you give --panel or -c.\n" +
			"If a file exists, nothing is changed, unless you give --overwrite. An archive with names or links that lead outside, with devices,\n" +
			"or with content that expands too far is refused, and then nothing is changed either.\n" +
			"Owners, setuid and setgid of the archive are ignored.",
		Example: "  ctxfs import panels/editor vendor < vendor.tar\n  ctxfs import ctx_panels~editor --overwrite -i editor.zip",
		Args:    usage(cobra.MaximumNArgs(2)),
		RunE: a.onContext(func(f *client.FS, id string, args []string) error {
			in, done, err := a.archiveInput(file)
			if err != nil {
				return err
			}
			defer done()
			sum, err := importArchive(f, in, pathArg(args), overwrite)
			if err != nil {
				return err
			}
			return a.reportArchived(newArchived(id, sum))
		}),
	}
	cmd.Flags().StringVarP(&file, "input", "i", "", "read this file")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace files that exist")
	return cmd
}

// archiveInput opens a file, or standard input for "" and "-".
func (a *app) archiveInput(file string) (in io.Reader, done func(), err error) {
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, err
		}
		return f, func() { _ = f.Close() }, nil // it was only read
	}
	if f, ok := a.env.Stdin.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) {
		return nil, nil, usagef("standard input is a terminal: redirect an archive to it, or name one with --input")
	}
	return a.env.Stdin, func() {}, nil
}

// importArchive extracts an archive, whose first bytes tell its format.
func importArchive(f *client.FS, in io.Reader, path string, overwrite bool) (*ctxfsv1.ArchiveSummary, error) {
	r := bufio.NewReader(in)
	o := client.ImportOptions{Overwrite: overwrite}
	if begin, err := r.Peek(2); err == nil && bytes.Equal(begin, []byte("PK")) { // an error comes again from Import
		o.Format = ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_ZIP
	}
	return f.Import(r, path, o)
}

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export NAME [FILE]", Short: "Write what a context holds into a tar archive, or to standard output",
		Long: "Writes files, directories, symbolic links and hard links with their modes and times. FILE appears whole or not at all.\n" +
			"Programs may use the context meanwhile. Export a fork to get the state of one moment:\n\n" +
			"  ctxfs context fork ID NEW-ID && ctxfs context export NEW-ID FILE; ctxfs context delete NEW-ID",
		Example: "  ctxfs context export ctx_panels~editor editor.tar\n  ctxfs context export ctx_panels~editor | zstd > editor.tar.zst",
		Args:    usage(cobra.RangeArgs(1, 2)),
		RunE: a.withContext(func(ctx context.Context, c *client.Client, args []string) error {
			x, err := c.GetContext(ctx, args[0]) // which also refuses panels
			if err != nil {
				return err
			}
			if x.GetState() != ctxfsv1.ContextState_CONTEXT_STATE_READY {
				return fmt.Errorf("%s cannot be exported: it is %s", args[0], stateName(x.GetState()))
			}
			o := exportFlags{format: "tar", git: true}
			if len(args) == 2 {
				o.output = args[1]
			}
			return a.export(c.Context(args[0]).With(ctx), args[0], "/", o)
		}),
	}
}

// writeWhole lets write fill a file beside name, which takes its place if that succeeds.
func writeWhole(name string, write func(io.Writer) error) error {
	w, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".part*")
	if err != nil {
		return err
	}
	err = write(w)
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = os.Rename(w.Name(), name)
	}
	if err != nil {
		_ = os.Remove(w.Name())
	}
	return err
}

func (a *app) importCommand() *cobra.Command {
	return &cobra.Command{
		Use: "import ID [FILE]", Short: "Make a context of a tar or zip archive, or of standard input",
		Long: "Makes the context ID, which must not exist, with what the archive holds and nothing else. It appears whole or not at all.\n" +
			"Owners are not restored: all files are the server's user's. Names that lead outside, and devices, are refused.",
		Example: "  ctxfs context import ctx_panels~editor editor.tar\n  zstd -dc editor.tar.zst | ctxfs context import ctx_panels~editor",
		Args:    usage(cobra.RangeArgs(1, 2)),
		RunE: a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
			file := ""
			if len(args) == 2 {
				file = args[1]
			}
			in, done, err := a.archiveInput(file)
			if err != nil {
				return err
			}
			defer done()
			sum, err := importContext(ctx, c, args[0], in)
			if err != nil {
				return err
			}
			return a.reportArchived(newArchived(args[0], sum))
		}),
	}
}

// importContext fills a context of another name and forks it to id: what an interrupted import leaves is never taken for whole.
func importContext(ctx context.Context, c *client.Client, id string, r io.Reader) (*ctxfsv1.ArchiveSummary, error) {
	x, err := c.GetContext(ctx, id)
	if err != nil {
		return nil, err
	}
	if x.GetState() != ctxfsv1.ContextState_CONTEXT_STATE_MISSING {
		return nil, fmt.Errorf("%s exists (%s): delete it first, or name another", id, stateName(x.GetState()))
	}
	scratch := scratchID(id)
	if _, err := c.EnsureContext(ctx, scratch, nil); err != nil {
		return nil, err
	}
	sum, err := fillContext(c.Context(scratch).With(ctx), r)
	if err == nil {
		_, err = c.Fork(ctx, scratch, id)
	}
	_, deleteErr := c.DeleteContext(context.WithoutCancel(ctx), scratch, client.DiscardChanges)
	return sum, errors.Join(err, deleteErr)
}

// fillContext replaces what a context was seeded with by what an archive holds.
func fillContext(f *client.FS, r io.Reader) (*ctxfsv1.ArchiveSummary, error) {
	seeded, err := f.List(".", client.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, entry := range seeded {
		if err := f.RemoveAll(entry.Name()); err != nil {
			return nil, err
		}
	}
	return importArchive(f, r, "/", true)
}

// scratchID returns an ID of the same kind as id, as forks require.
func scratchID(id string) string {
	kind := "ctx_"
	if strings.HasPrefix(id, "unsafe_noctx_") {
		kind = "unsafe_noctx_"
	} else if parts := strings.SplitAfterN(id, "_", 4); strings.HasPrefix(id, "safe_tpl_") && len(parts) == 4 {
		kind = strings.Join(parts[:3], "")
	}
	return kind + "import-" + rand.Text()
}
