package layer

import (
	"path/filepath"
	"strings"
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

func TestPackKeepsXattrs(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"app", "app/f"} {
		p := filepath.Join(b.src.Dir, name)
		must(t, unix.Setxattr(p, "user.own", []byte(name), 0))
		must(t, unix.Setxattr(p, "user.overlay.opaque", []byte("y"), 0))
	}
	l, folder := b.packed()
	must(t, b.complete(l, noStep))
	for _, dir := range []string{folder, l.Tree} {
		for _, name := range []string{"app", "app/f", "app/hard"} {
			p := filepath.Join(dir, name)
			value := make([]byte, 100)
			n, err := unix.Lgetxattr(p, "user.own", value)
			if want := strings.Replace(name, "hard", "f", 1); err != nil || string(value[:n]) != want {
				t.Errorf("%s has %q, %v, want %q", p, value[:max(n, 0)], err, want)
			}
			if _, err := unix.Lgetxattr(p, "user.overlay.opaque", nil); err != unix.ENODATA {
				t.Errorf("%s has the note: %v", p, err)
			}
		}
	}
}
