package contexts

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLocksOfContextsThatAreGone leaves the files that a killed server leaves, for a context that exists and for one that is gone.
func TestLocksOfContextsThatAreGone(t *testing.T) {
	t.Parallel()
	w := small(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	lock := func(name string) string { return filepath.Join(m.cat.Layout.Locks, name) }
	leave := func() {
		t.Helper()
		for _, name := range []string{"ctx_a" + markSuffix, "ctx_gone" + markSuffix, "ctx_gone" + lockSuffix} {
			must(t, os.WriteFile(lock(name), nil, 0o600))
		}
	}
	check := func(what string) {
		t.Helper()
		if left, err := filepath.Glob(lock("ctx_gone*")); err != nil || len(left) != 0 {
			t.Errorf("after %s there are %v, %v", what, left, err)
		}
		if _, err := os.Lstat(lock("ctx_a" + markSuffix)); err != nil {
			t.Errorf("after %s the mark of a context that is there is gone: %v", what, err)
		}
	}
	leave()
	_, err := m.CollectGarbage(t.Context(), GarbageOptions{})
	must(t, err)
	check("a collection")
	must(t, m.Close())
	leave()
	m = w.open()
	check("a start")
	touch(t, m, "ctx_a")
	_, err = m.Delete(t.Context(), "ctx_a", nil)
	must(t, err)
	_, err = m.Delete(t.Context(), "ctx_none", nil) // which takes a lock too
	if err == nil {
		t.Error("deleted what is not there")
	}
	if left, err := filepath.Glob(lock("ctx_*")); err != nil || len(left) != 0 {
		t.Errorf("after a deletion there are %v, %v", left, err)
	}
}
