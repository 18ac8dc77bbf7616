package contexts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestSnapshots(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		put(t, m, "ctx_a", "app/d1/f1.txt", "first")
		want := treeOf(t, w.folder("ctx_a"))
		s, err := m.Snapshot(t.Context(), "ctx_a", "one")
		must(t, err)
		if s.Name != "one" || s.TakenAt.IsZero() || s.Bytes == 0 {
			t.Errorf("took %+v", s)
		}
		put(t, m, "ctx_a", "app/d1/f1.txt", "second")
		put(t, m, "ctx_a", "app/d1/f2.txt", "second")
		second := treeOf(t, w.folder("ctx_a"))
		_, err = m.Snapshot(t.Context(), "ctx_a", "two")
		must(t, err)
		all, err := m.Snapshots(t.Context(), "ctx_a")
		if err != nil || len(all) != 2 || all[0].Name != "one" || all[1].Name != "two" {
			t.Errorf("snapshots are %+v, %v", all, err)
		}

		before, err := m.Acquire(t.Context(), "ctx_a", Read)
		must(t, err)
		generation := before.Generation
		before.Release()
		for _, c := range []struct {
			name string
			want map[string]string
		}{{"one", want}, {"two", second}, {"one", want}} {
			info, err := m.Restore(t.Context(), "ctx_a", c.name, nil)
			must(t, err)
			generation++
			if info.Generation != generation {
				t.Errorf("generation %d after a restore, want %d", info.Generation, generation)
			}
			sameTree(t, treeOf(t, w.folder("ctx_a")), c.want)
			after, err := m.Acquire(t.Context(), "ctx_a", Read)
			must(t, err)
			after.Release()
			if after.Generation != generation {
				t.Errorf("the gate has generation %d, want %d", after.Generation, generation)
			}
			put(t, m, "ctx_a", "app/d1/f3.txt", "lost")
		}

		// They outlive the server, and go with the context.
		must(t, m.Close())
		m = w.open()
		must(t, m.DeleteSnapshot(t.Context(), "ctx_a", "one"))
		_, err = m.Restore(t.Context(), "ctx_a", "one", nil)
		wantCode(t, err, fserr.ENOENT, `'ctx_a' has no snapshot "one"`)
		_, err = m.Restore(t.Context(), "ctx_a", "two", nil)
		must(t, err)
		_, err = m.Delete(t.Context(), "ctx_a", nil)
		must(t, err)
		ensure(t, m, "ctx_a")
		if all, err := m.Snapshots(t.Context(), "ctx_a"); err != nil || len(all) != 0 {
			t.Errorf("a new context has the snapshots %+v of an old one, %v", all, err)
		}
		wantSwept(t, m)
	})
}

func TestSnapshotRefuses(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	_, err := m.Snapshot(t.Context(), "ctx_a", "Taken")
	must(t, err)
	for _, c := range []struct {
		name string
		id   ID
		code fserr.Code
		says string
	}{
		{"taken", "ctx_a", fserr.EEXIST, `has a snapshot "Taken" already`},
		{"Taken", "ctx_none", fserr.ESTALE, "does not exist"},
		{"", "ctx_a", fserr.EINVAL, "bad name"},
		{"..", "ctx_a", fserr.EINVAL, "bad name"},
		{"../../../etc", "ctx_a", fserr.EINVAL, "bad name"},
		{"a/b", "ctx_a", fserr.EINVAL, "bad name"},
		{"nul\x00", "ctx_a", fserr.EINVAL, "bad name"},
		{strings.Repeat("n", 65), "ctx_a", fserr.EINVAL, "bad name"},
	} {
		_, err := m.Snapshot(t.Context(), c.id, c.name)
		wantCode(t, err, c.code, c.says)
	}
	for _, name := range []string{"none", "..", ""} {
		_, err := m.Restore(t.Context(), "ctx_a", name, nil)
		if err == nil {
			t.Errorf("%q was restored", name)
		}
		if err := m.DeleteSnapshot(t.Context(), "ctx_a", name); err == nil {
			t.Errorf("%q was deleted", name)
		}
	}
	must(t, os.WriteFile(filepath.Join(m.cat.Layout.Snapshot("ctx_a", "Taken"), snapshotFile), []byte("{"), 0o600))
	_, err = m.Restore(t.Context(), "ctx_a", "Taken", nil)
	wantCode(t, err, fserr.EIO, "damaged")
}

