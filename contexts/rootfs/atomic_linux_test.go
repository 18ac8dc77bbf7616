package rootfs

import (
	"sync"
	"testing"
	"time"
)

// TestAtomicWritersAllSucceed has many replace one file: each write is made, none is undone.
func TestAtomicWritersAllSucceed(t *testing.T) {
	onLinux(t, func(w *world) {
		var all sync.WaitGroup
		end := time.Now().Add(250 * time.Millisecond)
		for range 8 {
			all.Go(func() {
				for time.Now().Before(end) {
					if err := replacing("f", false)(w.Root); err != nil {
						w.Errorf("a commit among others: %v", err)
						return
					}
				}
			})
		}
		all.Wait()
		w.content("f", "whole")
	})
}

// named opens a root as on a file system without O_TMPFILE.
func named(dir string) (Root, error) {
	r, err := openLinux(dir, Options{}, openat2)
	if err != nil {
		return nil, err
	}
	r.noTmpfile = true
	return r, nil
}

// TestTemporaryNameIsPrivate looks at the names that atomic files have before Commit.
func TestTemporaryNameIsPrivate(t *testing.T) {
	t.Run("osroot", func(t *testing.T) {
		newWorld(t, func(dir string) (Root, error) { return Open(dir, Options{Implementation: "osroot"}) }).private()
	})
	t.Run("without O_TMPFILE", func(t *testing.T) { newWorld(t, named).private() })
}

// TestWithoutTmpfile opens and writes where atomic files need names.
func TestWithoutTmpfile(t *testing.T) {
	for _, b := range openBehaviours {
		t.Run(b.name, func(t *testing.T) { b.run(newWorld(t, named)) })
	}
}
