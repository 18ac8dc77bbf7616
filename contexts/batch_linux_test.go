package contexts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// batchPhases are those of a batch.
var batchPhases = []string{"batch-journal", "batch-staged", "batch-recorded", "batch-begin", "batch-checked", "batch-done", "batch-finished", "batch-cleaned"}

// TestBatchIsWholeAfterKills kills a process at each phase of a batch, and looks at the context through another one: the batch was carried
// out, or nothing of it.
func TestBatchIsWholeAfterKills(t *testing.T) {
	t.Parallel()
	if !namespacestest.Inside() {
		t.Run("copy", func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			w.fill("app", 60)
			w.repo("app")
			killBatches(t, w)
		})
	}
	t.Run("overlay", func(t *testing.T) {
		t.Parallel()
		killBatches(t, newOverlaid(t))
	})
}

func killBatches(t *testing.T, w *workspace) {
	w.sqlite()
	m := w.open()
	ensure(t, m, "ctx_whole")
	before := contentsOf(t, w.folder("ctx_whole"))
	must(t, runBatch(m, "ctx_whole"))
	after := contentsOf(t, w.folder("ctx_whole"))
	for _, phase := range batchPhases {
		ensure(t, m, ID("ctx_"+phase))
	}
	must(t, m.Close())
	for _, phase := range batchPhases {
		w.killAt(ID("ctx_"+phase), phase)
	}
	m = w.open()
	for _, phase := range batchPhases {
		id := ID("ctx_" + phase)
		a, err := m.Acquire(t.Context(), id, Read)
		must(t, err)
		a.Release()
		want := before
		if phase == "batch-finished" || phase == "batch-cleaned" {
			want = after
		}
		if diff := cmp.Diff(want, contentsOf(t, w.folder(id))); diff != "" {
			t.Errorf("killed at %s: %s", phase, diff)
		}
		if batch.Pending(m.cat.Layout.Batch(id)) {
			t.Errorf("killed at %s: the journal is left", phase)
		}
		if err := runBatch(m, id); (err == nil) != (phase != "batch-finished" && phase != "batch-cleaned") {
			t.Errorf("killed at %s: the batch again: %v", phase, err)
		}
	}
}

// TestBatchThatCannotBeUndone has a mount where a batch was interrupted. Each remedy that the error names makes the context usable.
func TestBatchThatCannotBeUndone(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.fill("app", 60)
	w.repo("app")
	w.sqlite()
	remedies := map[ID]func(m *Manager, at string) error{
		"ctx_retry": func(_ *Manager, at string) error { return unix.Unmount(at, 0) },
		"ctx_restore": func(m *Manager, _ string) error {
			_, err := m.Restore(t.Context(), "ctx_restore", "s", nil)
			return err
		},
		"ctx_delete": func(m *Manager, at string) error {
			must(t, unix.Unmount(at, 0)) // nothing removes a mount
			_, err := m.Delete(t.Context(), "ctx_delete", nil)
			ensure(t, m, "ctx_delete")
			return err
		},
		"ctx_repair": func(m *Manager, _ string) error {
			r, err := m.Repair(t.Context())
			if len(r.GaveUp) != 1 || !strings.HasPrefix(r.GaveUp[0], "ctx_repair has a batch that is half made; what could not be put back is in /ctxfs-batch-") {
				t.Errorf("repaired %+v", r)
			}
			return err
		},
	}
	m := w.open()
	for id := range remedies {
		ensure(t, m, id)
		_, err := m.Snapshot(t.Context(), id, "s")
		must(t, err)
	}
	must(t, m.Close())
	for id := range remedies {
		w.killAt(id, "batch-done") // app/d1 has become app/moved
	}
	m = w.open()
	t.Cleanup(func() { unmountBelow(t, w.dir) })
	for _, id := range []ID{"ctx_retry", "ctx_restore", "ctx_delete", "ctx_repair"} { // Repair ends the batches of all contexts
		remedy := remedies[id]
		at := filepath.Join(w.folder(id), "app/moved")
		if err := unix.Mount("batch", at, "tmpfs", 0, "size=64k"); err != nil {
			t.Skip("not tested here: a mount needs root: ", err)
		}
		_, err := m.Acquire(t.Context(), id, Read)
		wantCode(t, err, fserr.EBUSY, string(id), "could not be undone", "such as a mount", "restore a snapshot", "ctxfs doctor --repair")
		if err := remedy(m, at); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		a, err := m.Acquire(t.Context(), id, Write)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		a.Release()
		if batch.Pending(m.cat.Layout.Batch(id)) {
			t.Errorf("%s: the journal is left", id)
		}
	}
}