// TestRestoreWhileAClientWrites: every acknowledged write is in exactly the tree it was made to.
func TestRestoreWhileAClientWrites(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		writers, stop := startWriters(t, m, "ctx_a", 2)
		_, err := m.Snapshot(t.Context(), "ctx_a", "s")
		must(t, err)
		var last Info
		for range 4 {
			last, err = m.Restore(t.Context(), "ctx_a", "s", nil)
			must(t, err)
		}
		fork(t, m, "ctx_a", "ctx_b")
		stop()
		ensure(t, m, "ctx_a")
		got := make([][]int, len(writers))
		for i, wr := range writers {
			must(t, wr.err)
			got[i] = wr.numbers(t, w.folder("ctx_a"))
		}
		_, err = m.Restore(t.Context(), "ctx_a", "s", nil)
		must(t, err)
		ensure(t, m, "ctx_a")
		for i, wr := range writers {
			wr.wantOneMoment(t, w.folder("ctx_a"))
			kept := wr.numbers(t, w.folder("ctx_a"))
			for file, n := range got[i] {
				want := kept[file]
				if wr.made[file].generation == last.Generation {
					want = wr.made[file].n
				}
				if n != want {
					t.Errorf("%s/%d says %d, want %d: %+v was acknowledged, the snapshot has %d", wr.dir, file, n, want, wr.made[file], kept[file])
				}
			}
		}
	})
}

// TestKillDuringLife kills at each phase of a fork, a snapshot and a restore: each has happened or has not.
func TestKillDuringLife(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *workspace{"copy": newWorkspace, "overlay": newOverlaid} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.fill("app", 60)
			w.sqlite()
			for i, phase := range lifePhases {
				w.killDuringLife(ID(fmt.Sprintf("ctx_%d", i)), phase)
			}
		})
	}
}

func (w *workspace) killDuringLife(id ID, phase string) {
	t := w.t
	t.Helper()
	m := w.open()
	ensure(t, m, id)
	put(t, m, id, "kept", "in the snapshot")
	kept := treeOf(t, w.folder(id))
	_, err := m.Snapshot(t.Context(), id, "s")
	must(t, err)
	put(t, m, id, "kept", "changed since")
	changed := treeOf(t, w.folder(id))
	_, err = m.SetLabels(t.Context(), id, map[string]string{"owner": "ada"}, nil)
	must(t, err)
	must(t, m.Close())
	w.killAt(id, phase)

	m = w.open()
	want := changed
	if phase == "swapped" {
		want = kept
	}
	ensure(t, m, id)
	sameTree(t, treeOf(t, w.folder(id)), want)
	forked, err := m.Get(t.Context(), id+"-fork")
	must(t, err)
	if made := phase == "fork-renamed"; made != (forked.State == StateReady) {
		t.Errorf("killed at %s the fork is %s", phase, forked.State)
	} else if made {
		if e := ensure(t, m, id+"-fork"); e.Labels["owner"] != "ada" {
			t.Errorf("the fork has the labels %v", e.Labels)
		}
		sameTree(t, treeOf(t, w.folder(id+"-fork")), changed)
	}
	all, err := m.Snapshots(t.Context(), id)
	if err != nil || len(all) != 1 {
		t.Errorf("killed at %s there are the snapshots %+v, %v", phase, all, err)
	}
	_, err = m.Restore(t.Context(), id, "s", nil)
	must(t, err)
	ensure(t, m, id)
	sameTree(t, treeOf(t, w.folder(id)), kept)
	wantSwept(t, m)
	must(t, m.Close())
}

// A deletion that was cut short leaves a record. It must not become the record of a fork that takes the ID.
func TestKillOfAForkAfterAKillOfADeletion(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *workspace{"copy": newWorkspace, "overlay": newOverlaid} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.fill("app", 10)
			if name == "copy" {
				w.repo("app")
			}
			w.sqlite()
			m := w.open()
			ensure(t, m, "ctx_a-fork")
			must(t, m.Close())
			w.killAt("ctx_a-fork", "trashed")

			w.write("app/d1/f1.txt", "of a later layer")
			m = w.open()
			later := ensure(t, m, "ctx_a")
			want := treeOf(t, w.folder("ctx_a"))
			must(t, m.Close())
			w.killAt("ctx_a", "fork-renamed")

			m = w.open()
			fork := ensure(t, m, "ctx_a-fork")
			if fork.Seeded || fork.Layer != later.Layer || fork.ForkedFrom != "ctx_a" || fork.Generation < 2 {
				t.Errorf("the fork is %+v, want one of layer %s", fork, later.Layer)
			}
			sameTree(t, treeOf(t, w.folder("ctx_a-fork")), want)
			wantSwept(t, m)
		})
	}
}

// A fork over the record of a deletion that was cut short is killed before its folder is there. Its labels are not those of the context that is
// made later.
func TestKilledForkLeavesNoLabels(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.fill("app", 10)
	w.repo("app")
	w.sqlite()
	m := w.open()
	ensure(t, m, "ctx_a")
	ensure(t, m, "ctx_a-fork")
	_, err := m.SetLabels(t.Context(), "ctx_a", map[string]string{"task": "1204"}, nil)
	must(t, err)
	must(t, m.Close())
	w.killAt("ctx_a-fork", "trashed")
	w.killAt("ctx_a", "forked")
	m = w.open()
	if e := ensure(t, m, "ctx_a-fork"); len(e.Labels) > 0 || e.Generation < 2 {
		t.Errorf("the context that was made after the fork is %+v, want no labels and a later generation", e)
	}
	must(t, m.Close())
}
