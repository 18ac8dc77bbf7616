//go:build linux

package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/roottest"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/long"
)

func walked(t *testing.T, r rootfs.Root, dir string, opts tree.WalkOptions) []string {
	t.Helper()
	var got []string
	must(t, r.Walk(t.Context(), dir, opts, func(rel string, e rootfs.Entry, err error) error {
		if (e.Stat != nil) != opts.Stats {
			t.Errorf("%s: stat %v", rel, e.Stat)
		}
		got = append(got, rel)
		return err
	}))
	slices.Sort(got)
	return got
}

func TestWalk(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		outside := t.TempDir()
		put(t, outside, "secret", "s")
		r, dir := newTreeOf(t, impl, func(dir string) {
			put(t, dir, "a/b/c.txt", "c")
			put(t, dir, rootfs.ReservedPrefix+"1", "hidden")
		})
		put(t, dir, "z\xff", "z")
		must(t, os.Symlink(outside, filepath.Join(dir, "a/out")))
		for _, c := range []struct {
			name, dir string
			opts      tree.WalkOptions
			want      []string
		}{
			{"all", "/", tree.WalkOptions{}, []string{"a", "a/b", "a/b/c.txt", "a/out", "z\xff"}},
			{"with stats", "a", tree.WalkOptions{Stats: true}, []string{"b", "b/c.txt", "out"}},
			{"one level", "/", tree.WalkOptions{MaxDepth: 1}, []string{"a", "z\xff"}},
			{"two levels", "/", tree.WalkOptions{MaxDepth: 2}, []string{"a", "a/b", "a/out", "z\xff"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				if diff := cmp.Diff(c.want, walked(t, r, c.dir, c.opts)); diff != "" {
					t.Error(diff)
				}
			})
		}
	})
}

func TestWalkStops(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		put(t, dir, "a/b", "1")
		put(t, dir, "a/c", "1")
		mine := errors.New("mine")
		if err := r.Walk(t.Context(), "/", tree.WalkOptions{}, func(string, rootfs.Entry, error) error { return mine }); !errors.Is(err, mine) {
			t.Errorf("own error: %v", err)
		}
		calls := 0
		must(t, r.Walk(t.Context(), "/", tree.WalkOptions{}, func(string, rootfs.Entry, error) error { calls++; return tree.SkipDir }))
		if calls != 1 {
			t.Errorf("SkipDir: %d calls", calls)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := r.Walk(ctx, "/", tree.WalkOptions{}, func(string, rootfs.Entry, error) error { cancel(); return nil })
		if fserr.CodeOf(err) != fserr.ECANCELED || !strings.Contains(err.Error(), "1 entries") {
			t.Errorf("cancelled: %v", err)
		}
		err = r.Walk(t.Context(), "/a/b", tree.WalkOptions{}, func(string, rootfs.Entry, error) error { return nil })
		if fserr.CodeOf(err) != fserr.ENOTDIR {
			t.Errorf("a file: %v", err)
		}
	})
}

