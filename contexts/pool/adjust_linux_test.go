package pool

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/seed"
)

// asUser makes the test's thread look at files as an ordinary user does, to whom all below dir is given.
func asUser(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	}))
	runtime.LockOSThread()
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, nobody, 0, 0) // it returns only the previous user
	t.Cleanup(func() {
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, 0, 0, 0)
		runtime.UnlockOSThread()
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAdjustInADirectoryThatMayNotBeWritten, by a server that is not root.
func TestAdjustInADirectoryThatMayNotBeWritten(t *testing.T) {
	dir := t.TempDir()
	tree, folder := filepath.Join(dir, "tree"), filepath.Join(dir, "folder")
	for _, at := range []string{tree, folder} {
		must(t, os.MkdirAll(filepath.Join(at, "ro", "in"), 0o755))
		must(t, os.WriteFile(filepath.Join(at, "ro", "same"), nil, 0o644))
		must(t, os.WriteFile(filepath.Join(at, "ro", "changed"), []byte(at), 0o444))
	}
	must(t, os.WriteFile(filepath.Join(folder, "ro", "in", "gone"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(tree, "ro", "new"), nil, 0o644))
	for _, at := range []string{tree, folder} {
		must(t, os.Chmod(filepath.Join(at, "ro", "in"), 0o555))
		must(t, os.Chmod(filepath.Join(at, "ro"), 0o555))
	}
	asUser(t, dir)
	d := Difference{
		Removed: []string{"ro/in/gone"}, Copied: map[string]bool{"ro/changed": true, "ro/new": true},
		Dirs: map[string]seed.Entry{"ro": {Path: "ro", Mode: 0o555}, "ro/in": {Path: "ro/in", Mode: 0o555}},
	}
	must(t, Adjust(t.Context(), d, tree, folder, nil))
	if data, err := os.ReadFile(filepath.Join(folder, "ro", "changed")); err != nil || string(data) != tree {
		t.Errorf("the file holds %q, %v", data, err)
	}
	for name, want := range map[string]bool{"ro/in/gone": false, "ro/new": true, "ro/same": true} {
		if _, err := os.Lstat(filepath.Join(folder, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"ro", "ro/in"} {
		if st, err := os.Stat(filepath.Join(folder, name)); err != nil || st.Mode().Perm() != 0o555 {
			t.Errorf("%s has %v, %v", name, st.Mode(), err)
		}
	}
}

// TestRemoveOfADirectoryThatMayNotBeWritten is what a claim that failed leaves nothing by.
func TestRemoveOfADirectoryThatMayNotBeWritten(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "copy", "ro"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "copy", "ro", "f"), nil, 0o644))
	must(t, os.Chmod(filepath.Join(dir, "copy", "ro"), 0o555))
	asUser(t, dir)
	must(t, remove(t.Context(), filepath.Join(dir, "copy")))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
