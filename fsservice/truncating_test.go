package fsservice

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// newCall returns a call on /file, which holds "old".
func newCall(t *testing.T) (*call, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := rootfs.Open(dir, rootfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return &call{Context: t.Context(), root: root, generation: 1, locks: &fileLocks{}, path: "/file"}, file
}

// wantSize checks the size of a file.
func wantSize(t *testing.T, file string, want int64) {
	t.Helper()
	if st, err := os.Stat(file); err != nil || st.Size() != want {
		t.Errorf("the file is %v (%v), want %d bytes", st, err, want)
	}
}

// TestOpenTruncatesUnderTheLock opens a file with flag w while a call that checked a condition has the file to itself.
func TestOpenTruncatesUnderTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, file := newCall(t)
		st, err := c.root.Stat("/file")
		if err != nil {
			t.Fatal(err)
		}
		conditional, err := c.locks.lock(c, c.id.Context, st, writes)
		if err != nil {
			t.Fatal(err)
		}
		opened := make(chan error)
		go func() {
			f, _, err := c.openIf(openFlags{rootfs.O_WRONLY | rootfs.O_CREAT | rootfs.O_TRUNC, "w"}, 0o644, condition{})
			if err == nil {
				err = f.Close()
			}
			opened <- err
		}()
		synctest.Wait()
		wantSize(t, file, 3)
		conditional.unlock()
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
		wantSize(t, file, 0)
	})
}

// TestSourceOfAConditionalCopyIsNotReplaced has a call wait that replaces the source of a copy whose condition was checked.
func TestSourceOfAConditionalCopyIsNotReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCall(t)
		unlock, err := c.lockSource(condition{match: c.etag("/file", true)})
		if err != nil {
			t.Fatal(err)
		}
		replaced := make(chan error, 1)
		go func() {
			unlock, err := c.guard(target{path: "/file"})
			if err == nil {
				unlock()
			}
			replaced <- err
		}()
		synctest.Wait()
		if len(replaced) != 0 {
			t.Error("the source can be replaced")
		}
		unlock()
		if err := <-replaced; err != nil {
			t.Error(err)
		}
	})
}
