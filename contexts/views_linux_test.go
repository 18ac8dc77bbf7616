package contexts

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// wantIn checks what a file of an open context or snapshot has.
func wantIn(t *testing.T, a *Access, name, want string) {
	t.Helper()
	f, err := a.Root.OpenFile(name, rootfs.O_RDONLY, 0)
	if want == "" {
		wantCode(t, err, fserr.ENOENT, "")
		return
	}
	must(t, err)
	defer func() { must(t, f.Close()) }()
	got := make([]byte, 100)
	n, err := f.ReadAt(got, 0)
	if !errors.Is(err, io.EOF) || string(got[:n]) != want {
		t.Errorf("%s has %q (%v), want %q", name, got[:n], err, want)
	}
}

// TestSnapshotIsReadWhileItsContextChanges checks that neither edits nor a restore, a fork or a restart change what a snapshot shows, and that
// it is gone with its deletion.
func TestSnapshotIsReadWhileItsContextChanges(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		put(t, m, "ctx_a", "app/d1/f1.txt", "first")
		one, err := m.Snapshot(t.Context(), "ctx_a", "one")
		must(t, err)
		taken := one.TakenAt.UnixNano()
		put(t, m, "ctx_a", "app/d1/f1.txt", "second")
		put(t, m, "ctx_a", "app/new", "second")
		two, err := m.Snapshot(t.Context(), "ctx_a", "two")
		must(t, err)
		read := func() *Access {
			t.Helper()
			a, err := m.AcquireSnapshot(t.Context(), "ctx_a", "one", taken)
			must(t, err)
			if a.Generation != uint64(taken) {
				t.Errorf("its generation is %d, want %d", a.Generation, taken)
			}
			wantIn(t, a, "app/d1/f1.txt", "first")
			wantIn(t, a, "app/d1/f21.txt", "content 21")
			wantIn(t, a, "app/new", "")
			return a
		}
		kept := read()
		_, err = m.Restore(t.Context(), "ctx_a", "two", nil)
		must(t, err)
		fork(t, m, "ctx_a", "ctx_b")
		put(t, m, "ctx_a", "app/d1/f1.txt", "third")
		read().Release()
		other, err := m.AcquireSnapshot(t.Context(), "ctx_a", "two", two.TakenAt.UnixNano())
		must(t, err)
		wantIn(t, other, "app/new", "second")
		other.Release()
		_, err = m.AcquireSnapshot(t.Context(), "ctx_a", "one", two.TakenAt.UnixNano())
		wantCode(t, err, fserr.ENOENT, `no snapshot "one"`)
		kept.Release()

		must(t, m.Close())
		_, err = m.AcquireSnapshot(t.Context(), "ctx_a", "one", taken)
		wantCode(t, err, fserr.ECANCELED, "stopping")
		m = w.open()
		kept = read()
		must(t, m.DeleteSnapshot(t.Context(), "ctx_a", "one"))
		if _, err := os.Lstat(filepath.Join(w.dir, ".contexts/.ctxfs/snapshots/ctx_a/one")); err == nil {
			t.Error("the snapshot is still on disk")
		}
		kept.Release()
		_, err = m.Snapshot(t.Context(), "ctx_a", "one")
		must(t, err)
		_, err = m.AcquireSnapshot(t.Context(), "ctx_a", "one", taken)
		wantCode(t, err, fserr.ENOENT, `no snapshot "one"`)

		other, err = m.AcquireSnapshot(t.Context(), "ctx_a", "two", two.TakenAt.UnixNano())
		must(t, err)
		_, err = m.Delete(t.Context(), "ctx_a", nil)
		must(t, err)
		other.Release()
		_, err = m.AcquireSnapshot(t.Context(), "ctx_a", "two", two.TakenAt.UnixNano())
		wantCode(t, err, fserr.ESTALE, "ctx_a")
		wantSwept(t, m)
	})
}

// TestSnapshotOfAContextThatStartedEmpty checks that a snapshot needs no layer.
func TestSnapshotOfAContextThatStartedEmpty(t *testing.T) {
	eachDriver(t, func(t *testing.T, _ *workspace, m *Manager) {
		const id = "unsafe_noctx_a"
		ensure(t, m, id)
		put(t, m, id, "f", "mine")
		s, err := m.Snapshot(t.Context(), id, "s")
		must(t, err)
		put(t, m, id, "f", "later")
		a, err := m.AcquireSnapshot(t.Context(), id, "s", s.TakenAt.UnixNano())
		must(t, err)
		wantIn(t, a, "f", "mine")
		a.Release()
		v, err := m.ViewSnapshot(t.Context(), id, "s")
		must(t, err)
		must(t, v.Root.Close())
	})
}

// TestSnapshotThatAnotherProcessDeleted checks that a snapshot which is open is looked for again.
func TestSnapshotThatAnotherProcessDeleted(t *testing.T) {
	w := newWorkspace(t)
	w.fill("app", 1)
	w.repo("app")
	m, other := w.open(), w.open()
	ensure(t, m, "ctx_a")
	s, err := m.Snapshot(t.Context(), "ctx_a", "s")
	must(t, err)
	read := func() error {
		a, err := m.AcquireSnapshot(t.Context(), "ctx_a", "s", s.TakenAt.UnixNano())
		if err == nil {
			a.Release()
		}
		return err
	}
	must(t, read())
	must(t, other.DeleteSnapshot(t.Context(), "ctx_a", "s"))
	clocktest.Await(t, "the snapshot is not open any more", func() bool { return read() != nil })
	wantCode(t, read(), fserr.ENOENT, `no snapshot "s"`)
}
