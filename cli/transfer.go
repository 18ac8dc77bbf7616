package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/client"
)

// moved counts what put or get did.
type moved struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// Skipped are links and special files, which are not carried over.
	Skipped []string `json:"skipped,omitempty"`
}

func (a *app) report(m moved) error {
	if a.json {
		return a.printJSON(m)
	}
	for _, name := range m.Skipped {
		if err := a.printf("skipped %s: neither a file nor a directory\n", show(name)); err != nil {
			return err
		}
	}
	return a.printf("%s, %s\n", files(m.Files), size(m.Bytes))
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
	return &cobra.Command{
		Use: "put LOCAL [PATH]", Short: "Upload a file or a directory; LOCAL may be - for standard input",
		Args: usage(cobra.RangeArgs(1, 2)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			if args[0] == "-" {
				return a.putStdin(f, args[1:])
			}
			to, err := into(f, args[0], pathArg(args[1:]))
			if err != nil {
				return err
			}
			var m moved
			if err := a.putTree(f, args[0], to, &m); err != nil {
				return err
			}
			return a.report(m)
		}),
	}
}

func (a *app) putStdin(f *client.FS, args []string) error {
	if len(args) == 0 {
		return usagef("put - needs the PATH to write")
	}
	var m moved
	if err := a.upload(f, args[0], a.env.Stdin, -1, 0o666, &m); err != nil {
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
		case d.IsDir():
			return f.MkdirAll(dest, info.Mode().Perm())
		case !info.Mode().IsRegular():
			m.Skipped = append(m.Skipped, local)
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

func (a *app) putFile(f *client.FS, local, dest string, info fs.FileInfo, m *moved) error {
	r, err := os.Open(local)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return a.upload(f, dest, r, info.Size(), info.Mode().Perm(), m)
}

func (a *app) upload(f *client.FS, dest string, r io.Reader, total int64, perm fs.FileMode, m *moved) error {
	b := a.newBar(dest, total, true)
	defer b.done()
	w, err := f.WriteStream(dest, client.WriteOptions{Perm: perm})
	if err != nil {
		return err
	}
	n, err := w.ReadFrom(b.counting(r))
	if err != nil {
		w.Abort()
		return err
	}
	m.Files, m.Bytes = m.Files+1, m.Bytes+n
	return w.Close()
}

func (a *app) getCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get PATH [LOCAL]", Short: "Download a file or a directory", Args: usage(cobra.RangeArgs(1, 2)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			to, err := localDest(args)
			if err != nil {
				return err
			}
			info, err := f.Stat(args[0])
			if err != nil {
				return err
			}
			var m moved
			if info.IsDir() {
				err = a.getTree(f, args[0], to, &m)
			} else {
				err = a.download(f, args[0], to, info, &m)
			}
			if err != nil {
				return err
			}
			return a.report(m)
		}),
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

// getTree writes through os.Root: a name from the context must not lead out of the folder.
func (a *app) getTree(f *client.FS, from, to string, m *moved) error {
	top, err := f.Realpath(from)
	if err != nil {
		return err
	}
	entries, err := f.List(top, client.ListOptions{Recursive: true, Stats: true})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err = a.getEntry(f, root, top, e, m); err != nil {
			break
		}
	}
	return errors.Join(err, root.Close())
}

func (a *app) getEntry(f *client.FS, root *os.Root, top string, e client.Entry, m *moved) error {
	rel := strings.TrimPrefix(strings.TrimPrefix(e.Path(), top), "/")
	info, err := e.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case e.IsDir():
		return root.MkdirAll(rel, info.Mode().Perm()|0o700)
	case !info.Mode().IsRegular():
		m.Skipped = append(m.Skipped, e.Path())
		return nil
	}
	w, err := root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	return errors.Join(a.fetch(f, e.Path(), w, info.Size(), m), w.Close())
}

// download writes beside the destination and renames, so that a broken download leaves nothing behind.
func (a *app) download(f *client.FS, from, to string, info fs.FileInfo, m *moved) error {
	w, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".part*")
	if err != nil {
		return err
	}
	err = a.fetch(f, from, w, info.Size(), m)
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

func (a *app) fetch(f *client.FS, from string, w io.Writer, total int64, m *moved) error {
	b := a.newBar(from, total, true)
	defer b.done()
	r, err := f.ReadStream(from, client.ReadOptions{})
	if err != nil {
		return err
	}
	n, err := r.WriteTo(io.MultiWriter(w, b))
	m.Files, m.Bytes = m.Files+1, m.Bytes+n
	return errors.Join(err, r.Close())
}
