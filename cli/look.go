package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// entryJSON is a name in JSON output; RawName has the bytes of one that is not UTF-8.
type entryJSON struct {
	Name    string `json:"name"`
	RawName []byte `json:"rawName,omitempty"`
	Path    string `json:"path,omitempty"`
	Type    string `json:"type"`
	Mode    string `json:"mode,omitempty"`
	Size    int64  `json:"size"`
	MtimeNs int64  `json:"mtimeNs,string,omitempty"`
}

func newEntryJSON(name, full string, info fs.FileInfo) entryJSON {
	e := entryJSON{Name: strings.ToValidUTF8(name, "\uFFFD"), Path: strings.ToValidUTF8(full, "\uFFFD")}
	if !utf8.ValidString(name) {
		e.RawName = []byte(name)
	}
	e.Type, e.Mode, e.Size, e.MtimeNs = typeName(info.Mode()), fmt.Sprintf("%04o", info.Mode().Perm()), info.Size(), info.ModTime().UnixNano()
	return e
}

func typeName(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symlink"
	}
	return "special"
}

func (a *app) lsCommand() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "ls [PATH]", Short: "List a directory", Args: usage(cobra.MaximumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			return a.ls(f, pathArg(args), recursive)
		}),
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list what is below as well")
	return cmd
}

func pathArg(args []string) string {
	if len(args) == 0 {
		return "/"
	}
	return args[0]
}

// listed is a name with its attributes.
type listed struct {
	name string
	path string
	info fs.FileInfo
}

func (a *app) ls(f *client.FS, name string, recursive bool) error {
	rows, err := listing(f, name, recursive)
	if err != nil {
		return err
	}
	if a.json {
		out := make([]entryJSON, len(rows))
		for i, r := range rows {
			out[i] = newEntryJSON(r.name, r.path, r.info)
		}
		return a.printJSON(out)
	}
	lines := make([][]string, len(rows))
	for i, r := range rows {
		shown := r.name
		if recursive {
			shown = r.path
		}
		lines[i] = []string{r.info.Mode().String(), size(r.info.Size()), clock(r.info.ModTime().UnixNano()), show(shown)}
	}
	return a.table(nil, lines)
}

// listing lists a directory, or names what is none.
func listing(f *client.FS, name string, recursive bool) ([]listed, error) {
	entries, err := f.List(name, client.ListOptions{Recursive: recursive, Stats: true})
	if fserr.CodeOf(err) == fserr.ENOTDIR {
		info, err := f.Lstat(name)
		if err != nil {
			return nil, err
		}
		return []listed{{name, name, info}}, nil
	}
	if err != nil {
		return nil, err
	}
	var rows []listed
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, listed{e.Name(), e.Path(), info})
	}
	return rows, nil
}

func (a *app) catCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cat PATH…", Short: "Print files", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			for _, name := range args {
				if err := cat(f, name, a.env.Stdout); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func cat(f *client.FS, name string, w io.Writer) error {
	r, err := f.ReadStream(name, client.ReadOptions{})
	if err != nil {
		return err
	}
	_, err = r.WriteTo(w)
	return errors.Join(err, r.Close())
}

func (a *app) statCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "stat PATH", Short: "Show the attributes of a name", Args: usage(cobra.ExactArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			stat := f.Lstat
			if follow {
				stat = f.Stat
			}
			info, err := stat(args[0])
			if err != nil {
				return err
			}
			return a.printStat(args[0], info)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "dereference", "L", false, "follow a link")
	return cmd
}

func (a *app) printStat(name string, info fs.FileInfo) error {
	st, _ := info.Sys().(*ctxfsv1.Stat)
	if a.json {
		return a.printProto(st)
	}
	return a.table(nil, [][]string{
		{"path", show(name)},
		{"type", typeName(info.Mode())},
		{"mode", fmt.Sprintf("%s (%04o)", info.Mode(), st.GetMode()&0o7777)},
		{"size", fmt.Sprintf("%s (%s bytes)", size(st.GetSize()), number(st.GetSize()))},
		{"owner", fmt.Sprintf("%d:%d", st.GetUid(), st.GetGid())},
		{"inode", fmt.Sprintf("%d, %d names", st.GetIno(), st.GetNlink())},
		{"modified", info.ModTime().Format("2006-01-02 15:04:05.000000000 -0700")},
	})
}
