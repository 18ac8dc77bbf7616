//go:build linux

package tree_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/roottest"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/long"
)

var keepAll = tree.CopyOptions{PreserveTimestamps: true, PreserveLinks: true, PreserveXattrs: true}

// Whatever a tree consists of, its copy is the same, and the source keeps as it was.
func TestCopyKeepsEverything(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		for _, workers := range []int{1, 4} {
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 1))
			from, src := newTreeOf(t, impl, func(dir string) { growTree(t, rng, dir, 3) })
			to, dst := newTree(t, impl)
			must(t, os.Mkdir(filepath.Join(src, "empty"), 0o711))
			put(t, src, "setid", "s")
			must(t, unix.Chmod(filepath.Join(src, "setid"), 0o6755))
			want := snapshot(t, src)
			opts := keepAll
			opts.Workers = workers
			if _, err := tree.Copy(t.Context(), from, "/", to, "copy", opts); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if diff := cmp.Diff(want, snapshot(t, filepath.Join(dst, "copy"))); diff != "" {
				t.Errorf("seed %d, %d workers: %s", seed, workers, diff)
			}
		}
	})
}

func TestCopyReports(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		from, src := newTree(t, impl)
		to, dst := newTree(t, impl)
		put(t, src, "a/b", "12345")
		put(t, src, "node_modules/x", "1")
		must(t, os.Symlink("b", filepath.Join(src, "a/l")))
		must(t, unix.Mkfifo(filepath.Join(src, "fifo"), 0o644))
		recorded := map[string]string{}
		var last tree.CopyProgress
		report, err := tree.Copy(t.Context(), from, "/", to, "/", tree.CopyOptions{
			Skip:        func(_ string, e rootfs.Entry) bool { return e.Name == "node_modules" },
			Progress:    func(p tree.CopyProgress) { last = p },
			RewriteLink: func(rel, target string) string { return rel + ":" + target },
			Record:      func(rel string, st rootfs.Stat, target string) { recorded[rel] = target },
		})
		must(t, err)
		want := tree.CopyReport{CopyProgress: tree.CopyProgress{Files: 2, Bytes: 5}, Special: 1}
		if diff := cmp.Diff(want, report); diff != "" || last != want.CopyProgress {
			t.Errorf("%s; last progress %v", diff, last)
		}
		if diff := cmp.Diff(map[string]string{"a": "", "a/b": "", "a/l": "a/l:b"}, recorded); diff != "" {
			t.Error(diff)
		}
		if exists(filepath.Join(dst, "node_modules")) || exists(filepath.Join(dst, "fifo")) {
			t.Error("what was to be skipped was copied")
		}
	})
}

// copyWorld is the tree of the cases below: sources and occupied destinations.
func copyWorld(t *testing.T, dir string) {
	put(t, dir, "f", "new")
	put(t, dir, "d/in/x", "x")
	put(t, dir, "old", "old")
	put(t, dir, "victim", "victim")
	must(t, os.Symlink("victim", filepath.Join(dir, "tovictim")))
	must(t, os.Link(filepath.Join(dir, "f"), filepath.Join(dir, "samef")))
	must(t, os.Symlink("..", filepath.Join(dir, "d/in/up")))
	must(t, os.Symlink("d/in/x", filepath.Join(dir, "tox")))
	must(t, os.Symlink("../outside", filepath.Join(dir, "out")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
}

func TestCopyDestinations(t *testing.T) {
	over := tree.CopyOptions{Overwrite: true}
	deref := tree.CopyOptions{Dereference: true}
	for _, c := range []struct {
		name, src, dst string
		opts           tree.CopyOptions
		code           fserr.Code
		path, content  string
	}{
		{"a new file", "f", "n", tree.CopyOptions{}, 0, "n", "new"},
		{"an existing file is kept", "f", "old", tree.CopyOptions{}, 0, "old", "old"},
		{"an existing file is an error", "f", "old", tree.CopyOptions{ErrorOnExist: true}, fserr.EEXIST, "old", "old"},
		{"an existing file is replaced", "f", "old", over, 0, "old", "new"},
		{"a link is replaced", "f", "tovictim", over, 0, "tovictim", "new"},
		{"a link is not written through", "f", "tovictim", over, 0, "victim", "victim"},
		{"a file over a directory", "f", "d", over, fserr.EISDIR, "d/in/x", "x"},
		{"a directory over a file", "d", "old", over, fserr.ENOTDIR, "old", "old"},
		{"a directory over a link", "d", "tovictim", over, fserr.ENOTDIR, "victim", "victim"},
		{"a file over itself", "f", "f", over, fserr.EINVAL, "f", "new"},
		{"a file over its other name", "f", "samef", over, fserr.EINVAL, "f", "new"},
		{"a directory into itself", "d", "d/in/n", over, fserr.EINVAL, "d/in/x", "x"},
		{"a directory over itself", "d", "d", over, fserr.EINVAL, "d/in/x", "x"},
		{"the root into itself", "/", "d/n", over, fserr.EINVAL, "d/in/x", "x"},
		{"a file as a directory", "f", "n/", tree.CopyOptions{}, fserr.ENOTDIR, "f", "new"},
		{"a missing parent", "f", "no/n", tree.CopyOptions{}, fserr.ENOENT, "f", "new"},
		{"a missing source", "none", "n", tree.CopyOptions{}, fserr.ENOENT, "f", "new"},
		{"not recursive", "d", "n", tree.CopyOptions{NonRecursive: true}, fserr.EISDIR, "f", "new"},
		{"a FIFO", "fifo", "n", tree.CopyOptions{}, fserr.EOPNOTSUPP, "f", "new"},
		{"a reserved name", "f", rootfs.ReservedPrefix + "x", tree.CopyOptions{}, fserr.EACCES, "f", "new"},
		{"a link dereferenced", "tox", "n", deref, 0, "n", "x"},
		{"an escaping link dereferenced", "out", "n", deref, fserr.EACCES, "f", "new"},
		{"a cycle dereferenced", "d", "n", deref, fserr.ELOOP, "d/in/x", "x"},
		{"a directory", "d", "n", tree.CopyOptions{}, 0, "n/in/x", "x"},
		{"merged into its parent", "d/in", "d", tree.CopyOptions{}, 0, "d/x", "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachRoot(t, func(t *testing.T, impl string) {
				r, dir := newTree(t, impl)
				copyWorld(t, dir)
				_, err := tree.Copy(t.Context(), r, c.src, r, c.dst, c.opts)
				if fserr.CodeOf(err) != c.code {
					t.Errorf("%v, want %v", err, c.code)
				}
				got, err := os.ReadFile(filepath.Join(dir, c.path))
				if err != nil || string(got) != c.content {
					t.Errorf("%s is %q, want %q; %v", c.path, got, c.content, err)
				}
			})
		})
	}
}

