//go:build linux

package tree_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

func TestRemoveAll(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		outside := t.TempDir()
		put(t, outside, "secret", "s")
		r, dir := newTreeOf(t, impl, func(dir string) {
			put(t, dir, "d/e/f", "1")
			put(t, dir, "file", "1")
		})
		put(t, dir, "d/"+rootfs.ReservedPrefix+"1", "left over")
		must(t, os.Symlink(outside, filepath.Join(dir, "d/out")))
		must(t, os.Symlink("d", filepath.Join(dir, "link")))
		for _, c := range []struct {
			name, path string
			removed    int64
			code       fserr.Code
		}{
			{"the root", "/", 0, fserr.EBUSY},
			{"dots", "d/..", 0, fserr.EINVAL},
			{"nothing", "none", 0, fserr.ENOENT},
			{"a file as a directory", "file/", 0, fserr.ENOTDIR},
			{"a link as a directory", "link/", 0, fserr.ENOTDIR},
			{"a reserved name", "d/" + rootfs.ReservedPrefix + "1", 0, fserr.ENOENT},
			{"a link", "link", 1, 0},
			{"a file", "file", 1, 0},
			{"a directory", "d/", 5, 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				removed, err := r.RemoveAll(t.Context(), c.path)
				if removed != c.removed || fserr.CodeOf(err) != c.code {
					t.Errorf("removed %d, want %d; %v, want %v", removed, c.removed, err, c.code)
				}
			})
		}
		if !exists(filepath.Join(outside, "secret")) || exists(filepath.Join(dir, "d")) {
			t.Error("the outside was touched, or the directory is still there")
		}
	})
}

func TestRemoveAllHoldsFewNames(t *testing.T) {
	r, dir := newTree(t, "openat2")
	const files = 30_000 // about 8 MiB of names
	must(t, os.MkdirAll(filepath.Join(dir, "d/e"), 0o755))
	for i := range files {
		must(t, os.WriteFile(filepath.Join(dir, "d/e", fmt.Sprintf("%0200d", i)), nil, 0o600))
	}
	top, err := r.Node("/", false)
	must(t, err)
	var most int64
	removed, held, err := tree.RemoveWatched(t.Context(), top, rootfs.Entry{Name: "d", Type: rootfs.TypeDirectory}, func(held int64) { most = max(most, held) })
	if err != nil || removed != files+2 || exists(filepath.Join(dir, "d")) {
		t.Errorf("removed %d of %d: %v", removed, files+2, err)
	}
	if most < tree.MaxRemoveNames/2 || most > tree.MaxRemoveNames+(1<<20) || held != 0 {
		t.Errorf("the removal held %d bytes of names, and %d at its end, want at most %d and 0", most, held, tree.MaxRemoveNames)
	}
}

func TestRemoveAllStopsWithTheContext(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		put(t, dir, "d/e", "1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := r.RemoveAll(ctx, "d")
		if fserr.CodeOf(err) != fserr.ECANCELED || !strings.Contains(err.Error(), "0 entries were removed") {
			t.Error(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		if _, err = r.RemoveAll(ctx, "d"); fserr.CodeOf(err) != fserr.ETIMEDOUT {
			t.Error(err)
		}
	})
}

// fakeNode makes the directory's node do something first: the tests' way to
// change a tree at a certain moment.
type fakeNode struct {
	node.Node
	before func(op, name string) error
}

func (n *fakeNode) hook(op, name string) error {
	if n.before == nil {
		return nil
	}
	return n.before(op, name)
}

func (n *fakeNode) OpenDir(name string) (node.Node, error) {
	if err := n.hook("openDir", name); err != nil {
		return nil, err
	}
	child, err := n.Node.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &fakeNode{child, n.before}, nil
}

func (n *fakeNode) OpenFile(name string, flags rootfs.Flags, mode uint32) (rootfs.File, error) {
	if err := n.hook("openFile", name); err != nil {
		return nil, err
	}
	f, err := n.Node.OpenFile(name, flags, mode)
	if err != nil {
		return nil, err
	}
	return &fakeFile{f, func() error { return n.hook("stat", name) }}, nil
}

func (n *fakeNode) Chmod(name string, mode uint32) error {
	if err := n.hook("chmod", name); err != nil {
		return err
	}
	return n.Node.Chmod(name, mode)
}

func (n *fakeNode) Unlink(name string) error {
	if err := n.hook("unlink", name); err != nil {
		return err
	}
	return n.Node.Unlink(name)
}

func (n *fakeNode) Rmdir(name string) error {
	if err := n.hook("rmdir", name); err != nil {
		return err
	}
	return n.Node.Rmdir(name)
}

type fakeFile struct {
	rootfs.File
	before func() error
}

func (f *fakeFile) Stat() (rootfs.Stat, error) {
	if err := f.before(); err != nil {
		return rootfs.Stat{}, err
	}
	return f.File.Stat()
}

// fakeRoot is a testRoot whose nodes are fake.
type fakeRoot struct {
	testRoot
	before func(op, name string) error
}

func (r *fakeRoot) Node(path string, follow bool) (node.Node, error) {
	n, err := r.testRoot.Node(path, follow)
	if err != nil {
		return nil, err
	}
	return &fakeNode{n, r.before}, nil
}

func (r *fakeRoot) Parent(path string) (node.Node, string, bool, error) {
	n, base, slash, err := r.testRoot.Parent(path)
	if err != nil {
		return nil, base, slash, err
	}
	return &fakeNode{n, r.before}, base, slash, nil
}

func TestRemoveAllUnderConcurrentChange(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, dir, op string, calls int) error
		code   fserr.Code
	}{
		{"a name is added once", func(t *testing.T, dir, op string, calls int) error {
			if op == "rmdir" && calls == 1 {
				put(t, dir, "d/new", "1")
			}
			return nil
		}, 0},
		{"names are added for ever", func(t *testing.T, dir, op string, calls int) error {
			if op == "rmdir" {
				put(t, dir, fmt.Sprintf("d/new%d", calls), "1")
			}
			return nil
		}, fserr.ENOTEMPTY},
		{"somebody else removes", func(t *testing.T, dir, op string, _ int) error {
			if op == "unlink" {
				must(t, os.RemoveAll(filepath.Join(dir, "d")))
			}
			return nil
		}, 0},
		{"the directory becomes a file", func(t *testing.T, dir, op string, _ int) error {
			if op == "rmdir" && !exists(filepath.Join(dir, "d/f")) {
				must(t, os.RemoveAll(filepath.Join(dir, "d")))
				put(t, dir, "d", "1")
			}
			return nil
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachRoot(t, func(t *testing.T, impl string) {
				r, dir := newTree(t, impl)
				put(t, dir, "d/f", "1")
				calls := map[string]int{}
				_, err := tree.RemoveAll(t.Context(), &fakeRoot{r, func(op, _ string) error {
					calls[op]++
					return c.before(t, dir, op, calls[op])
				}}, "d")
				if fserr.CodeOf(err) != c.code || exists(filepath.Join(dir, "d")) != (c.code != 0) {
					t.Errorf("%v, want %v; exists: %v", err, c.code, exists(filepath.Join(dir, "d")))
				}
			})
		})
	}
}

