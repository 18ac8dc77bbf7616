package layer

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
)

// TestChangesWithinOneTickShow writes to a file while and just after it is copied. The workspace is a ramfs, whose times are
// those of the last tick of the clock, as on all file systems before Linux 6.13.
func TestChangesWithinOneTickShow(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	if err := unix.Mount("ticks", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("not tested here: mounting needs root: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	must(t, os.MkdirAll(filepath.Join(dir, "app/.git"), 0o755))
	file := filepath.Join(dir, "app/f")
	must(t, os.WriteFile(file, []byte("a"), 0o644))
	root, err := rootfs.Open(dir, rootfs.Options{FollowMounts: true})
	must(t, err)
	defer func() { must(t, root.Close()) }()
	b.src = seed.Source{Root: root, Dir: dir}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	for range 20 {
		var writer sync.WaitGroup
		stop := make(chan struct{})
		writer.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, err := f.WriteAt([]byte("b"), 0)
					must(t, err)
				}
			}
		})
		l := b.build(func(o *BuildOptions) {
			o.Manifested = func() {
				close(stop)
				writer.Wait()
				_, err := f.WriteAt([]byte("c"), 0)
				must(t, err)
			}
		})
		if l.Manifest.Holds(b.scan()) {
			t.Fatal("a layer with the content from before the last change counts as current")
		}
	}
	// What has been left alone for a moment is current again.
	if l := b.build(nil); !l.Manifest.Holds(b.scan()) {
		t.Error("a layer of an unchanged workspace does not count as current")
	}
}
