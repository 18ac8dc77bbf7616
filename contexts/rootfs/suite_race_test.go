//go:build linux

package rootfs

import (
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSwappedDirectory writes, changes, renames and removes below a directory that
// another process keeps exchanging for a link to the outside.
func TestSwappedDirectory(t *testing.T) {
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(dir string) (Root, error) { return Open(dir, Options{Implementation: name}) })
			stop := w.swap("d", "outdir")
			defer stop()
			for range 1500 {
				// Whatever these answer, newWorld's clean-up finds the outside as it was.
				_ = opening("d/secret", O_WRONLY|O_CREAT|O_TRUNC)(w.Root)
				_ = w.Chmod("d/secret", 0o666)
				_ = w.Rename("d/secret", "d/other")
				_ = replacing("d/secret", false)(w.Root)
				_ = w.Unlink("d/secret")
			}
		})
	}
}

// swap exchanges two names until stop is called, which waits for the end.
func (w *world) swap(a, b string) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(w.dir, a), unix.AT_FDCWD, filepath.Join(w.dir, b), unix.RENAME_EXCHANGE)
			}
		}
	})
	return func() {
		close(end)
		wg.Wait()
	}
}
