package contexts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
)

// TestLockOfARemovedFileDoesNotCount: it does not exclude a process that locks the new file of that name.
func TestLockOfARemovedFileDoesNotCount(t *testing.T) {
	l := locks{dir: t.TempDir()}
	f := l.file(contextLock("ctx_a"))
	if ok, err := f.TryLock(); err != nil || !ok || !hasName(f) {
		t.Fatalf("locked: %t, %v", ok, err)
	}
	defer func() { must(t, f.Close()) }()
	must(t, os.Remove(f.Path()))
	if hasName(f) {
		t.Error("the lock of a file without name counts")
	}
	release, err := l.context(t.Context(), "ctx_a", func() { t.Error("the new file is locked") })
	must(t, err)
	defer release()
	if hasName(f) {
		t.Error("the lock of the old file counts for the new one")
	}
	// named opens the file anew as long as what it locked has lost its name.
	opened := 0
	again, err := named(t.Context(), func() *flock.Flock {
		opened++
		f := l.file("other")
		if opened == 1 {
			_, err := f.TryLock()
			must(t, err)
			must(t, os.Remove(f.Path()))
		}
		return f
	}, func() { t.Error("nobody has it") })
	must(t, err)
	again()
	if opened != 2 {
		t.Errorf("opened %d times", opened)
	}
}

// TestLocksOfContextsThatAreGone leaves the files that a killed server leaves, for a context that exists and for one that is gone.
func TestLocksOfContextsThatAreGone(t *testing.T) {
	w := small(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	leave := func() {
		t.Helper()
		for _, name := range []string{"ctx_a" + usingSuffix, "ctx_gone" + usingSuffix, contextLock("ctx_gone")} {
			must(t, os.WriteFile(m.locks.path(name), nil, 0o600))
		}
	}
	check := func(what string) {
		t.Helper()
		if left, err := filepath.Glob(m.locks.path("ctx_gone*")); err != nil || len(left) != 0 {
			t.Errorf("after %s there are %v, %v", what, left, err)
		}
		if _, err := os.Lstat(m.locks.path("ctx_a" + usingSuffix)); err != nil {
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
	_, err = m.Delete(t.Context(), "ctx_a")
	must(t, err)
	_, err = m.Delete(t.Context(), "ctx_none") // which takes a lock too
	if err == nil {
		t.Error("deleted what is not there")
	}
	if left, err := filepath.Glob(m.locks.path("ctx_*")); err != nil || len(left) != 0 {
		t.Errorf("after a deletion there are %v, %v", left, err)
	}
}
