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

// listed is a name with its attributes, in a directory or alone.
type listed struct {
	name, path string
	info       fs.FileInfo
	// target is where a symbolic link leads.
	target string
}

// json has the bytes of names that are not UTF-8 in rawName and rawTarget.
func (l listed) json() object {
	return object{
		{"name", valid(l.name)}, {"rawName", raw(l.name)}, {"path", valid(l.path)}, {"type", typeName(l.info.Mode())},
		{"mode", fmt.Sprintf("%04o", l.info.Mode().Perm())}, {"size", l.info.Size()}, {"mtime", timeJSON(l.info.ModTime().UnixNano(), true)},
		{"target", valid(l.target)}, {"rawTarget", raw(l.target)},
	}
}

// valid is a name as JSON can have it.
func valid(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// raw is the bytes of a name that is not UTF-8; empty for others.
func raw(name string) []byte {
	if utf8.ValidString(name) {
		return []byte{}
	}
	return []byte(name)
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

// lsFlags are those of ls.
type lsFlags struct{ recursive, long, all bool }

func (a *app) lsCommand() *cobra.Command {
	var o lsFlags
	cmd := &cobra.Command{
		Use: "ls [PATH…]", Short: "List directories", Args: cobra.ArbitraryArgs,
		RunE: a.withFS(func(f *client.FS, args []string) error {
			if len(args) == 0 {
				args = []string{"/"}
			}
			return a.ls(f, args, o)
		}),
	}
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "r", false, "list everything below as well")
	cmd.Flags().BoolVarP(&o.long, "long", "l", false, "show modes, sizes, times and the targets of links")
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "show names that begin with a dot")
	return cmd
}

func pathArg(args []string) string {
	if len(args) == 0 {
		return "/"
	}
	return args[0]
}

// ls lists each name; one that fails does not keep it from listing the others.
func (a *app) ls(f *client.FS, names []string, o lsFlags) error {
	var errs []error
	out := []object{}
	for i, name := range names {
		rows, dir, err := listing(f, name, o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if a.json {
			for _, r := range rows {
				out = append(out, r.json())
			}
			continue
		}
		if dir && len(names) > 1 {
			head := show(name) + ":\n"
			if i > 0 {
				head = "\n" + head
			}
			if err := a.printf("%s", head); err != nil {
				return err
			}
		}
		if err := a.printListing(rows, o); err != nil {
			return err
		}
	}
	if a.json {
		errs = append(errs, a.printJSON(out))
	}
	return errors.Join(errs...)
}

func (a *app) printListing(rows []listed, o lsFlags) error {
	lines := make([][]string, len(rows))
	for i, r := range rows {
		shown := show(r.name)
		if o.recursive {
			shown = show(r.path)
		}
		if !o.long {
			lines[i] = []string{shown}
			continue
		}
		if r.target != "" {
			shown += " -> " + show(r.target)
		}
		lines[i] = []string{r.info.Mode().String(), size(r.info.Size()), clock(r.info.ModTime().UnixNano()), shown}
	}
	return a.table(nil, lines)
}

// listing lists a directory, or describes a name that is none.
func listing(f *client.FS, name string, o lsFlags) (rows []listed, dir bool, err error) {
	entries, err := f.List(name, client.ListOptions{Recursive: o.recursive, Stats: true})
	if fserr.CodeOf(err) == fserr.ENOTDIR {
		info, err := f.Lstat(name)
		if err != nil {
			return nil, false, err
		}
		return []listed{{name, name, info, linkTarget(f, name, info.Mode())}}, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	top := topOf(entries)
	for _, e := range entries {
		if !o.all && strings.Contains(strings.TrimPrefix(e.Path(), top), "/.") {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, listed{e.Name(), e.Path(), info, linkTarget(f, e.Path(), info.Mode())})
	}
	return rows, true, nil
}

// topOf returns the directory that a recursive listing is of, without a final slash.
func topOf(entries []client.Entry) string {
	top := ""
	for i, e := range entries {
		if parent := e.Parent(); i == 0 || len(parent) < len(top) {
			top = parent
		}
	}
	return strings.TrimSuffix(top, "/")
}

// linkTarget is where a symbolic link leads; "" for anything else, and for a link that is gone by now.
func linkTarget(f *client.FS, name string, mode fs.FileMode) string {
	if mode.Type() != fs.ModeSymlink {
		return ""
	}
	target, _ := f.Readlink(name)
	return target
}

func (a *app) treeCommand() *cobra.Command {
	var depth int
	cmd := &cobra.Command{
		Use: "tree [PATH]", Short: "Show a directory as a tree", Args: usage(cobra.MaximumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			if a.json {
				return a.ls(f, []string{pathArg(args)}, lsFlags{recursive: true, all: true})
			}
			return a.tree(f, pathArg(args), depth)
		}),
	}
	cmd.Flags().IntVarP(&depth, "depth", "d", 0, "go no deeper; 0 means all the way")
	return cmd
}

// branches has the entries of each directory of a tree, by the directory's path.
type branches map[string][]client.Entry

func (a *app) tree(f *client.FS, name string, depth int) error {
	top, err := f.Realpath(name)
	if err != nil {
		return err
	}
	entries, err := f.List(top, client.ListOptions{Recursive: true})
	if err != nil {
		return err
	}
	b := branches{}
	for _, e := range entries {
		b[e.Parent()] = append(b[e.Parent()], e)
	}
	if err := a.printf("%s\n", show(name)); err != nil {
		return err
	}
	return a.branch(f, b, top, "", depth)
}

func (a *app) branch(f *client.FS, b branches, dir, indent string, depth int) error {
	for i, e := range b[dir] {
		stem, next := "├── ", "│   "
		if i == len(b[dir])-1 {
			stem, next = "└── ", "    "
		}
		name := show(e.Name())
		if e.IsDir() {
			name += "/"
		}
		if target := linkTarget(f, e.Path(), e.Type()); target != "" {
			name += " -> " + show(target)
		}
		if err := a.printf("%s%s%s\n", indent, stem, name); err != nil {
			return err
		}
		if e.IsDir() && depth != 1 {
			if err := a.branch(f, b, e.Path(), indent+next, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) catCommand() *cobra.Command {
	var lines string
	cmd := &cobra.Command{
		Use: "cat PATH…", Short: "Print files", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			for _, name := range args {
				printed := func() error { return cat(f, name, a.env.Stdout) }
				if lines != "" {
					printed = func() error { return a.catLines(f, name, lines) }
				}
				if err := printed(); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&lines, "lines", "", "only these lines, such as 3-5 or 3")
	return cmd
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
	etag := client.ETagOf(info)
	if a.json {
		return a.printJSON(append(jsonOf(st.ProtoReflect()), member{"etag", etag}))
	}
	return a.table(nil, [][]string{
		{"path", show(name)},
		{"type", typeName(info.Mode())},
		{"mode", fmt.Sprintf("%s (%04o)", info.Mode(), st.GetMode()&0o7777)},
		{"size", fmt.Sprintf("%s (%s bytes)", size(st.GetSize()), number(st.GetSize()))},
		{"owner", fmt.Sprintf("%d:%d", st.GetUid(), st.GetGid())},
		{"inode", fmt.Sprintf("%d, %d names", st.GetIno(), st.GetNlink())},
		{"modified", info.ModTime().Format("2006-01-02 15:04:05.000000000 -0700")},
		{"etag", etag},
	})
}
