//go:build linux

package tree_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// draftFile adds a file whose content is its name.
func draftFile(t *testing.T, d *tree.Draft, name string) {
	t.Helper()
	f, err := d.File(name, 0o640)
	must(t, err)
	_, err = io.WriteString(f, name)
	must(t, err)
	must(t, f.Close())
}

// stoppingAfter is a context that ends when it has been looked at n times.
type stoppingAfter struct {
	context.Context
	n int
}

func (s *stoppingAfter) Err() error {
	if s.n--; s.n < 0 {
		return context.Canceled
	}
	return nil
}

// unstamped is a snapshot without times: what is moved away and back changes its directory's.
func unstamped(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for _, line := range snapshot(t, dir) {
		before, after, _ := strings.Cut(line, " mtime=")
		_, after, _ = strings.Cut(after, " ")
		lines = append(lines, before+" "+after)
	}
	return lines
}

// TestDraftMovesBackWhatItMoved ends the placing of a draft at each point. What was there is then as it was.
func TestDraftMovesBackWhatItMoved(t *testing.T) {
	t.Parallel()
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		put(t, dir, "to/both/file", "old")
		put(t, dir, "to/both/other", "old")
		put(t, dir, "to/file", "old")
		must(t, os.Symlink("file", filepath.Join(dir, "to/link")))
		before := unstamped(t, dir)
		for n := 0; ; n++ {
			d, err := tree.NewDraft(r, "/to")
			must(t, err)
			for _, name := range []string{"both/file", "both/added", "fresh/a/b", "file", "link"} {
				draftFile(t, d, name)
			}
			must(t, d.Dir("fresh/a", tree.DirAttributes{Mode: 0o500, MtimeNs: 1e18}))
			err = d.Place(&stoppingAfter{t.Context(), n}, true)
			must(t, d.Drop(t.Context()))
			if err == nil {
				break
			}
			if fserr.CodeOf(err) != fserr.ECANCELED {
				t.Fatalf("ended after %d looks: %v, want ECANCELED", n, err)
			}
			if d := cmp.Diff(before, unstamped(t, dir)); d != "" {
				t.Fatalf("ended after %d looks:\n%s", n, d)
			}
		}
		for _, name := range []string{"both/file", "both/added", "fresh/a/b", "file", "link"} {
			if got, err := os.ReadFile(filepath.Join(dir, "to", name)); err != nil || string(got) != name {
				t.Errorf("%s holds %q, %v", name, got, err)
			}
		}
		if st, err := os.Lstat(filepath.Join(dir, "to/fresh/a")); err != nil || st.Mode().Perm() != 0o500 || st.ModTime().UnixNano() != 1e18 {
			t.Errorf("the directory has %v, %v", st, err)
		}
		must(t, os.Chmod(filepath.Join(dir, "to/fresh/a"), 0o700))
	})
}

// TestDraftFollowsNoLinkThatIsSwappedIn swaps a directory of the draft on disk.
func TestDraftFollowsNoLinkThatIsSwappedIn(t *testing.T) {
	t.Parallel()
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		outside := t.TempDir()
		d, err := tree.NewDraft(r, "/to")
		must(t, err)
		draftFile(t, d, "a/file")
		draftFile(t, d, "file")
		hidden, err := filepath.Glob(filepath.Join(dir, ".ctxfs-tmp-*", "tree", "a"))
		if must(t, err); len(hidden) != 1 {
			t.Fatalf("the draft has %q, want its directory a", hidden)
		}
		must(t, os.RemoveAll(hidden[0]))
		must(t, os.Symlink(outside, hidden[0]))
		if f, err := d.File("a/other", 0o644); err == nil {
			_ = f.Close()
			t.Error("a file was made through a link")
		}
		must(t, d.Symlink("l", "..", 0))
		if err := d.Link("h", "l"); fserr.CodeOf(err) != fserr.EPERM {
			t.Errorf("a hard link to a link: %v, want EPERM", err)
		}
		must(t, d.Drop(t.Context()))
		if left := snapshot(t, dir); len(left) != 1 {
			t.Errorf("left: %q", left)
		}
		if left := snapshot(t, outside); len(left) != 1 {
			t.Errorf("outside is now %q", left)
		}
	})
}

// TestDraftOfAPlaceThatAppearsMeanwhile also has a link that leads nowhere, and a missing directory above.
func TestDraftOfAPlaceThatAppearsMeanwhile(t *testing.T) {
	t.Parallel()
	eachRoot(t, func(t *testing.T, impl string) {
		r, dir := newTree(t, impl)
		must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
		put(t, dir, "file", "f")
		for place, want := range map[string]fserr.Code{"/no/where": fserr.ENOENT, "/dangling": fserr.ENOENT, "/file": fserr.ENOTDIR, "/../x": fserr.EACCES, "/.ctxfs-tmp-x": fserr.ENOENT} {
			if _, err := tree.NewDraft(r, place); fserr.CodeOf(err) != want {
				t.Errorf("a draft of %s: %v, want %v", place, err, want)
			}
		}
		d, err := tree.NewDraft(r, "/to")
		must(t, err)
		draftFile(t, d, "file")
		must(t, os.Mkdir(filepath.Join(dir, "to"), 0o755))
		if err := d.Place(t.Context(), true); fserr.CodeOf(err) != fserr.EEXIST {
			t.Errorf("placed over a directory that appeared: %v, want EEXIST", err)
		}
		must(t, d.Drop(t.Context()))
		if left := snapshot(t, dir); len(left) != 4 {
			t.Errorf("left: %q", left)
		}
	})
}