// A directory that its owner may not enter or write is opened up. The refusals
// are played, since root is refused nothing.
func TestRemoveAllUnlocks(t *testing.T) {
	for _, op := range []string{"openDir", "unlink"} {
		t.Run(op, func(t *testing.T) {
			r, dir := newTree(t, "osroot")
			put(t, dir, "d/f", "1")
			locked := true
			removed, err := tree.RemoveAll(t.Context(), &fakeRoot{r, func(now, _ string) error {
				locked = locked && now != "chmod"
				if now == op && locked {
					return fserr.EACCES
				}
				return nil
			}}, "d")
			if err != nil || removed != 2 || locked {
				t.Errorf("removed %d, still locked %v: %v", removed, locked, err)
			}
		})
	}
}

// swapper exchanges two names until stop is called.
func swapper(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}
	}()
	return func() { cancel(); <-done }
}

func TestRemoveAllWhileADirectoryIsSwappedForALink(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		outside := t.TempDir()
		put(t, outside, "victim/x", "precious")
		must(t, os.Symlink(filepath.Join(outside, "victim"), filepath.Join(dir, "link")))
		put(t, dir, "top/sub/x", "1")
		stop := swapper(t, filepath.Join(dir, "link"), filepath.Join(dir, "top/sub"))
		for range 300 {
			_, _ = r.RemoveAll(t.Context(), "top")
			_ = os.MkdirAll(filepath.Join(dir, "top/sub"), 0o755)
			_ = os.WriteFile(filepath.Join(dir, "top/sub/y"), nil, 0o644)
			_ = os.Symlink(filepath.Join(outside, "victim"), filepath.Join(dir, "link"))
		}
		stop()
		if got, err := os.ReadFile(filepath.Join(outside, "victim/x")); err != nil || string(got) != "precious" {
			t.Errorf("the outside lost its file: %q %v", got, err)
		}
	})
}

func TestSweep(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		put(t, dir, "keep/a", "1")
		put(t, dir, rootfs.ReservedPrefix+"1", "1")
		put(t, dir, "keep/deep/"+rootfs.ReservedPrefix+"2", "1")
		put(t, dir, "keep/"+rootfs.ReservedPrefix+"dir/x", "1")
		replaced, passing := "keep/"+tree.SwapName(), "keep/"+tree.PassingName()
		put(t, dir, replaced, "what an interrupted swap replaced")
		put(t, dir, passing, "1")
		swept, err := tree.Sweep(t.Context(), r)
		if err != nil || swept != 5 {
			t.Errorf("swept %d: %v", swept, err)
		}
		for path, want := range map[string]bool{
			"keep/a": true, rootfs.ReservedPrefix + "1": false,
			"keep/deep/" + rootfs.ReservedPrefix + "2": false, "keep/" + rootfs.ReservedPrefix + "dir": false,
			replaced: true, passing: false,
		} {
			if exists(filepath.Join(dir, path)) != want {
				t.Errorf("%s exists: %v", path, !want)
			}
		}
	})
}
