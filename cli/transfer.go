package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/git"
)

// moved counts what put or get copied.
type moved struct {
	Files int64 `json:"files"`
	Links int64 `json:"links"`
	Bytes int64 `json:"bytes"`
	// LeftOut names what is not copied: FIFOs, sockets, devices and .git.
	LeftOut []string `json:"leftOut"`
	bar     *bar
}

// report prints what was copied, and fails if something was left out.
func (a *app) report(m moved) error {
	m.bar.end()
	err := leftOut(m.LeftOut)
	if a.json {
		m.LeftOut = append([]string{}, m.LeftOut...)
		return errors.Join(a.printJSON(m), err)
	}
	text := files(m.Files)
	if m.Links > 0 {
		text += fmt.Sprintf(", %s symbolic links", number(m.Links))
	}
	return errors.Join(a.printf("%s, %s\n", text, size(m.Bytes)), err)
}

func leftOut(names []string) error {
	if len(names) == 0 {
		return nil
	}
	var shown []string
	for i, name := range names {
		if i == 5 {
			shown = append(shown, "…")
			break
		}
		shown = append(shown, show(name))
	}
	return fmt.Errorf("left out %s: FIFOs, sockets, devices and .git are not copied: %s", number(int64(len(names))), strings.Join(shown, ", "))
}

// baseName is the last element; "" when there is none.
func baseName(name string) string {
	b := path.Base(strings.TrimRight(filepath.ToSlash(name), "/"))
	if b == "." || b == ".." || b == "/" {
		return ""
	}
	return b
}

func (a *app) putCommand() *cobra.Command {
	var ifMatch string
	cmd := &cobra.Command{
		Use: "put LOCAL [PATH]", Short: "Upload a file or a directory; LOCAL may be - for standard input",
		Long: "Uploads a file or a directory, with symbolic links as they are: an absolute target means the context's root there.\n" +
			"Existing files are replaced. If FIFOs, sockets or devices are left out, the exit code is 1.",
		Args: usage(cobra.RangeArgs(1, 2)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			f = f.If(client.Conditions{IfMatch: ifMatch})
			if args[0] == "-" {
				return a.putStdin(f, args[1:])
			}
			to, err := into(f, args[0], pathArg(args[1:]))
			if err != nil {
				return err
			}
			if ifMatch != "" {
				if err := onlyFile(args[0]); err != nil {
					return err
				}
			}
			m := moved{bar: a.newBar(true)}
			defer m.bar.end()
			from, err := filepath.EvalSymlinks(args[0]) // the name itself may be a link
			if err != nil {
				return err
			}
			m.bar.set(args[0], 0, localBytes(m.bar, from))
			if err := a.putTree(f, from, to, &m); err != nil {
				return err
			}
			return a.report(m)
		}),
	}
	cmd.Flags().StringVar(&ifMatch, "if-match", "", "replace a file only if it has this etag, which 'ctxfs stat -L' prints")
	return cmd
}

// localBytes adds up the files of a tree for a bar; 0 if there is none, or the tree cannot be read.
func localBytes(b *bar, root string) (n int64) {
	if b.w == nil {
		return 0
	}
	_ = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error { // the upload reports errors
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return err
	})
	return n
}

func (a *app) putStdin(f *client.FS, args []string) error {
	if len(args) == 0 {
		return usagef("put - needs the PATH to write")
	}
	m := moved{bar: a.newBar(true)}
	defer m.bar.end()
	m.bar.set(args[0], 0, 0)
	if err := a.upload(f, args[0], a.env.Stdin, 0o666, &m); err != nil {
		return err
	}
	return a.report(m)
}

const (
	// smallFile is the size in bytes up to which put writes a file in one call.
	smallFile = 64 << 10
	// maxSmall is how many small files put writes at a time.
	maxSmall = 32
)

