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