// An entry that vanishes, or is swapped for a link, before it is entered is skipped.
func TestWalkSkipsVanishedEntries(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		outside := t.TempDir()
		put(t, outside, "secret", "s")
		put(t, dir, "gone/x", "1")
		put(t, dir, "swapped/x", "1")
		var got []string
		must(t, r.Walk(t.Context(), "/", tree.WalkOptions{}, func(rel string, _ rootfs.Entry, err error) error {
			got = append(got, rel)
			must(t, os.RemoveAll(filepath.Join(dir, rel)))
			if rel == "swapped" {
				must(t, os.Symlink(outside, filepath.Join(dir, rel)))
			}
			return err
		}))
		slices.Sort(got)
		if diff := cmp.Diff([]string{"gone", "swapped"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A walk goes as deep as a path can be, and reports what it cannot reach.
func TestWalkDeep(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		roottest.MakeDeep(t, dir, "d", 2100)
		deepest, tooLong := 0, 0
		before := roottest.OpenFiles(t)
		most := 0
		must(t, r.Walk(t.Context(), "/", tree.WalkOptions{}, func(rel string, _ rootfs.Entry, err error) error {
			if fserr.CodeOf(err) == fserr.ENAMETOOLONG {
				tooLong++
			}
			if n := strings.Count(rel, "/") + 1; n > deepest {
				deepest = n
			}
			if len(rel)%64 == 1 {
				most = max(most, roottest.OpenFiles(t)-before)
			}
			return nil
		}))
		if deepest < 2000 || tooLong != 1 || most > 128 {
			t.Errorf("depth %d, %d too long, %d descriptors", deepest, tooLong, most)
		}
		removed, err := r.RemoveAll(t.Context(), "d")
		if err != nil || removed != 2101 || exists(filepath.Join(dir, "d")) {
			t.Errorf("removed %d: %v", removed, err)
		}
	})
}

// TestWalksCountTheirNames gives a walk and a copy memory for some of the names that they have to hold.
func TestWalksCountTheirNames(t *testing.T) {
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		must(t, os.MkdirAll(filepath.Join(dir, "few", "many"), 0o755))
		for i := range 1000 {
			must(t, os.WriteFile(filepath.Join(dir, "few", "many", fmt.Sprintf("%0100d", i)), nil, 0o644))
		}
		to, _ := newTree(t, impl)
		for what, do := range map[string]func(reserve func(int64) error) error{
			"a walk": func(reserve func(int64) error) error {
				return r.Walk(t.Context(), "/", tree.WalkOptions{Reserve: reserve}, func(string, rootfs.Entry, error) error { return nil })
			},
			"a copy": func(reserve func(int64) error) error {
				_, err := tree.Copy(t.Context(), r, "/", to, "copy", tree.CopyOptions{Reserve: reserve})
				return err
			},
		} {
			for _, c := range []struct {
				limit int64
				want  error
			}{{1 << 30, nil}, {64 << 10, fserr.EAGAIN}} {
				var most, last int64
				err := do(func(bytes int64) error {
					most, last = max(most, bytes), bytes
					if bytes > c.limit {
						return fserr.EAGAIN
					}
					return nil
				})
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("%s with %d bytes: %v, want %v", what, c.limit, err, c.want)
				}
				if c.want == nil && (most < 1000*100 || last != 0) {
					t.Errorf("%s: 1,000 names of 100 bytes took %d bytes, and %d at the end", what, most, last)
				}
			}
		}
	})
}

// TestTreesDeeperThanAPath copies, walks and removes what no path can name, with few descriptors.
func TestTreesDeeperThanAPath(t *testing.T) {
	for _, c := range []struct {
		name  string
		depth int
	}{{strings.Repeat("n", 200), long.Of(600, 3_000)}, {"d", long.Of(3_000, 20_000)}} {
		r, dir := newTree(t, "")
		must(t, r.Mkdir("top", 0o755))
		roottest.MakeDeep(t, filepath.Join(dir, "top"), c.name, c.depth)
		undo := roottest.FewDescriptors(t, 400)
		report, err := tree.Copy(t.Context(), r, "top", r, "copy", tree.CopyOptions{PreserveTimestamps: true, PreserveLinks: true, PreserveXattrs: true, Workers: 4})
		must(t, err)
		dirs, files := 0, 0
		must(t, r.Walk(t.Context(), "copy", tree.WalkOptions{Stats: true, Deep: true}, func(rel string, e rootfs.Entry, err error) error {
			must(t, err)
			if len(rel) > rootfs.MaxPath+rootfs.MaxName {
				t.Fatalf("an entry is reported with a path of %d bytes", len(rel))
			}
			if e.Type == rootfs.TypeDirectory {
				dirs++
			} else if e.Name == "bottom" && e.Stat != nil {
				files++
			}
			return nil
		}))
		if report.Files != 1 || dirs != c.depth || files != 1 {
			t.Errorf("copied %d files; the copy has %d directories and %d files, want 1, %d and 1", report.Files, dirs, files, c.depth)
		}
		for _, top := range []string{"top", "copy"} {
			n, err := r.RemoveAll(t.Context(), top)
			must(t, err)
			if n != int64(c.depth+2) {
				t.Errorf("removed %d entries of %s, want %d", n, top, c.depth+2)
			}
		}
		undo()
	}
}
