package fsservice

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

func mustLock(t *testing.T, l *fileLocks, st rootfs.Stat, use contexts.Use) heldLock {
	t.Helper()
	h, err := l.lock(t.Context(), "ctx_a", st, use)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (l *fileLocks) count() (n int) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		n += len(s.locks)
		s.mu.Unlock()
	}
	return n
}

func TestLockWaitEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l fileLocks
		file := rootfs.Stat{Dev: 1, Ino: 2}
		first := mustLock(t, &l, file, reads)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := l.lock(ctx, "ctx_a", file, writes)
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; fserr.CodeOf(err) != fserr.ECANCELED {
			t.Errorf("the wait ended with %v, want ECANCELED", err)
		}
		mustLock(t, &l, file, reads).unlock() // the writer that gave up blocks no reader
		first.unlock()
		if n := l.count(); n != 0 {
			t.Errorf("%d locks are kept that nobody uses", n)
		}
	})
}

func TestReadersDoNotStarveAWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l fileLocks
		file := rootfs.Stat{Dev: 1, Ino: 2}
		first := mustLock(t, &l, file, reads)
		order := make(chan string, 2)
		go func() {
			h := mustLock(t, &l, file, writes)
			order <- "writer"
			h.unlock()
		}()
		synctest.Wait()
		go func() {
			h := mustLock(t, &l, file, reads)
			order <- "reader"
			h.unlock()
		}()
		synctest.Wait()
		if len(order) != 0 {
			t.Fatal("a caller was admitted while a reader that came before the writer holds the lock")
		}
		first.unlock()
		if one, two := <-order, <-order; one != "writer" || two != "reader" {
			t.Errorf("admitted %s before %s", one, two)
		}
		synctest.Wait() // until both have unlocked
		if n := l.count(); n != 0 {
			t.Errorf("%d locks are kept that nobody uses", n)
		}
	})
}

func TestUncontendedLockDoesNotAllocate(t *testing.T) {
	var l fileLocks
	file := rootfs.Stat{Dev: 1, Ino: 2}
	if n := testing.AllocsPerRun(100, func() { mustLock(t, &l, file, writes).unlock() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLock(b *testing.B) {
	var l fileLocks
	for n := uint64(0); b.Loop(); n++ {
		h, err := l.lock(b.Context(), "ctx_a", rootfs.Stat{Dev: 1, Ino: n % 1000}, reads)
		if err != nil {
			b.Fatal(err)
		}
		h.unlock()
	}
}
