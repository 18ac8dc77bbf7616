package layer

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLayerHasNoNotesOfOverlayfs: a workspace that was some container's upper directory has them, and a mount of the
// layer would take them for its own.
func TestLayerHasNoNotesOfOverlayfs(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{".", "app", "app/f"} {
		p := filepath.Join(b.src.Dir, name)
		must(t, unix.Setxattr(p, "user.overlay.opaque", []byte("y"), 0))
		must(t, unix.Setxattr(p, "user.own", []byte("1"), 0))
	}
	l := b.build(nil)
	for _, name := range []string{"app", "app/f"} {
		p := filepath.Join(l.Tree, name)
		if n, err := unix.Lgetxattr(p, "user.own", nil); n != 1 || err != nil {
			t.Errorf("%s lost its own: %d, %v", name, n, err)
		}
		if _, err := unix.Lgetxattr(p, "user.overlay.opaque", nil); err != unix.ENODATA {
			t.Errorf("%s has the note: %v", name, err)
		}
	}
}