// putTree uploads what is at from. It writes many small files at a time, and large ones one after the other.
func (a *app) putTree(f *client.FS, from, to string, m *moved) error {
	var small errgroup.Group
	small.SetLimit(maxSmall)
	var sent atomic.Int64
	var failed atomic.Bool
	err := filepath.WalkDir(from, func(local string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if failed.Load() {
			return filepath.SkipAll
		}
		rel, err := filepath.Rel(from, local)
		if err != nil {
			return err
		}
		dest := to
		if rel != "." {
			dest = to + "/" + filepath.ToSlash(rel)
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case info.IsDir():
			return f.MkdirAll(dest, info.Mode().Perm())
		case info.Mode().Type() == fs.ModeSymlink:
			return putLink(f, local, dest, m)
		case !info.Mode().IsRegular():
			m.LeftOut = append(m.LeftOut, local)
			return nil
		case info.Size() > smallFile:
			return a.putFile(f, local, dest, info, m)
		}
		m.Files++
		small.Go(func() error {
			data, err := os.ReadFile(local)
			if err == nil {
				err = f.WriteFileAtomic(dest, data, info.Mode().Perm())
			}
			sent.Add(int64(len(data)))
			failed.CompareAndSwap(false, err != nil)
			return err
		})
		return nil
	})
	if smallErr := small.Wait(); smallErr != nil {
		return smallErr
	}
	m.Bytes += sent.Load()
	return err
}

// putLink makes a symbolic link with the target of the local one, in place of a file that is there.
func putLink(f *client.FS, local, dest string, m *moved) error {
	target, err := os.Readlink(local)
	if err != nil {
		return err
	}
	err = f.Symlink(target, dest)
	if errors.Is(err, fs.ErrExist) {
		if err = f.Unlink(dest); err == nil {
			err = f.Symlink(target, dest)
		}
	}
	if err == nil {
		m.Links++
	}
	return err
}

func (a *app) putFile(f *client.FS, local, dest string, info fs.FileInfo, m *moved) error {
	r, err := os.Open(local)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return a.upload(f, dest, r, info.Mode().Perm(), m)
}

func (a *app) upload(f *client.FS, dest string, r io.Reader, perm fs.FileMode, m *moved) error {
	w, err := f.WriteStream(dest, client.WriteOptions{Perm: perm})
	if err != nil {
		return err
	}
	if m.bar.w != nil {
		r = io.TeeReader(r, m.bar)
	}
	n, err := w.ReadFrom(r)
	if err != nil {
		w.Abort()
		return err
	}
	m.Files, m.Bytes = m.Files+1, m.Bytes+n
	return w.Close()
}

func (a *app) getCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "get PATH [LOCAL]", Short: "Download a file or a directory; LOCAL may be - for standard output",
		Long: "Downloads a file or a directory, with the symbolic links in it as they are. A .git is left out. Nothing is written into a repository of the\n" +
			"served workspace, and no file of that workspace is replaced, without --force: 'ctxfs apply' brings changes there. Other files are\n" +
			"replaced. A link below LOCAL in the place of a file or a directory is replaced, too, and not followed. If a .git, FIFOs, sockets or devices are\n" +
			"left out, the exit code is 1.",
		Args: usage(cobra.RangeArgs(1, 2)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			if len(args) == 2 && args[1] == "-" {
				return cat(f, args[0], a.env.Stdout)
			}
			to, err := localDest(args)
			if err != nil {
				return err
			}
			return a.get(f, args[0], to, force)
		}),
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "write into repositories of the served workspace, and replace its files")
	return cmd
}

func (a *app) get(f *client.FS, from, to string, force bool) error {
	info, err := f.Stat(from)
	if err != nil {
		return err
	}
	real, err := f.Realpath(from)
	if err != nil {
		return err
	}
	if hasDotGit(path.Clean(from)) || hasDotGit(real) {
		return usagef("%s is the data of a git repository, which git would obey elsewhere; 'ctxfs export --git' writes it into an archive", show(from))
	}
	check := (&guard{finding: a.finding(), inRepository: map[string]error{}}).check
	if force {
		check = func(string) error { return nil }
	}
	m := moved{bar: a.newBar(true)}
	defer m.bar.end()
	if info.IsDir() {
		err = a.getTree(f, real, to, check, &m)
	} else if err = check(to); err == nil {
		m.bar.set(from, 0, info.Size())
		err = a.download(f, real, to, info, &m)
	}
	if err != nil {
		return err
	}
	return a.report(m)
}

