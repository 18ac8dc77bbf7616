package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dirWith makes a directory with a file of some bytes.
func dirWith(t *testing.T, dir string, bytes int) string {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, bytes), 0o644))
	return dir
}

func size(t *testing.T, dir string) int64 {
	t.Helper()
	st, err := os.Stat(filepath.Join(dir, "f"))
	must(t, err)
	return st.Size()
}

func TestRenameNeverReplaces(t *testing.T) {
	dir := t.TempDir()
	from, empty, free := dirWith(t, filepath.Join(dir, "from"), 1), filepath.Join(dir, "empty"), filepath.Join(dir, "free")
	must(t, os.Mkdir(empty, 0o755))
	if err := RenameNoReplace(from, empty); fserr.CodeOf(err) != fserr.EEXIST {
		t.Errorf("onto an empty directory got %v, want EEXIST", err)
	}
	if err := renameChecked(from, empty); fserr.CodeOf(err) != fserr.EEXIST {
		t.Errorf("checked, onto an empty directory got %v, want EEXIST", err)
	}
	must(t, RenameNoReplace(from, free))
	must(t, MoveIfThere(from, filepath.Join(dir, "other")))
	if err := RenameNoReplace(from, filepath.Join(dir, "other")); fserr.CodeOf(err) != fserr.ENOENT {
		t.Errorf("of nothing got %v, want ENOENT", err)
	}
}

func TestExchange(t *testing.T) {
	dir := t.TempDir()
	a, b := dirWith(t, filepath.Join(dir, "a"), 1), dirWith(t, filepath.Join(dir, "b"), 2)
	switch err := Exchange(a, b); {
	case runtime.GOOS == "windows":
		if err == nil {
			t.Error("Windows swapped two directories")
		}
	case err != nil:
		t.Skipf("not tested here: %v", err)
	case size(t, a) != 2 || size(t, b) != 1:
		t.Error("the directories were not swapped")
	}
}

// TestStagingLeavesNothing: With removes its directory, even if its content is closed to all users.
func TestStagingLeavesNothing(t *testing.T) {
	s := NewStaging(t.TempDir(), t.Context(), zap.NewNop())
	must(t, s.With("test", func(dir string) error {
		return os.Chmod(dirWith(t, filepath.Join(dir, "closed"), 1), 0)
	}))
	dir, err := s.Make("test")
	must(t, err)
	dirWith(t, dir, 1)
	if n, err := s.Empty(dir); n != 1 || err != nil {
		t.Errorf("emptied %d entries, %v; want 1", n, err)
	}
	if n, err := s.Empty(dir); n != 0 || err != nil {
		t.Errorf("emptied %d entries of nothing, %v", n, err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 0 {
		t.Errorf("staging holds %v, %v", left, err)
	}
}

func TestMeasure(t *testing.T) {
	empty := t.TempDir()
	root, err := rootfs.Open(empty, rootfs.Options{})
	must(t, err)
	st, err := root.Lstat("/")
	must(t, errors.Join(err, root.Close()))
	if use, err := Measure(t.Context(), empty, func(string) error { return nil }); err != nil || use.Bytes != st.Blocks*block || use.Entries != 0 {
		t.Errorf("an empty directory of %d blocks is measured as %+v, %v", st.Blocks, use, err)
	}
	dir := dirWith(t, filepath.Join(t.TempDir(), "d"), 100_000)
	one, err := Measure(t.Context(), dir, func(string) error { return nil })
	must(t, err)
	if one.Entries != 1 || one.Bytes < 100_000 {
		t.Errorf("measured %+v", one)
	}
	must(t, os.Link(filepath.Join(dir, "f"), filepath.Join(dir, "g")))
	two, err := Measure(t.Context(), dir, func(string) error { return nil })
	must(t, err)
	if two.Entries != 2 || two.Bytes != one.Bytes {
		t.Errorf("with a second name it is %+v, before %+v", two, one)
	}
	hidden := filepath.Join(dir, rootfs.ReservedPrefix+"d") // programs may use such names, which no listing shows
	must(t, os.Mkdir(hidden, 0o755))
	must(t, os.WriteFile(filepath.Join(hidden, rootfs.ReservedPrefix+"f"), make([]byte, 50_000), 0o644))
	all, err := Measure(t.Context(), dir, func(string) error { return nil })
	must(t, err)
	if all.Entries != 4 || all.Bytes < two.Bytes+50_000 {
		t.Errorf("with reserved names it is %+v, before %+v", all, two)
	}
	if n, err := Use(context.Background(), filepath.Join(dir, "none")); n != 0 || err != nil {
		t.Errorf("a missing directory takes %d bytes, %v", n, err)
	}
}

func TestReserve(t *testing.T) {
	r := Reserve{Dir: filepath.Join(t.TempDir(), "reserve")}
	if r.Kept() {
		t.Error("kept before it was made")
	}
	must(t, r.Keep())
	must(t, os.WriteFile(r.file(0), []byte("cut short"), 0o600))
	if r.Kept() {
		t.Error("kept with a file that is too small")
	}
	must(t, r.Keep())
	if !r.Kept() {
		t.Error("not kept after Keep")
	}
	r.Spend()
	if left, err := os.ReadDir(r.Dir); err != nil || len(left) != 0 {
		t.Errorf("after Spend there are %v, %v", left, err)
	}
}
