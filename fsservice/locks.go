package fsservice

import (
	"context"
	"slices"
	"sync"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// fileLocks makes whole-file reads and writes of one file exclude each other, so that a reader never sees part of a write in place.
// A file of a context has a lock while callers hold it or wait for it.
type fileLocks struct{ shards [64]lockShard }

// lockShard has the locks of some files. Its mutex is held for a few instructions, never while a caller waits for a lock.
type lockShard struct {
	mu    sync.Mutex
	locks map[fileKey]*fileLock
	// spare has unused locks, so that an uncontended lock allocates nothing.
	spare []*fileLock
}

// maxSpare is how many unused locks a shard keeps.
const maxSpare = 16

type fileKey struct {
	context  contexts.ID
	dev, ino uint64
}

// fileLock is shared by readers or held by one writer; the shard's mutex guards it. Callers that wait are admitted in the order
// in which they came, so that readers do not starve a writer.
type fileLock struct {
	readers int
	writing bool
	waiters []*lockWaiter
}

type lockWaiter struct {
	use contexts.Use
	// admitted is closed when the waiter holds the lock.
	admitted chan struct{}
}

// heldLock is a lock to unlock.
type heldLock struct {
	shard *lockShard
	key   fileKey
	use   contexts.Use
}

// lock waits for the lock of a file. When ctx ends it fails with ECANCELED or ETIMEDOUT.
func (l *fileLocks) lock(ctx context.Context, id contexts.ID, st rootfs.Stat, use contexts.Use) (heldLock, error) {
	h := heldLock{shard: &l.shards[(st.Ino*0x9E3779B97F4A7C15^st.Dev)*0x9E3779B97F4A7C15>>58], key: fileKey{id, st.Dev, st.Ino}, use: use}
	s := h.shard
	s.mu.Lock()
	lock := s.lockOf(h.key)
	if len(lock.waiters) == 0 && lock.admits(use) {
		lock.enter(use)
		s.mu.Unlock()
		return h, nil
	}
	w := &lockWaiter{use: use, admitted: make(chan struct{})}
	lock.waiters = append(lock.waiters, w)
	s.mu.Unlock()
	select {
	case <-w.admitted:
		return h, nil
	case <-ctx.Done():
		s.giveUp(h, w)
		return heldLock{}, fserrpb.FromContext(ctx)
	}
}

// lockBoth locks from for reading, and to, another file of the context, for writing. It locks the lower inode first, so that two
// copies over each other do not deadlock.
func (l *fileLocks) lockBoth(ctx context.Context, id contexts.ID, from, to rootfs.Stat) (unlock func(), err error) {
	first, second, use, other := from, to, reads, writes
	if to.Dev < from.Dev || to.Dev == from.Dev && to.Ino < from.Ino {
		first, second, use, other = to, from, writes, reads
	}
	a, err := l.lock(ctx, id, first, use)
	if err != nil {
		return nil, err
	}
	b, err := l.lock(ctx, id, second, other)
	if err != nil {
		a.unlock()
		return nil, err
	}
	return func() {
		b.unlock()
		a.unlock()
	}, nil
}

func (h heldLock) unlock() {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	lock := h.shard.locks[h.key]
	if h.use == writes {
		lock.writing = false
	} else {
		lock.readers--
	}
	h.shard.admit(h.key, lock)
}

// lockOf returns the lock of a file; a new one if it has none. mu is held.
func (s *lockShard) lockOf(key fileKey) *fileLock {
	if lock := s.locks[key]; lock != nil {
		return lock
	}
	if s.locks == nil {
		s.locks = map[fileKey]*fileLock{}
	}
	var lock *fileLock
	if n := len(s.spare); n > 0 {
		lock, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		lock = &fileLock{}
	}
	s.locks[key] = lock
	return lock
}

// admit admits the next waiters of a lock, or drops the lock when it is unused. mu is held.
func (s *lockShard) admit(key fileKey, lock *fileLock) {
	for len(lock.waiters) > 0 && lock.admits(lock.waiters[0].use) {
		w := lock.waiters[0]
		lock.waiters = lock.waiters[1:]
		lock.enter(w.use)
		close(w.admitted)
	}
	if lock.readers > 0 || lock.writing || len(lock.waiters) > 0 {
		return
	}
	delete(s.locks, key)
	lock.waiters = nil
	if len(s.spare) < maxSpare {
		s.spare = append(s.spare, lock)
	}
}

// giveUp removes a waiter. If it was admitted at that moment, giveUp unlocks.
func (s *lockShard) giveUp(h heldLock, w *lockWaiter) {
	s.mu.Lock()
	lock := s.locks[h.key]
	select {
	case <-w.admitted:
		s.mu.Unlock()
		h.unlock()
		return
	default:
	}
	defer s.mu.Unlock()
	lock.waiters = slices.DeleteFunc(lock.waiters, func(other *lockWaiter) bool { return other == w })
	s.admit(h.key, lock)
}

func (l *fileLock) admits(use contexts.Use) bool {
	return !l.writing && (use == reads || l.readers == 0)
}

func (l *fileLock) enter(use contexts.Use) {
	if use == writes {
		l.writing = true
	} else {
		l.readers++
	}
}
