package rootfs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestMountsOfTheSameFileSystem mounts a directory and a file of outside within the tree: their device is the tree's own.
func TestMountsOfTheSameFileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(dir string) (Root, error) { return Open(dir, Options{Implementation: name}) })
			w.must(unix.Mount(w.outside, w.host("empty"), "", unix.MS_BIND, ""))
			defer func() { w.must(unix.Unmount(w.host("empty"), unix.MNT_DETACH)) }()
			w.must(unix.Mount(w.outside+"/secret", w.host("f"), "", unix.MS_BIND, ""))
			defer func() { w.must(unix.Unmount(w.host("f"), unix.MNT_DETACH)) }()
			for _, path := range []string{"empty/secret", "f", "rel"} {
				w.code(reading(path)(w.Root), fserr.EXDEV)
				w.code(w.Chmod(path, 0o777), fserr.EXDEV)
				w.code(w.Utimes(path, 1, 1, true), fserr.EXDEV)
			}
			w.code(w.Mkdir("empty/new", 0o755), fserr.EXDEV)
			w.code(w.Rename("d/g", "empty/g"), fserr.EXDEV)
			w.code(w.Unlink("empty/secret"), fserr.EXDEV)
			w.code(listing("empty")(w.Root), fserr.EXDEV)
			if _, err := w.RemoveAll(t.Context(), "empty"); err == nil {
				t.Error("a mount point was removed")
			}
		})
	}
}
