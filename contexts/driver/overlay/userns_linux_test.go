package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/drivertest"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// TestAsUserInNamespaces runs the tests of the driver that works in a user namespace, in one, as an ordinary user.
func TestAsUserInNamespaces(t *testing.T) {
	if namespacestest.Inside() {
		t.Skip("these tests are in one already")
	}
	namespacestest.Run(t, "^TestUserNS")
}

// inside returns the driver within the namespaces; elsewhere TestAsUserInNamespaces runs the test.
func inside(t testing.TB, opts Options) *Driver {
	t.Helper()
	if !namespacestest.Inside() {
		t.Skip("run by TestAsUserInNamespaces")
	}
	return usable(t, NewUserNS(opts))
}

func TestUserNSDriver(t *testing.T) {
	for _, c := range []struct {
		name string
		opts Options
	}{{"by descriptor", Options{}}, {"by name, as before Linux 6.13", Options{byName: true}}} {
		t.Run(c.name, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) driver.Driver { return inside(t, c.opts) }, drivertest.InodesChange)
		})
	}
}

// TestUserNSOptions reads what the kernel says of a mount.
func TestUserNSOptions(t *testing.T) {
	d := inside(t, Options{})
	p := place(t, d)
	must(t, d.Mount(t.Context(), p))
	stack, err := mountsAt(p.Folder)
	must(t, err)
	m := stack[0]
	for _, want := range []string{"nosuid", "nodev"} {
		if !strings.Contains(","+m.Options+",", ","+want+",") {
			t.Errorf("the mount has options %s, want %s", m.Options, want)
		}
	}
	if !strings.Contains(m.VFSOptions, "userxattr") || strings.Contains(m.VFSOptions, "redirect_dir=on") || !strings.HasPrefix(m.Source, "ctxfs-userns:") {
		t.Errorf("the file system %s has options %s", m.Source, m.VFSOptions)
	}
	must(t, d.Unmount(t.Context(), p.Folder, false))
}

// TestModesDoNotMountEachOther is of both sides: outside of namespaces, and as TestUserNSModes within.
func TestModesDoNotMountEachOther(t *testing.T) {
	if namespacestest.Inside() {
		t.Skip("TestUserNSModes is this test")
	}
	refusesToMount(t, NewUserNS(Options{}), "serve the workspace with --driver overlay-userns")
}

func TestUserNSModes(t *testing.T) {
	inside(t, Options{})
	refusesToMount(t, New(Options{}), "as root and outside of user namespaces")
}

func refusesToMount(t *testing.T, d *Driver, words string) {
	t.Helper()
	err := d.Mount(t.Context(), placeOf(t, d))
	if fserr.CodeOf(err) != fserr.EOPNOTSUPP || !strings.Contains(err.Error()+hintOf(err), words) {
		t.Errorf("got %v", err)
	}
	if d.Check(t.Context(), t.TempDir()) == nil {
		t.Error("it says that it works")
	}
}

