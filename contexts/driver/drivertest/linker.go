package drivertest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// sharedLayer is what layer makes, and another layer that has the same files by further names.
func sharedLayer(t *testing.T) (one, two string) {
	t.Helper()
	one = layer(t)
	two = filepath.Join(filepath.Dir(one), "two")
	share(t, one, two)
	return one, two
}

// share links every file of the tree src into a new one.
func share(t *testing.T, src, dst string) {
	t.Helper()
	must(t, filepath.WalkDir(src, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Mkdir(filepath.Join(dst, rel), 0o755)
		}
		return os.Link(p, filepath.Join(dst, rel))
	}))
}

// layersShareFiles: names outside of the layer are neither taken for links in it nor written to.
func layersShareFiles(t *testing.T, d driver.Driver, differs []Difference) {
	one, two := sharedLayer(t)
	want, other := snapshot(t, one), snapshot(t, two)
	m := create(t, d, one)
	compare(t, snapshot(t, m.Folder), want)
	plain := layer(t)
	change(t, plain)
	change(t, m.Folder)
	got := snapshot(t, m.Folder)
	compare(t, withoutTimes(got), withoutTimes(snapshot(t, plain)))
	m.again()
	compare(t, snapshot(t, m.Folder), got)
	compare(t, snapshot(t, one), want)
	compare(t, snapshot(t, two), other)
	sameFileAfterItsFirstWriteOf(t, create(t, d, one), differs)
}

// layerThatComesAndGoes: another layer takes the files of one that is in use, and is removed again.
func layerThatComesAndGoes(t *testing.T, d driver.Driver, differs []Difference) {
	src := layer(t)
	other := filepath.Join(filepath.Dir(src), "other")
	m := create(t, d, src)
	before := lstat(t, m.Folder, "a/run.sh")
	share(t, src, other)
	must(t, os.WriteFile(m.in("a/run.sh"), []byte("written while shared"), 0o644))
	must(t, os.WriteFile(m.in("many/1"), []byte("written while shared"), 0o644))
	must(t, os.Remove(m.in("many/1")))
	removeAll(t, other)
	must(t, os.WriteFile(m.in("many/2"), []byte("written after"), 0o644))
	want := snapshot(t, m.Folder)
	for range 2 {
		m.again()
		compare(t, snapshot(t, m.Folder), want)
		if after := lstat(t, m.Folder, "a/run.sh"); (after.Ino == before.Ino) == slices.Contains(differs, InodesChange) {
			t.Errorf("its inode number was %d and is %d", before.Ino, after.Ino)
		}
	}
}

func removeAll(t *testing.T, dir string) {
	t.Helper()
	root, err := rootfs.Open(filepath.Dir(dir), rootfs.Options{})
	must(t, err)
	defer func() { must(t, root.Close()) }()
	_, err = root.RemoveAll(t.Context(), filepath.Base(dir))
	must(t, err)
}
