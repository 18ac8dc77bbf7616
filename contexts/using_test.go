package contexts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// TestWhatAKillLeftInAContextIsSwept leaves a reserved name in a context, as an atomic write does that was killed.
func TestWhatAKillLeftInAContextIsSwept(t *testing.T) {
	t.Parallel()
	left := rootfs.ReservedPrefix + "LEFT"
	for _, c := range []struct {
		name string
		// killed: the process that had the context open was killed. first: the next one never opened it.
		killed, first bool
		want          bool
	}{
		{"stopped in order", false, false, true},
		{"killed", true, false, false},
		{"killed, and not opened by the next", true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorkspace(t)
			w.fill("app", 20)
			w.repo("app")
			w.sqlite()
			if c.killed {
				m := w.open()
				ensure(t, m, "ctx_a")
				must(t, m.Close())
				w.killAt("ctx_a", stopHolding)
			} else {
				m := w.open()
				ensure(t, m, "ctx_a")
				touch(t, m, "ctx_a")
				must(t, m.Close())
			}
			path := filepath.Join(w.dir, ".contexts", "ctx_a", "app", "d1", left)
			must(t, os.WriteFile(path, []byte("half"), 0o600))
			if c.first {
				must(t, w.open().Close())
			}
			m := w.open()
			other := w.open() // which must not take the first one's for left
			touch(t, m, "ctx_a")
			if _, err := os.Lstat(path); (err == nil) != c.want {
				t.Errorf("it is there: %v, want %v", err == nil, c.want)
			}
			must(t, os.WriteFile(path, []byte("being written"), 0o600))
			touch(t, other, "ctx_a")
			if _, err := os.Lstat(path); err != nil {
				t.Error("another process took away what is being written")
			}
			must(t, other.Close())
			must(t, m.Close())
			marks, err := filepath.Glob(filepath.Join(m.cat.Layout.Locks, "*"+markSuffix))
			if err != nil || len(marks) != 0 {
				t.Errorf("after an orderly end the marks %v are there, %v", marks, err)
			}
		})
	}
}

// touch opens a context.
func touch(t *testing.T, m *Manager, id ID) {
	t.Helper()
	a, err := m.Acquire(t.Context(), id, Write)
	must(t, err)
	a.Release()
}
