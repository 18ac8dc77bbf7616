package template

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/git/gittest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// workspace is a folder with real git repositories, and where templates are built.
type workspace struct {
	*gittest.Workspace
	base string
}

func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	return over(gittest.New(t))
}

// over gives a workspace the folders where templates are built.
func over(g *gittest.Workspace) *workspace {
	w := &workspace{Workspace: g}
	for _, d := range []string{"layers", "staging", "locks"} {
		w.Must(os.Mkdir(filepath.Join(w.State, d), 0o700))
	}
	return w
}

// template writes a template into the folder p.
func (w *workspace) template(p string, lines ...string) {
	w.T.Helper()
	w.Write(p+"/"+FileName, strings.Join(lines, "\n")+"\n")
}

func (w *workspace) source() seed.Source {
	w.T.Helper()
	root, err := rootfs.Open(w.Dir, rootfs.Options{FollowMounts: true})
	must(w.T, err)
	w.T.Cleanup(func() { _ = root.Close() })
	return seed.Source{Root: root, Dir: w.Dir, Avoid: ".contexts"}
}

func (w *workspace) resolver() *Resolver {
	w.T.Helper()
	r, err := NewResolver(w.source(), w.base, git.Options{Scratch: filepath.Join(w.State, "staging")})
	must(w.T, err)
	w.T.Cleanup(func() { _ = r.Close() })
	return r
}

func (w *workspace) builder() *Builder {
	in := func(name string) string { return filepath.Join(w.State, name) }
	return NewBuilder(BuildOptions{Layers: in("layers"), Staging: in("staging"), Locks: in("locks")})
}

func (w *workspace) resolve(p string) (*Resolved, error) {
	return w.resolver().Resolve(context.Background(), p)
}

func (w *workspace) mustResolve(p string) *Resolved {
	w.T.Helper()
	r, err := w.resolve(p)
	must(w.T, err)
	return r
}

func (w *workspace) build(p string) (*Built, error) {
	w.T.Helper()
	return w.builder().Build(context.Background(), w.mustResolve(p), nil)
}

// staged lists what lies in staging.
func (w *workspace) staged() []string {
	w.T.Helper()
	entries, err := os.ReadDir(filepath.Join(w.State, "staging"))
	must(w.T, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// files lists a tree as path -> mode and content; directories are "d".
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		out[filepath.ToSlash(rel)], err = describeFile(p, e)
		return err
	}))
	return out
}

func describeFile(p string, e fs.DirEntry) (string, error) {
	info, err := e.Info()
	switch {
	case err != nil:
		return "", err
	case e.IsDir():
		return "d", nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(p)
		return "-> " + target, err
	}
	data, err := os.ReadFile(p)
	return info.Mode().String() + " " + string(data), err
}
