package rootfs

import (
	"os"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestCommitAndAbortAtOnce lets one of the two win, whichever comes first.
func TestCommitAndAbortAtOnce(t *testing.T) {
	everywhere(t, func(w *world) {
		for range 200 {
			w.put("f", "content")
			a, err := w.CreateAtomic("f", 0o644, false)
			w.must(err)
			w.write(a, "whole")
			var committed, aborted error
			var both sync.WaitGroup
			both.Go(func() { committed = a.Commit(false) })
			both.Go(func() { aborted = a.Abort() })
			both.Wait()
			w.code(aborted, done)
			w.code(committed, done, fserr.EBADF)
			w.content("f", map[bool]string{true: "whole", false: "content"}[committed == nil])
		}
		w.tidy()
	})
}

// temporary is the attributes of the one temporary name in the tree's top.
func (w *world) temporary() os.FileInfo {
	w.Helper()
	list, err := os.ReadDir(w.dir)
	w.must(err)
	for _, e := range list {
		if Reserved(e.Name()) {
			info, err := e.Info()
			w.must(err)
			return info
		}
	}
	w.Fatal("there is no temporary name")
	return nil
}

// private checks that nobody else can read what is being written under a name.
func (w *world) private() {
	w.must(os.Chmod(w.host("f"), 0o600))
	for path, want := range map[string]uint32{"f": 0o600, "new": 0o640} {
		a, err := w.CreateAtomic(path, 0o644, false)
		w.must(err)
		w.write(a, "whole")
		w.equal(w.temporary().Mode().Perm(), os.FileMode(0o600))
		w.must(a.Chmod(0o6640))
		w.equal(w.temporary().Mode().Perm(), os.FileMode(0o600))
		st, err := a.Stat()
		w.must(err)
		w.equal(st.Perm(), uint32(0o640))
		w.must(a.Commit(false))
		w.content(path, "whole")
		w.mode(path, want)
	}
	w.must(replacing("ex", true)(w.Root))
	w.mode("ex", 0o644)
	w.tidy()
}