func hintOf(err error) string {
	var e *fserr.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// TestUserNSCopiesWhatHasSeveralNames holds what docs/explanation/drivers.md says: hard links hold, and cost a copy.
func TestUserNSCopiesWhatHasSeveralNames(t *testing.T) {
	d := inside(t, Options{})
	dir := t.TempDir()
	layer, state := filepath.Join(dir, "layer"), filepath.Join(dir, "state")
	for _, made := range []string{filepath.Join(layer, "a/b"), filepath.Join(layer, "c"), state} {
		must(t, os.MkdirAll(made, 0o750))
	}
	for _, name := range []string{"a/b/one", "a/alone", "elsewhere"} {
		must(t, os.WriteFile(filepath.Join(layer, name), []byte("layer"), 0o640))
	}
	must(t, os.Link(filepath.Join(layer, "a/b/one"), filepath.Join(layer, "two")))
	must(t, os.Rename(filepath.Join(layer, "elsewhere"), filepath.Join(dir, "elsewhere")))
	must(t, os.Link(filepath.Join(dir, "elsewhere"), filepath.Join(layer, "c/elsewhere")))
	must(t, d.Prepare(t.Context(), layer, state, nil))
	var got []string
	upper := filepath.Join(state, upperName)
	must(t, filepath.WalkDir(upper, func(p string, e os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(upper, p); err == nil && !e.IsDir() {
			got = append(got, rel)
		}
		return err
	}))
	if strings.Join(got, " ") != "a/b/one two" {
		t.Errorf("the upper directory starts with %v", got)
	}
	one, err := os.Stat(filepath.Join(upper, "a/b/one"))
	must(t, err)
	two, err := os.Stat(filepath.Join(upper, "two"))
	must(t, err)
	if !os.SameFile(one, two) {
		t.Error("the names are no longer one file")
	}
}

// rooted is a context, mounted, of a layer with a tree of directories, as a Root.
func rooted(t testing.TB, d *Driver) (driver.Place, rootfs.Root) {
	t.Helper()
	p := placeOf(t, d)
	for _, dir := range []string{"dir/sub/deep", "dir/closed", "other"} {
		must(t, os.MkdirAll(filepath.Join(p.Layer, dir), 0o755))
	}
	for _, name := range []string{"dir/f", "dir/sub/g", "dir/sub/deep/h", "dir/closed/i"} {
		must(t, os.WriteFile(filepath.Join(p.Layer, name), []byte(name), 0o640))
	}
	must(t, os.Symlink("f", filepath.Join(p.Layer, "dir/link")))
	must(t, unix.Setxattr(filepath.Join(p.Layer, "dir/sub"), "user.test", []byte("x"), 0))
	must(t, os.Chtimes(filepath.Join(p.Layer, "dir/sub"), past, past))
	must(t, os.Chmod(filepath.Join(p.Layer, "dir/closed"), 0o555))
	must(t, d.Mount(t.Context(), p))
	root, err := rootfs.Open(p.Folder, rootfs.Options{})
	must(t, err)
	t.Cleanup(func() {
		must(t, root.Close())
		must(t, d.Unmount(t.Context(), p.Folder, true))
		must(t, os.Chmod(filepath.Join(p.Layer, "dir/closed"), 0o755))
		openAll(t, p.State)
	})
	return p, root
}

// openAll makes a state removable by os.RemoveAll.
func openAll(t testing.TB, state string) {
	t.Helper()
	must(t, os.Chmod(filepath.Join(state, workName, "work"), 0o755))
	must(t, filepath.WalkDir(filepath.Join(state, upperName), func(p string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			return os.Chmod(p, 0o755)
		}
		return err
	}))
}

func BenchmarkUserNSFirstAccess(b *testing.B) { drivertest.Bench(b, inside(b, Options{})) }

func BenchmarkUserNSFirstAccessAgainstCopy(b *testing.B) {
	drivertest.Compare(b, inside(b, Options{}), copyfs.New(copyfs.Options{}))
}

// TestUserNSLinkShowsTwoInodes holds what docs/explanation/drivers.md says of inode numbers.
func TestUserNSLinkShowsTwoInodes(t *testing.T) {
	d := inside(t, Options{})
	p := placeOf(t, d)
	must(t, d.Mount(t.Context(), p))
	one, two := filepath.Join(p.Folder, "file"), filepath.Join(p.Folder, "link")
	must(t, os.Link(one, two))
	inodes := func() (a, b unix.Stat_t) {
		t.Helper()
		must(t, unix.Stat(one, &a))
		must(t, unix.Stat(two, &b))
		return a, b
	}
	if a, b := inodes(); a.Ino == b.Ino || a.Nlink != 2 || b.Nlink != 2 {
		t.Errorf("the names show inodes %d and %d with %d and %d names", a.Ino, b.Ino, a.Nlink, b.Nlink)
	}
	must(t, os.WriteFile(one, []byte("through one name"), 0o644))
	if data, err := os.ReadFile(two); err != nil || string(data) != "through one name" {
		t.Errorf("the other holds %q, %v", data, err)
	}
	must(t, d.Unmount(t.Context(), p.Folder, false))
	must(t, d.Mount(t.Context(), p))
	if a, b := inodes(); a.Ino != b.Ino {
		t.Errorf("mounted again the names show inodes %d and %d", a.Ino, b.Ino)
	}
	must(t, d.Unmount(t.Context(), p.Folder, false))
	openAll(t, p.State)
}

// TestUserNSWorkDirectoryIsClosed holds what docs/explanation/drivers.md says of removing a state by hand.
func TestUserNSWorkDirectoryIsClosed(t *testing.T) {
	d := inside(t, Options{})
	p := placeOf(t, d)
	must(t, d.Mount(t.Context(), p))
	must(t, os.Remove(filepath.Join(p.Folder, "file")))
	must(t, d.Unmount(t.Context(), p.Folder, false))
	st, err := os.Lstat(filepath.Join(p.State, workName, "work"))
	must(t, err)
	if st.Mode().Perm() != 0 {
		t.Errorf("it has mode %o", st.Mode().Perm())
	}
	openAll(t, p.State)
	must(t, os.RemoveAll(p.State))
}