// hasDotGit reports whether a path, with slashes, is of a .git or of something in it.
func hasDotGit(name string) bool { return slices.ContainsFunc(strings.Split(name, "/"), git.IsDotGit) }

// guard keeps downloads out of the workspace that a server around them serves: 'ctxfs apply' brings changes there.
type guard struct {
	// finding says whose servers to believe.
	finding []client.Option
	// inRepository says of directories that exist why nothing may be written there, nil if something may.
	inRepository map[string]error
}

// check fails if a file at a local path would be in a repository of a served workspace, would replace a file of that workspace, or would come into
// a .git through a link.
func (g *guard) check(at string) error {
	named, err := filepath.Abs(filepath.Dir(at))
	dir := named
	for err == nil { // the directory may be one that get makes
		if _, err = os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir, err = filepath.Dir(dir), nil
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return err
	}
	if hasDotGit(filepath.ToSlash(dir)) && !hasDotGit(filepath.ToSlash(named)) {
		return fmt.Errorf("%s leads into the data of a git repository through a link, and nothing was written; remove the link, or name another LOCAL", show(at))
	}
	refused, ok := g.inRepository[dir]
	if !ok {
		refused = g.refusal(dir)
		g.inRepository[dir] = refused
	}
	if refused != nil {
		return refused
	}
	if st, err := os.Lstat(at); err != nil || st.IsDir() {
		return nil //nolint:nilerr // it is missing, or what is wrong will show when it is written
	}
	found, err := client.Find(append(slices.Clone(g.finding), client.WithDir(dir))...)
	if err != nil {
		return nil //nolint:nilerr // no workspace around it is served
	}
	return fmt.Errorf("%s is a file of the served workspace %s and was not replaced; use --force to replace it, or name another LOCAL", show(at), show(found.Workspace))
}

// refusal returns an error for a directory of a repository of a served workspace.
func (g *guard) refusal(dir string) error {
	found, err := client.Find(append(slices.Clone(g.finding), client.WithDir(dir))...)
	if err != nil {
		return nil //nolint:nilerr // no workspace around it is served
	}
	workspace, err := filepath.EvalSymlinks(found.Workspace)
	if err != nil {
		return nil //nolint:nilerr // the server's workspace is elsewhere
	}
	for at := dir; ; at = filepath.Dir(at) {
		if rel, err := filepath.Rel(workspace, at); err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return nil //nolint:nilerr // it is outside
		}
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return fmt.Errorf("%s is in the repository %s of the served workspace, and nothing was written; 'ctxfs apply' brings changes there, or name another LOCAL, or use --force",
				show(dir), show(at))
		}
	}
}

func localDest(args []string) (string, error) {
	base := baseName(args[0])
	if len(args) < 2 {
		if base == "" {
			return "", usagef("get %s needs the LOCAL name to write", args[0])
		}
		return base, nil
	}
	st, err := os.Stat(args[1])
	if err == nil && st.IsDir() && base != "" {
		return filepath.Join(args[1], base), nil
	}
	return args[1], nil
}