// The destination lies inside the source, but in a Root of its own.
func TestCopyIntoItselfThroughAnotherRoot(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		from, src := newTree(t, impl)
		put(t, src, "a/b", "1")
		must(t, os.Mkdir(filepath.Join(src, "z"), 0o755))
		to := treeAt(t, filepath.Join(src, "z"), impl)
		_, err := tree.Copy(t.Context(), from, "/", to, "/", tree.CopyOptions{})
		if fserr.CodeOf(err) != fserr.EINVAL || exists(filepath.Join(src, "z/z")) {
			t.Error(err)
		}
		skip := tree.CopyOptions{Skip: func(rel string, _ rootfs.Entry) bool { return rel == "z" }}
		if _, err := tree.Copy(t.Context(), from, "/", to, "/", skip); err != nil {
			t.Errorf("skipping it: %v", err)
		}
	})
}

func TestCopyOfWhatChanges(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(t *testing.T, path, op string, calls int) error
		want     string // "" when it must not be there
		unstable bool
	}{
		{"once while it is read", func(t *testing.T, path, op string, calls int) error {
			if op == "stat" && calls == 2 { // the look after the copy
				put(t, path, "longer than before")
			}
			return nil
		}, "longer than before", false},
		{"all the time", func(t *testing.T, path, op string, calls int) error {
			if op == "stat" {
				put(t, path, strings.Repeat("x", calls))
			}
			return nil
		}, "any", true},
		{"it vanishes", func(t *testing.T, path, op string, _ int) error {
			if op == "openFile" {
				must(t, os.Remove(path))
			}
			return nil
		}, "", false},
		{"it becomes a link", func(t *testing.T, path, op string, _ int) error {
			if op == "openFile" {
				must(t, os.Remove(path))
				must(t, os.Symlink("/etc/passwd", path))
			}
			return nil
		}, "", true},
		{"it becomes a FIFO", func(t *testing.T, path, op string, _ int) error {
			if op == "openFile" {
				must(t, os.Remove(path))
				must(t, unix.Mkfifo(path, 0o644))
			}
			return nil
		}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachRoot(t, func(t *testing.T, impl string) {
				r, src := newTree(t, impl)
				to, dst := newTree(t, impl)
				put(t, src, "f", "before")
				calls := map[string]int{}
				from := &fakeRoot{r, func(op, _ string) error {
					calls[op]++
					return c.change(t, filepath.Join(src, "f"), op, calls[op])
				}}
				report, err := tree.Copy(t.Context(), from, "/", to, "/", tree.CopyOptions{})
				must(t, err)
				if slices.Contains(report.Unstable, "f") != c.unstable {
					t.Errorf("unstable: %q", report.Unstable)
				}
				got, _ := os.ReadFile(filepath.Join(dst, "f"))
				if exists(filepath.Join(dst, "f")) != (c.want != "") || (c.want != "any" && string(got) != c.want) {
					t.Errorf("copied %q, want %q", got, c.want)
				}
				if c.want != "any" && report.Bytes != int64(len(c.want)) {
					t.Errorf("%d bytes were counted of %d", report.Bytes, len(c.want))
				}
			})
		})
	}
}

