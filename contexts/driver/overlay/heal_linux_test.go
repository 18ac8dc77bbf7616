package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place prepares a context of a layer with one file, and unmounts it at the end.
func place(t testing.TB, d *Driver) driver.Place {
	t.Helper()
	p := placeOf(t, d)
	t.Cleanup(func() {
		for unix.Unmount(p.Folder, unix.MNT_DETACH) == nil { //nolint:revive // until nothing is mounted there
		}
	})
	return p
}

func placeOf(t testing.TB, d *Driver) driver.Place {
	t.Helper()
	dir := t.TempDir()
	p := driver.Place{Layer: filepath.Join(dir, "layer"), State: filepath.Join(dir, "state"), Folder: filepath.Join(dir, "folder")}
	must(t, os.Mkdir(p.Layer, 0o755))
	must(t, os.WriteFile(filepath.Join(p.Layer, "file"), []byte("layer"), 0o644))
	must(t, os.Mkdir(p.State, 0o700))
	must(t, d.Prepare(t.Context(), p.Layer, p.State, nil))
	return p
}

func wantContent(t *testing.T, p driver.Place, want string) {
	t.Helper()
	if data, err := os.ReadFile(filepath.Join(p.Folder, "file")); err != nil || string(data) != want {
		t.Errorf("the file holds %q, %v, want %q", data, err, want)
	}
}

func TestForeignMountIsRefusedAndStays(t *testing.T) {
	d := usable(t, New(Options{}))
	for _, c := range []struct {
		name  string
		first bool
	}{{"alone", false}, {"on top of ours", true}} {
		t.Run(c.name, func(t *testing.T) {
			p := place(t, d)
			must(t, os.MkdirAll(p.Folder, 0o755))
			if c.first {
				must(t, d.Mount(t.Context(), p))
			}
			must(t, unix.Mount("elsewhere", p.Folder, "tmpfs", 0, "size=64k"))
			for what, err := range map[string]error{
				"mount": d.Mount(t.Context(), p), "unmount": d.Unmount(t.Context(), p.Folder, true),
			} {
				if fserr.CodeOf(err) != fserr.EBUSY || !strings.Contains(err.Error(), "something else (tmpfs)") {
					t.Errorf("%s: %v", what, err)
				}
			}
			must(t, unix.Unmount(p.Folder, 0))
			must(t, d.Mount(t.Context(), p))
			wantContent(t, p, "layer")
		})
	}
}

func TestSecondMountOfOursGoes(t *testing.T) {
	d := usable(t, New(Options{}))
	p := place(t, d)
	must(t, d.Mount(t.Context(), p))
	must(t, os.WriteFile(filepath.Join(p.Folder, "file"), []byte("changed"), 0o644))
	must(t, unix.Mount(p.Folder, p.Folder, "", unix.MS_BIND, ""))
	must(t, unix.Mount(p.Folder, p.Folder, "", unix.MS_BIND, ""))
	must(t, d.Mount(t.Context(), p))
	stack, err := mountsAt(p.Folder)
	must(t, err)
	if len(stack) != 1 {
		t.Errorf("%d mounts are left", len(stack))
	}
	wantContent(t, p, "changed")
}

// TestMountIsSafe reads what the kernel says of a mount.
func TestMountIsSafe(t *testing.T) {
	d := usable(t, New(Options{}))
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
	for _, want := range []string{"redirect_dir=on", "index=on"} {
		if !strings.Contains(m.VFSOptions, want) {
			t.Errorf("the file system has options %s, want %s", m.VFSOptions, want)
		}
	}
	if strings.Contains(m.VFSOptions, "metacopy=on") || strings.Contains(m.VFSOptions, "userxattr") {
		t.Errorf("the file system has options %s", m.VFSOptions)
	}
}

// TestMountUnderASharedOne mounts below a shared mount, as systemd makes "/": other mount namespaces see the context,
// but no mounts within it.
func TestMountUnderASharedOne(t *testing.T) {
	d := usable(t, New(Options{}))
	p := place(t, d)
	dir := filepath.Dir(p.Folder)
	must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	must(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	must(t, d.Mount(t.Context(), p))
	stack, err := mountsAt(p.Folder)
	must(t, err)
	if strings.Contains(stack[0].Optional, "shared") {
		t.Errorf("the mount is %s", stack[0].Optional)
	}
	wantContent(t, p, "layer")
	must(t, d.Unmount(t.Context(), p.Folder, false))
}

func TestFilesUnderAnUnmountedContextAreTold(t *testing.T) {
	core, seen := observed()
	d := usable(t, New(Options{Log: core}))
	p := place(t, d)
	must(t, os.Mkdir(p.Folder, 0o755))
	must(t, os.WriteFile(filepath.Join(p.Folder, "file"), []byte("lost?"), 0o644))
	must(t, d.Mount(t.Context(), p))
	wantContent(t, p, "layer")
	if seen.FilterMessageSnippet("while the context was not mounted").Len() != 1 {
		t.Errorf("the log says %v", seen.All())
	}
	must(t, d.Unmount(t.Context(), p.Folder, false))
	wantContent(t, p, "lost?")
}

// TestMappedBeforeTheFirstWrite holds what docs/explanation/drivers.md says of mmap: overlayfs maps the layer's file.
func TestMappedBeforeTheFirstWrite(t *testing.T) {
	d := usable(t, New(Options{}))
	p := place(t, d)
	must(t, d.Mount(t.Context(), p))
	name := filepath.Join(p.Folder, "file")
	for _, want := range []string{"layer", "later"} {
		f, err := os.Open(name)
		must(t, err)
		mapped, err := unix.Mmap(int(f.Fd()), 0, 5, unix.PROT_READ, unix.MAP_SHARED)
		must(t, err)
		must(t, f.Close())
		must(t, os.WriteFile(name, []byte("later"), 0o644))
		if string(mapped) != want {
			t.Errorf("the mapping shows %q, want %q", mapped, want)
		}
		must(t, unix.Munmap(mapped))
	}
}

// TestChangeTimeOfTheFirstWrite holds what docs/explanation/drivers.md says of ctime: the copy is a change of the inode.
func TestChangeTimeOfTheFirstWrite(t *testing.T) {
	d := usable(t, New(Options{}))
	p := place(t, d)
	must(t, d.Mount(t.Context(), p))
	stat := func() (st unix.Stat_t) {
		t.Helper()
		must(t, unix.Stat(filepath.Join(p.Folder, "file"), &st))
		return st
	}
	// The layer is older than the tick in which it is copied.
	before := stat()
	for tick := before; tick.Ctim == before.Ctim; must(t, unix.Stat(p.State, &tick)) {
		must(t, os.Chmod(p.State, 0o700))
	}
	f, err := os.OpenFile(filepath.Join(p.Folder, "file"), os.O_RDWR, 0)
	must(t, err)
	must(t, f.Close())
	after := stat()
	if after.Ino != before.Ino || after.Mtim != before.Mtim || after.Ctim == before.Ctim {
		t.Errorf("opened for writing it is inode %d of %v, ctime %v; before %d of %v, %v",
			after.Ino, after.Mtim, after.Ctim, before.Ino, before.Mtim, before.Ctim)
	}
}
