package contexts

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/internal/long"
)

// deep is how many directories are below one another, each with a name of 200 bytes: a path names 20 of them.
var deep = long.Of(300, 1500)

// deepTree makes, in a context, a directory "deep" with such directories, as a panel can by renames.
func deepTree(t *testing.T, folder string) {
	t.Helper()
	must(t, unix.Mkdir(folder+"/deep", 0o755))
	fd, err := unix.Open(folder+"/deep", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	name := strings.Repeat("n", 200)
	for range deep {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(fd))
		fd = next
	}
	must(t, unix.Close(fd))
}

// TestContextDeeperThanAPath does with such a context all that is done with one.
func TestContextDeeperThanAPath(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		put(t, m, "ctx_a", "app/new", "new")
		deepTree(t, w.folder("ctx_a"))
		count := func(id ID) (n int) {
			a, err := m.Acquire(t.Context(), id, Read)
			must(t, err)
			defer a.Release()
			must(t, a.Root.Walk(t.Context(), "deep", tree.WalkOptions{Deep: true}, func(_ string, _ rootfs.Entry, err error) error {
				n++
				return err
			}))
			return n
		}
		if _, err := m.Sizes(t.Context(), "ctx_a"); err != nil {
			t.Errorf("sizes: %v", err)
		}
		fork(t, m, "ctx_a", "ctx_b")
		if n := count("ctx_b"); n != deep {
			t.Errorf("the fork has %d of %d directories", n, deep)
		}
		_, err := m.Snapshot(t.Context(), "ctx_a", "s")
		must(t, err)
		put(t, m, "ctx_a", "app/new", "newer")
		_, err = m.Restore(t.Context(), "ctx_a", "s", nil)
		must(t, err)
		wantFile(t, m, "ctx_a", "app/new", "new")
		if n := count("ctx_a"); n != deep {
			t.Errorf("what was restored has %d of %d directories", n, deep)
		}
		for _, id := range []ID{"ctx_a", "ctx_b"} {
			if n, err := m.Delete(t.Context(), id, nil); err != nil || n.Entries < int64(deep) {
				t.Errorf("delete of %s: %+v, %v", id, n, err)
			}
		}
		wantSwept(t, m)
	})
}