// A failing or cancelled copy leaves no half file, and directories keep no state of work.
func TestCopyLeavesNoHalfFile(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		for _, workers := range []int{1, 3} {
			r, src := newTree(t, impl)
			to, dst := newTree(t, impl)
			put(t, src, "d/f", strings.Repeat("x", 1000))
			calls := 0
			from := &fakeRoot{r, func(op, _ string) error {
				if op == "stat" {
					if calls++; calls == 2 { // the look after the copy
						return fserr.EIO
					}
				}
				return nil
			}}
			_, err := tree.Copy(t.Context(), from, "/", to, "/", tree.CopyOptions{Workers: workers})
			if fserr.CodeOf(err) != fserr.EIO || !strings.Contains(err.Error(), "'d/f'") {
				t.Errorf("error: %v", err)
			}
			st, err := os.Stat(filepath.Join(dst, "d"))
			if exists(filepath.Join(dst, "d/f")) || err != nil || st.Mode().Perm() != 0o755 {
				t.Errorf("left behind: %v %v", st, err)
			}
		}
	})
}

func TestCopyIsCancelled(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		for _, workers := range []int{1, 3} {
			from, src := newTree(t, impl)
			to, _ := newTree(t, impl)
			for _, name := range strings.Split("abcdefghij", "") {
				put(t, src, name+"/f", "1")
			}
			ctx, cancel := context.WithCancel(t.Context())
			report, err := tree.Copy(ctx, from, "/", to, "/", tree.CopyOptions{
				Workers: workers, Record: func(string, rootfs.Stat, string) { cancel() },
			})
			if fserr.CodeOf(err) != fserr.ECANCELED || report.Files > int64(workers) {
				t.Errorf("%d files, %v", report.Files, err)
			}
		}
	})
}

func TestCopyDeep(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		from, src := newTree(t, impl)
		to, _ := newTree(t, impl)
		depth := long.Of(800, 2000) // a path names 2,000
		roottest.MakeDeep(t, src, "d", depth)
		opts := keepAll
		opts.Workers = 2
		report, err := tree.Copy(t.Context(), from, "d", to, "d", opts)
		must(t, err)
		if report.Files != 1 || len(walked(t, to, "/", tree.WalkOptions{})) != depth+1 {
			t.Errorf("%+v", report)
		}
		for _, r := range []rootfs.Root{from, to} {
			_, err := r.RemoveAll(t.Context(), "d")
			must(t, err)
		}
	})
}

func TestCopyXattrs(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		put(t, dir, "d/f", "1")
		for _, path := range []string{"d", "d/f"} {
			if err := unix.Setxattr(filepath.Join(dir, path), "user.note", []byte(path), 0); err != nil {
				t.Skipf("no user xattrs here: %v", err)
			}
		}
		_, err := tree.Copy(t.Context(), r, "d", r, "e", keepAll)
		must(t, err)
		for from, to := range map[string]string{"d": "e", "d/f": "e/f"} {
			buf := make([]byte, 100)
			n, err := unix.Getxattr(filepath.Join(dir, to), "user.note", buf)
			if err != nil || string(buf[:n]) != from {
				t.Errorf("%s has %q: %v", to, buf[:max(n, 0)], err)
			}
		}
	})
}

// A directory of the source is swapped for a link to the outside all the time: nothing
// outside is copied; the same at the destination: nothing outside is written.
func TestCopyWhileADirectoryIsSwappedForALink(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		outside := t.TempDir()
		put(t, outside, "victim/f", "secret")
		from, src := newTree(t, impl)
		to, dst := newTree(t, impl)
		for _, dir := range []string{src, dst} {
			put(t, dir, "top/sub/f", "mine")
			must(t, os.Symlink(filepath.Join(outside, "victim"), filepath.Join(dir, "link")))
			defer swapper(t, filepath.Join(dir, "link"), filepath.Join(dir, "top/sub"))()
		}
		copies, _ := newTree(t, impl)
		for range 150 {
			_, _ = tree.Copy(t.Context(), from, "top", copies, "c", tree.CopyOptions{Overwrite: true})
			_, _ = tree.Copy(t.Context(), from, "top", to, "top", tree.CopyOptions{Overwrite: true})
			st, err := copies.Lstat("c/sub/f")
			if err == nil && st.Size != int64(len("mine")) {
				t.Fatal("the outside's file was copied")
			}
			_, _ = copies.RemoveAll(t.Context(), "c")
		}
		if got, err := os.ReadFile(filepath.Join(outside, "victim/f")); err != nil || string(got) != "secret" {
			t.Errorf("the outside was changed: %q %v", got, err)
		}
	})
}
