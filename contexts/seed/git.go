package seed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// selected is the set of paths, relative to the workspace, that git lists in one
// repository, with their parents.
type selected map[string]bool

// list asks git which files of a repository are selected, at or below some paths in it; none means all.
func list(ctx context.Context, src Source, repo string, sel Selection, below []string) (selected, error) {
	names, err := git.ListFiles(ctx, src.path(repo), sel == SelectUnignored, below...)
	if o := git.Obstacle(err); o != nil {
		return nil, &fserr.Error{Code: o.Code, Err: err, Detail: fmt.Sprintf("the files of repository '%s' cannot be listed: %s", repo, o.Detail), Hint: o.Hint}
	}
	if err != nil {
		return nil, &fserr.Error{
			Code: fserr.EIO, Detail: fmt.Sprintf("git could not list the files of repository '%s'", repo), Err: err,
			Hint: "install git and check the repository, or use --seed-select=all",
		}
	}
	set := selected{}
	for _, name := range names {
		set.add(repo, path.Join(repo, name))
	}
	return set, nil
}

// add adds p and its parents below repo.
func (s selected) add(repo, p string) {
	for ; p != repo && p != "." && !s[p]; p = path.Dir(p) {
		s[p] = true
	}
}

// Describe asks git for each repository's commit, branch and state, which is that of the scope's files alone. They stay empty if
// git fails: it is not installed, or the repository is broken or another user's.
func Describe(ctx context.Context, src Source, repos []string, scope Scope) []Repository {
	out := make([]Repository, len(repos))
	var g errgroup.Group
	g.SetLimit(4)
	for i, repo := range repos {
		g.Go(func() error {
			state, _ := git.Status(ctx, src.path(repo), scope.below(repo)...)
			out[i] = Repository{Path: repo, Head: state.Head, Branch: state.Branch, Dirty: state.Dirty}
			return nil
		})
	}
	_ = g.Wait() // no function fails
	return out
}

func (s Source) path(p string) string { return filepath.Join(s.Dir, filepath.FromSlash(p)) }

// Realpath returns p without links, relative to the workspace. A path among the contexts
// fails with EACCES: a panel writes there, and must not choose what contexts are made from.
func (s Source) Realpath(p string) (string, error) {
	real, err := s.Root.Realpath(p)
	if err != nil {
		return "", err
	}
	real = path.Clean(strings.TrimPrefix(real, "/") + "/.")
	if s.Avoid != "" && (real == s.Avoid || strings.HasPrefix(real, s.Avoid+"/")) {
		return "", &fserr.Error{Code: fserr.EACCES, Detail: "it lies among the contexts"}
	}
	return real, nil
}

// GitFS returns the source for a git.Reader.
func (s Source) GitFS() git.FS { return gitFS{s} }

type gitFS struct{ src Source }

func (t gitFS) Dir() string                       { return t.src.Dir }
func (t gitFS) Realpath(p string) (string, error) { return t.src.Realpath(p) }

func (t gitFS) IsDir(p string) (bool, error) {
	st, err := t.src.Root.Stat(p)
	return err == nil && st.IsDir(), err
}

func (t gitFS) Open(p string) (io.ReadCloser, error) {
	f, st, err := t.src.Root.OpenStat(p, rootfs.O_RDONLY)
	switch {
	case fserr.CodeOf(err) == fserr.ENXIO: // a socket
		return nil, git.NotPlain(p)
	case err != nil:
		return nil, err
	case st.IsDir():
		return nil, errors.Join(fserr.ENOENT, f.Close())
	case st.Type() != rootfs.TypeFile:
		return nil, errors.Join(git.NotPlain(p), f.Close())
	}
	return f, nil
}

func (t gitFS) Types(ctx context.Context, dir string, depth int, fn func(fs.FileMode) error) error {
	return t.src.Root.Walk(ctx, dir, tree.WalkOptions{MaxDepth: depth}, func(_ string, e rootfs.Entry, err error) error {
		if err != nil {
			return err
		}
		switch e.Type {
		case rootfs.TypeFile:
			return fn(0)
		case rootfs.TypeDirectory:
			return fn(fs.ModeDir)
		case rootfs.TypeSymlink:
			return fn(fs.ModeSymlink)
		}
		return fn(fs.ModeIrregular)
	})
}
