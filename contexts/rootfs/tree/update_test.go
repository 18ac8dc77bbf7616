//go:build linux

package tree_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// age makes files until what was made before is old enough to be known again.
// clock: files must be older than a tick of the kernel's clock
func age(t *testing.T, dir string) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 50*time.Millisecond; {
		put(t, dir, "aging", "x")
	}
}

// TestCopyBringsUpToDate changes a tree at random after it was copied, and copies it again.
func TestCopyBringsUpToDate(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		for round := range 2 {
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 1))
			from, src := newTree(t, impl)
			to, dst := newTree(t, impl)
			growTree(t, rng, src, 3)
			put(t, src, "kept/same", "s")
			if round%2 == 0 {
				age(t, t.TempDir())
			}
			opts := keepAll
			opts.Workers, opts.Earlier = 1+3*(round%2), &tree.Earlier{}
			copyAgain := func() {
				if _, err := tree.Copy(t.Context(), from, "/", to, "copy", opts); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if diff := cmp.Diff(snapshot(t, src), snapshot(t, filepath.Join(dst, "copy"))); diff != "" {
					t.Fatalf("seed %d, round %d: %s", seed, round, diff)
				}
			}
			copyAgain()
			before := inode(t, filepath.Join(dst, "copy/kept/same"))
			for range 3 {
				for range 8 {
					mutate(t, rng, src)
				}
				copyAgain()
			}
			if after := inode(t, filepath.Join(dst, "copy/kept/same")); round%2 == 0 && after != before {
				t.Errorf("a file that did not change was copied again")
			}
		}
	})
}

// TestCopyBringsLinksUpToDate renames the directory of one name of a file, which changes no ctime of the file, and renames it back.
func TestCopyBringsLinksUpToDate(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		for _, moved := range []string{"a", "z"} { // before and after the name that stays, by name
			from, src := newTree(t, impl)
			to, dst := newTree(t, impl)
			put(t, src, "dir/one", "1")
			put(t, src, "dir/alone", "1")
			must(t, os.Mkdir(filepath.Join(src, "m"), 0o755))
			must(t, os.Link(filepath.Join(src, "dir/one"), filepath.Join(src, "m/two")))
			age(t, t.TempDir())
			opts := keepAll
			opts.Earlier = &tree.Earlier{}
			copyAgain := func() {
				t.Helper()
				if _, err := tree.Copy(t.Context(), from, "/", to, "copy", opts); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(snapshot(t, src), snapshot(t, filepath.Join(dst, "copy"))); diff != "" {
					t.Error(diff)
				}
			}
			copyAgain()
			must(t, os.Rename(filepath.Join(src, "dir"), filepath.Join(src, moved)))
			copyAgain()
			must(t, os.Rename(filepath.Join(src, moved), filepath.Join(src, "dir")))
			copyAgain()
		}
	})
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Ino
}

// mutate changes something at random below dir, outside of the directory kept.
func mutate(t *testing.T, rng *rand.Rand, dir string) {
	t.Helper()
	var paths []string
	must(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != dir {
			if info.IsDir() && info.Name() == "kept" {
				return filepath.SkipDir
			}
			paths = append(paths, path)
		}
		return err
	}))
	fresh := filepath.Join(dir, fmt.Sprintf("fresh%d", rng.Uint64()))
	if len(paths) == 0 {
		must(t, os.WriteFile(fresh, nil, 0o600))
		return
	}
	path := paths[rng.IntN(len(paths))]
	info, err := os.Lstat(path)
	must(t, err)
	switch rng.IntN(7) {
	case 0:
		must(t, os.RemoveAll(path))
	case 1:
		must(t, os.Rename(path, fresh))
	case 2: // another type at the same name
		must(t, os.RemoveAll(path))
		if info.IsDir() {
			must(t, os.WriteFile(path, []byte("was a directory"), 0o640))
		} else {
			must(t, os.Mkdir(path, 0o750))
			must(t, os.WriteFile(filepath.Join(path, "f"), []byte("was none"), 0o640))
		}
	case 3:
		if info.Mode().IsRegular() {
			must(t, os.Link(path, fresh))
			return
		}
		must(t, os.Mkdir(fresh, 0o711))
	case 4:
		if info.Mode().IsRegular() {
			must(t, os.WriteFile(path, []byte(fmt.Sprint(rng.Uint64())), 0o600))
		}
	case 5:
		if info.IsDir() {
			must(t, os.Chmod(path, os.FileMode(0o700|rng.IntN(0o100))))
			must(t, unix.Setxattr(path, "user.x", fmt.Append(nil, rng.Uint64()), 0))
		}
	default:
		must(t, os.WriteFile(fresh, []byte("new"), 0o600))
	}
}
