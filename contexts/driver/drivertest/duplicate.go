package drivertest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
)

// duplicate makes and mounts a copy of m; m stays mounted.
func (m *made) duplicate() *made {
	m.t.Helper()
	dir := m.t.TempDir()
	c := &made{t: m.t, d: m.d, Place: driver.Place{Layer: m.Layer, State: filepath.Join(dir, "state"), Folder: filepath.Join(dir, "folder")}}
	src, dst := m.Folder, c.Folder
	if _, ok := m.d.(driver.Mounter); ok {
		src, dst = m.State, c.State
	}
	changed, err := m.d.Duplicate(context.Background(), src, dst, nil)
	must(m.t, err)
	if len(changed) != 0 {
		m.t.Errorf("while nobody was at work %q changed", changed)
	}
	m.t.Cleanup(c.close)
	c.mount()
	return c
}

func duplicates(t *testing.T, d driver.Driver) {
	src := layer(t)
	m := create(t, d, src)
	change(t, m.Folder)
	// Of a file's names only one was written through.
	must(t, os.WriteFile(m.in("a/moved/hard1"), []byte("through one name"), 0o644))
	before := snapshot(t, m.Folder)
	c := m.duplicate()
	compare(t, snapshot(t, c.Folder), before)
	got, want := lstat(t, c.Folder, "/"), lstat(t, m.Folder, "/")
	if got.Mode != want.Mode || got.MtimeNs != want.MtimeNs {
		t.Errorf("the root has mode %o and mtime %d, want %o and %d", got.Mode, got.MtimeNs, want.Mode, want.MtimeNs)
	}
	must(t, os.WriteFile(c.in("a/plain"), []byte("the copy's"), 0o644))
	must(t, os.RemoveAll(c.in("a/none")))
	must(t, os.WriteFile(m.in("a/run.sh"), []byte("the first one's"), 0o755))
	must(t, os.Rename(m.in("a/moved"), m.in("moved on")))
	one, two := snapshot(t, m.Folder), snapshot(t, c.Folder)
	m.again()
	c.again()
	compare(t, snapshot(t, m.Folder), one)
	compare(t, snapshot(t, c.Folder), two)
	compare(t, snapshot(t, c.duplicate().Folder), two)
	if data, err := os.ReadFile(c.in("a/moved/hard1")); err != nil || string(data) != "the copy's" {
		t.Errorf("another name of the file that was written holds %q, %v", data, err)
	}
}

// duplicatesNoSpecialFiles, and shows nothing of the layer in their place.
func duplicatesNoSpecialFiles(t *testing.T, d driver.Driver) {
	m := create(t, d, layer(t))
	must(t, os.Remove(m.in("a/run.sh")))
	fifo(t, m.in("a/run.sh"))
	c := m.duplicate()
	if st, err := os.Lstat(c.in("a/run.sh")); !os.IsNotExist(err) {
		t.Errorf("there is %v, %v in the place of a FIFO", st, err)
	}
	must(t, os.Remove(m.in("a/run.sh")))
	compare(t, withoutTimes(snapshot(t, c.Folder)), withoutTimes(snapshot(t, m.Folder)))
}

func duplicateStopsWithItsContext(t *testing.T, d driver.Driver) {
	m := create(t, d, layer(t))
	change(t, m.Folder)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	src := m.Folder
	if _, ok := d.(driver.Mounter); ok {
		src = m.State
	}
	if _, err := d.Duplicate(ctx, src, filepath.Join(t.TempDir(), "copy"), nil); fserr.CodeOf(err) != fserr.ECANCELED {
		t.Errorf("got %v, want ECANCELED", err)
	}
}
