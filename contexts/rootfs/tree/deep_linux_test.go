package tree_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/roottest"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// TestTreesDeeperThanAPath copies, walks and removes what no path can name, with few descriptors.
func TestTreesDeeperThanAPath(t *testing.T) {
	for _, c := range []struct {
		name  string
		depth int
	}{{strings.Repeat("n", 200), 3000}, {"d", 20_000}} {
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