// getTree writes through os.Root: a name from the context must not lead out of the folder. top is a real path.
func (a *app) getTree(f *client.FS, top, to string, check func(string) error, m *moved) error {
	entries, err := f.List(top, client.ListOptions{Recursive: true, Stats: true})
	if err != nil {
		return err
	}
	var total int64
	entries = slices.DeleteFunc(entries, func(e client.Entry) bool {
		parts := strings.Split(relativeTo(top, e), "/")
		n := slices.IndexFunc(parts, git.IsDotGit)
		if n == len(parts)-1 {
			m.LeftOut = append(m.LeftOut, e.Path())
		}
		return n >= 0
	})
	for _, e := range entries { // all are checked before the first is written
		if e.Type().IsRegular() || e.Type() == fs.ModeSymlink {
			if err := check(filepath.Join(to, filepath.FromSlash(relativeTo(top, e)))); err != nil {
				return err
			}
		}
		if info, err := e.Info(); err == nil && e.Type().IsRegular() {
			total += info.Size()
		}
	}
	m.bar.set(top, 0, total)
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	local := &localTree{Root: root}
	for _, e := range entries {
		if err = a.getEntry(f, local, top, e, m); err != nil {
			break
		}
	}
	return errors.Join(err, root.Close())
}

func relativeTo(top string, e client.Entry) string {
	return strings.TrimPrefix(strings.TrimPrefix(e.Path(), top), "/")
}

// localTree is a folder that get writes into.
type localTree struct {
	*os.Root
	// real is the directory that clear has looked at last: no link leads to it.
	real string
}

// clear removes links in the place of rel and of the directories above it. They may be of an earlier get, and would be followed: into a .git, too.
func (l *localTree) clear(rel string) error {
	at := ""
	for name := range strings.SplitSeq(rel, "/") {
		if at = path.Join(at, name); at == l.real || strings.HasPrefix(l.real, at+"/") {
			continue
		}
		st, err := l.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil && st.Mode().Type() == fs.ModeSymlink {
			err = l.Remove(at)
		}
		if err != nil {
			return err
		}
	}
	l.real = path.Dir(rel)
	return nil
}

func (a *app) getEntry(f *client.FS, root *localTree, top string, e client.Entry, m *moved) error {
	rel := relativeTo(top, e)
	info, err := e.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !e.IsDir() && e.Type() != fs.ModeSymlink && !info.Mode().IsRegular():
		m.LeftOut = append(m.LeftOut, e.Path())
		return nil
	}
	if err := root.clear(rel); err != nil {
		return err
	}
	switch {
	case e.IsDir():
		return root.MkdirAll(rel, info.Mode().Perm()|0o700)
	case e.Type() == fs.ModeSymlink:
		return getLink(f, root, e.Path(), rel, m)
	}
	w, err := root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	return errors.Join(a.fetch(f, e.Path(), w, m), w.Close())
}

// getLink makes a symbolic link in place of a file that is there. Root keeps later names from leading through it.
func getLink(f *client.FS, root *localTree, name, rel string, m *moved) error {
	target, err := f.Readlink(name)
	if err != nil {
		return err
	}
	root.real = "" // on a file system that folds case, the link may take the place of a directory
	err = root.Symlink(target, rel)
	if errors.Is(err, fs.ErrExist) {
		if err = root.Remove(rel); err == nil {
			err = root.Symlink(target, rel)
		}
	}
	if err == nil {
		m.Links++
	}
	return err
}

// download writes beside the destination and renames, so that a broken download leaves nothing behind.
func (a *app) download(f *client.FS, from, to string, info fs.FileInfo, m *moved) error {
	w, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".part*")
	if err != nil {
		return err
	}
	err = a.fetch(f, from, w, m)
	if err == nil {
		err = w.Chmod(info.Mode().Perm())
	}
	err = errors.Join(err, w.Close())
	if err == nil {
		err = os.Rename(w.Name(), to)
	}
	if err != nil {
		_ = os.Remove(w.Name())
	}
	return err
}

func (a *app) fetch(f *client.FS, from string, w io.Writer, m *moved) error {
	r, err := f.ReadStream(from, client.ReadOptions{})
	if err != nil {
		return err
	}
	if m.bar.w != nil {
		w = io.MultiWriter(w, m.bar)
	}
	n, err := r.WriteTo(w)
	m.Files, m.Bytes = m.Files+1, m.Bytes+n
	return errors.Join(err, r.Close())
}