// unmountBelow ends the mounts below a directory, wherever what they are on was moved to.
func unmountBelow(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, dir+"/") {
			must(t, unix.Unmount(at, unix.MNT_DETACH))
		}
	}
}

// contentsOf maps the names below a directory to their types, modes and contents.
func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case st.Mode().IsRegular():
			data, rerr := os.ReadFile(p)
			text, err = string(data), rerr
		case st.Mode()&os.ModeSymlink != 0:
			text, err = os.Readlink(p)
		}
		rel, _ := filepath.Rel(dir, p)
		out[rel] = st.Mode().String() + " " + text
		return err
	}))
	return out
}

// TestBatchInZones has steps in two zones of one context, and steps that zones refuse.
func TestBatchInZones(t *testing.T) {
	t.Parallel()
	m := twoRepositories(t).open()
	zoned(t, m, "ctx_a", zones.Sandboxed, zones.Zone{Path: "/workspace", From: []string{zones.Repositories}},
		zones.Zone{Path: "/cache", NeverCommit: true, MaxBytes: 64 << 10}, zones.Zone{Path: "/docs", ReadOnly: true})
	run := func(steps ...batch.Step) error {
		_, err := m.Batch(t.Context(), "ctx_a", BatchOptions{Steps: func(*Access) ([]batch.Step, error) { return steps, nil }})
		return err
	}
	must(t, run(
		batch.Step{Kind: batch.Write, Path: "/cache/a", Data: []byte("a"), Mode: 0o644}, batch.Step{Kind: batch.Copy, Path: "/cache/a", Dest: "/workspace/b"},
		batch.Step{Kind: batch.Symlink, Target: "/workspace/b", Path: "/cache/l"}, batch.Step{Kind: batch.Write, Path: "/cache/l", Data: []byte("by the link"), Mode: 0o644},
	))
	before := contentsOf(t, m.cat.Layout.Folder("ctx_a"))
	if before["workspace/b"] != "-rw-r--r-- by the link" {
		t.Errorf("the file that the link leads to: %q", before["workspace/b"])
	}
	first := batch.Step{Kind: batch.Write, Path: "/cache/a", Data: []byte("never"), Mode: 0o644}
	for what, c := range map[string]struct {
		step batch.Step
		want fserr.Code
	}{
		"a rename to another zone": {batch.Step{Kind: batch.Rename, Path: "/cache/a", Dest: "/workspace/a"}, fserr.EXDEV},
		"a file beside the zones":  {batch.Step{Kind: batch.Write, Path: "/new"}, fserr.EACCES},
		"a read-only zone":         {batch.Step{Kind: batch.Write, Path: "/docs/new"}, fserr.EROFS},
		"a zone":                   {batch.Step{Kind: batch.Remove, Path: "/cache", Recursive: true}, fserr.EBUSY},
		"more than a zone may have": {
			batch.Step{Kind: batch.Write, Path: "/cache/large", Data: make([]byte, 128<<10)}, fserr.EDQUOT,
		},
	} {
		wantErrno(t, what, run(first, c.step), c.want)
		if diff := cmp.Diff(before, contentsOf(t, m.cat.Layout.Folder("ctx_a"))); diff != "" {
			t.Errorf("%s: changed\n%s", what, diff)
		}
	}
}
