package contexts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// manyChanges is more than a driver copies when it could freeze.
const manyChanges = 100

// newSharing is newOverlaid with a Manager and the context ctx_a, for root alone.
func newSharing(t *testing.T) (*workspace, *Manager) {
	t.Helper()
	if namespacestest.Inside() {
		t.Skip("overlay-userns makes no parts")
	}
	w := newOverlaid(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	return w, m
}

// changeMany changes so much that a fork freezes it: it writes, deletes, replaces and renames.
func changeMany(t *testing.T, m *Manager, id ID, round int) {
	t.Helper()
	a, err := m.Acquire(t.Context(), id, Write)
	must(t, err)
	defer a.Release()
	for i := range manyChanges {
		f, err := a.Root.OpenFile(fmt.Sprintf("app/new%d-%d", round, i), rootfs.O_WRONLY|rootfs.O_CREAT, 0o640)
		must(t, err)
		_, err = f.WriteAt(fmt.Append(nil, "round ", round), 0)
		must(t, err)
		must(t, f.Close())
	}
	switch round {
	case 0:
		must(t, a.Root.Rename("app/d1", "app/moved"))
		must(t, a.Root.Unlink("app/d2/f2.txt"))
		_, err = a.Root.RemoveAll(t.Context(), "app/d3")
		must(t, err)
		must(t, a.Root.Mkdir("app/d3", 0o750))
	case 1:
		must(t, a.Root.Rename("app/moved", "app/moved again"))
		must(t, a.Root.Unlink("app/new0-1"))
		must(t, a.Root.Link("app/new0-2", "app/link"))
	case 2:
		must(t, a.Root.Rename("app/moved again/f1.txt", "app/d3/f1.txt"))
		_, err = a.Root.RemoveAll(t.Context(), "app/d4")
		must(t, err)
	}
}

func (w *workspace) wantParts(what string, want int) {
	w.t.Helper()
	entries, err := os.ReadDir(w.parts())
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	if len(entries) != want {
		w.t.Errorf("%s: %d parts, want %d", what, len(entries), want)
	}
}

// forkFreezing forks until there are so many parts: the sandboxes of other tests hold a copy of all mounts for a moment, in which a fork copies.
func (w *workspace) forkFreezing(m *Manager, from, to ID, want int) {
	w.t.Helper()
	for range 20 {
		fork(w.t, m, from, to)
		if entries, err := os.ReadDir(w.parts()); err == nil && len(entries) == want {
			return
		}
		_, err := m.Delete(w.t.Context(), to, nil)
		must(w.t, err)
	}
	w.t.Fatalf("no fork of %s made part %d", from, want)
}

// TestForkFreezes checks that forks, snapshots and restores share what was changed, and then differ.
func TestForkFreezes(t *testing.T) {
	w, m := newSharing(t)
	var forks []ID
	var want []map[string]string
	before, err := m.Get(t.Context(), "ctx_a")
	must(t, err)
	for round := range 3 {
		changeMany(t, m, "ctx_a", round)
		want = append(want, treeOf(t, w.folder("ctx_a")))
		id := ID(fmt.Sprint("ctx_fork", round))
		w.forkFreezing(m, "ctx_a", id, round+1)
		forks = append(forks, id)
		sameTree(t, treeOf(t, w.folder("ctx_a")), want[round])
		if use, err := m.Sizes(t.Context(), id); err != nil || use.Own > 256<<10 {
			t.Errorf("a fork takes %+v, %v", use, err)
		}
	}
	if after, err := m.Get(t.Context(), "ctx_a"); err != nil || after.Generation != before.Generation {
		t.Errorf("the forks made the generation %d of %d, %v", after.Generation, before.Generation, err)
	}
	put(t, m, "ctx_a", "app/new0-3", "the parent's")
	put(t, m, "ctx_fork1", "app/new0-3", "the fork's")
	put(t, m, "ctx_fork1", "app/link", "through one name")
	wantFile(t, m, "ctx_fork1", "app/new0-2", "through one name")
	wantFile(t, m, "ctx_fork0", "app/new0-3", "round 0")
	wantFile(t, m, "ctx_a", "app/new0-2", "round 0")
	must(t, m.Close())

	m = w.open()
	for i, id := range forks {
		ensure(t, m, id)
		if i != 1 {
			sameTree(t, treeOf(t, w.folder(id)), want[i])
		}
	}
	wantFile(t, m, "ctx_fork1", "app/new0-3", "the fork's")
	wantFile(t, m, "ctx_fork1", "app/new0-2", "through one name")
	for _, id := range append(forks, "ctx_a") {
		wantSwept(t, m)
		_, err := m.Delete(t.Context(), id, nil)
		must(t, err)
	}
	w.wantParts("after the deletion of all", 0)
}

// TestSnapshotFreezes checks that a snapshot keeps a part, shows it, and is restored with it.
func TestSnapshotFreezes(t *testing.T) {
	w, m := newSharing(t)
	changeMany(t, m, "ctx_a", 0)
	want := treeOf(t, w.folder("ctx_a"))
	_, err := m.Snapshot(t.Context(), "ctx_a", "s")
	must(t, err)
	w.wantParts("after the snapshot", 1)
	put(t, m, "ctx_a", "app/new0-3", "later")
	v, err := m.ViewSnapshot(t.Context(), "ctx_a", "s")
	must(t, err)
	changed, err := v.Origin.Changed(t.Context())
	must(t, err)
	for _, name := range []string{"app/d2/f2.txt", "app/d1", "app/moved", "app/d3", "app/new0-3"} {
		if !slices.Contains(changed, name) {
			t.Errorf("%s is not among the candidates", name)
		}
	}
	if _, err := v.Root.Lstat("app/moved/f1.txt"); err != nil {
		t.Errorf("the view of the snapshot lacks what was renamed: %v", err)
	}
	must(t, v.Root.Close())
	_, err = m.Restore(t.Context(), "ctx_a", "s", nil)
	must(t, err)
	sameTree(t, treeOf(t, w.folder("ctx_a")), want)
	_, err = m.CollectGarbage(t.Context(), GarbageOptions{})
	must(t, err)
	w.wantParts("after a collection", 1)
	must(t, m.DeleteSnapshot(t.Context(), "ctx_a", "s"))
	sameTree(t, treeOf(t, w.folder("ctx_a")), want)
	w.wantParts("while the context shows it", 1)
	_, err = m.Delete(t.Context(), "ctx_a", nil)
	must(t, err)
	w.wantParts("after the deletion", 0)
}

// TestForkOfAContextInUse checks that whatever is open in a context stays so: its changes are copied then.
func TestForkOfAContextInUse(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(t *testing.T, w *workspace, m *Manager) (check func())
	}{
		{"a handle", func(t *testing.T, _ *workspace, m *Manager) func() {
			f := open(t, m, "ctx_a", "app/new0-0")
			return func() {
				_, err := f.WriteAt([]byte("R"), 0)
				must(t, err)
				must(t, f.Close())
				wantFile(t, m, "ctx_a", "app/new0-0", "Round 0")
			}
		}},
		{"an operation", func(t *testing.T, _ *workspace, m *Manager) func() {
			a, err := m.Acquire(t.Context(), "ctx_a", Read)
			must(t, err)
			return func() {
				if a.Closing().Err() != nil {
					t.Error("the operation was asked to end")
				}
				_, err := a.Root.Lstat("app/new0-0")
				must(t, err)
				a.Release()
			}
		}},
		{"a watch", func(t *testing.T, _ *workspace, m *Manager) func() {
			a, err := m.Acquire(t.Context(), "ctx_a", Read)
			must(t, err)
			seen, err := a.Root.Watch("app", watch.Options{Recursive: true})
			must(t, err)
			a.Release()
			return func() {
				put(t, m, "ctx_a", "app/later", "1")
				if e, ok := <-seen.Events(); !ok || e.Name != "later" {
					t.Errorf("the watch reports %+v, %v", e, ok)
				}
				must(t, seen.Close())
			}
		}},
		{"a program", func(t *testing.T, w *workspace, _ *Manager) func() {
			f, err := os.Open(filepath.Join(w.folder("ctx_a"), "app"))
			must(t, err)
			return func() {
				_, err := f.Readdirnames(-1)
				must(t, err)
				must(t, f.Close())
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, m := newSharing(t)
			changeMany(t, m, "ctx_a", 0)
			want := treeOf(t, w.folder("ctx_a"))
			check := c.use(t, w, m)
			fork(t, m, "ctx_a", "ctx_b")
			w.wantParts("after the fork", 0)
			check()
			sameTree(t, treeOf(t, w.folder("ctx_b")), want)
		})
	}
}

// TestManyForksShareOneCopy forks a context that is in use many times at once, while a writer writes.
func TestManyForksShareOneCopy(t *testing.T) {
	w, m := newSharing(t)
	changeMany(t, m, "ctx_a", 0)
	held := open(t, m, "ctx_a", "app/new0-0")
	writers, stop := startWriters(t, m, "ctx_a", 1)
	const forks = 20
	var wg sync.WaitGroup
	errs := make([]error, forks)
	for i := range forks {
		wg.Go(func() { _, errs[i] = m.Fork(t.Context(), "ctx_a", ID(fmt.Sprint("ctx_fork", i)), EnsureOptions{}) })
	}
	wg.Wait()
	stop()
	must(t, errors.Join(errs...))
	must(t, held.Close())
	entries, err := os.ReadDir(w.parts())
	must(t, err)
	if n := len(entries); n == 0 || n > forks/4 {
		t.Errorf("%d forks made %d copies", forks, n)
	}
	for i := range forks {
		folder := w.folder(ID(fmt.Sprint("ctx_fork", i)))
		writers[0].wantOneMoment(t, folder)
		if _, err := os.Lstat(filepath.Join(folder, "app/moved/f1.txt")); err != nil {
			t.Error(err)
		}
	}
}

// TestKillInAFreeze kills the server before and after a context takes its part into use.
func TestKillInAFreeze(t *testing.T) {
	for phase, parts := range map[string]int{"part-made": 0, "frozen": 1, "forked": 1, "fork-renamed": 1} {
		t.Run(phase, func(t *testing.T) {
			if namespacestest.Inside() {
				t.Skip("overlay-userns makes no parts")
			}
			w := newOverlaid(t)
			w.sqlite()
			m := w.open()
			ensure(t, m, "ctx_a")
			changeMany(t, m, "ctx_a", 0)
			want := treeOf(t, w.folder("ctx_a"))
			must(t, m.Close())
			w.killAt("ctx_a", phase)
			m = w.open()
			ensure(t, m, "ctx_a")
			sameTree(t, treeOf(t, w.folder("ctx_a")), want)
			_, err := m.CollectGarbage(t.Context(), GarbageOptions{})
			must(t, err)
			w.wantParts("after a collection", parts)
			sameTree(t, treeOf(t, w.folder("ctx_a")), want)
			if info, err := m.Get(t.Context(), "ctx_a-fork"); err != nil || (info.State == StateReady) != (phase == "fork-renamed") {
				t.Errorf("the fork is %s, %v", info.State, err)
			}
			put(t, m, "ctx_a", "app/later", "1")
			fork(t, m, "ctx_a", "ctx_b")
			wantFile(t, m, "ctx_b", "app/later", "1")
		})
	}
}

// TestForkKeepsHardLinks checks that changes stay where they are if the names of a file of the layer, or of a part, would come apart.
func TestForkKeepsHardLinks(t *testing.T) {
	if namespacestest.Inside() {
		t.Skip("overlay-userns makes no parts")
	}
	w := newOverlaid(t)
	w.write("app/one", "1")
	must(t, os.Link(filepath.Join(w.dir, "app/one"), filepath.Join(w.dir, "app/two")))
	m := w.open()
	ensure(t, m, "ctx_a")
	changeMany(t, m, "ctx_a", 0)
	put(t, m, "ctx_a", "app/one", "of the layer")
	fork(t, m, "ctx_a", "ctx_b")
	w.wantParts("with an index", 0)
	wantFile(t, m, "ctx_b", "app/two", "of the layer")

	ensure(t, m, "ctx_c")
	changeMany(t, m, "ctx_c", 0)
	a, err := m.Acquire(t.Context(), "ctx_c", Write)
	must(t, err)
	must(t, a.Root.Link("app/new0-5", "app/linked"))
	a.Release()
	w.forkFreezing(m, "ctx_c", "ctx_d", 1)
	changeMany(t, m, "ctx_c", 3)
	put(t, m, "ctx_c", "app/new0-5", "of a part")
	fork(t, m, "ctx_c", "ctx_e")
	w.wantParts("with an index above a part", 1)
	wantFile(t, m, "ctx_e", "app/linked", "of a part")
	wantFile(t, m, "ctx_d", "app/linked", "round 0")
}

// TestForkOfManyForks checks the bound of the parts below a context.
func TestForkOfManyForks(t *testing.T) {
	const maxParts = 12
	w, m := newSharing(t)
	for round := range maxParts + 2 {
		changeMany(t, m, "ctx_a", 3+round)
		w.forkFreezing(m, "ctx_a", ID(fmt.Sprint("ctx_fork", round)), min(round+1, maxParts))
	}
	must(t, m.Close())
	m = w.open()
	last := ID(fmt.Sprint("ctx_fork", maxParts+1))
	for _, name := range []string{"app/new3-7", "app/new10-7", "app/new16-7"} {
		wantFile(t, m, last, name, "round "+name[len("app/new"):len(name)-len("-7")])
	}
}

// TestPartsFromABackup restores contexts with their parts: under other inodes, then without their extended attributes.
func TestPartsFromABackup(t *testing.T) {
	w, m := newSharing(t)
	changeMany(t, m, "ctx_a", 0)
	w.forkFreezing(m, "ctx_a", "ctx_b", 1)
	changeMany(t, m, "ctx_a", 1)
	want := treeOf(t, w.folder("ctx_a"))
	must(t, m.Close())
	contexts, old := filepath.Join(w.dir, ".contexts"), filepath.Join(w.dir, "old")
	must(t, os.Rename(contexts, old))
	if out, err := exec.Command("cp", "-a", old, contexts).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	m = w.open()
	ensure(t, m, "ctx_a")
	sameTree(t, treeOf(t, w.folder("ctx_a")), want)
	must(t, m.Close())

	parts, err := os.ReadDir(w.parts())
	must(t, err)
	for _, e := range parts {
		must(t, unix.Lremovexattr(filepath.Join(w.parts(), e.Name(), "kept"), "trusted.ctxfs.kept"))
	}
	m = w.open()
	_, err = m.Acquire(t.Context(), "ctx_b", Read)
	wantCode(t, err, fserr.EIO, "extended attributes")
	r, err := m.Repair(t.Context())
	must(t, err)
	if !slices.Contains(r.Accepted, "ctx_a") && !slices.Contains(r.Accepted, "ctx_b") {
		t.Errorf("accepted %v", r.Accepted)
	}
	wantFile(t, m, "ctx_b", "app/new0-3", "round 0")

	must(t, m.Close())
	must(t, os.RemoveAll(filepath.Join(w.parts(), parts[0].Name())))
	m = w.open()
	_, err = m.Acquire(t.Context(), "ctx_b", Read)
	wantCode(t, err, fserr.EIO, "a part of what the context holds is gone")
}
