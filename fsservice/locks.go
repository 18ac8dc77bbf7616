package fsservice

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// fileLocks makes whole-file reads and writes of one file exclude each other, so that a reader never sees part of a write in place. It
// also has the locks of names: a call that changes what a name stands for shares the name's lock with others, and one that checks a
// condition before has it alone. A call locks files before names. A file or a name of a context has a lock while callers hold it or wait
// for it.
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

// fileKey is a file, or a name without its directory: links lead to one directory by many paths.
type fileKey struct {
	context  contexts.ID
	dev, ino uint64
	name     string
}

func keyOf(id contexts.ID, st rootfs.Stat) fileKey {
	return fileKey{context: id, dev: st.Dev, ino: st.Ino}
}

// compare orders keys as they are locked.
func (k fileKey) compare(other fileKey) int {
	return cmp.Or(cmp.Compare(k.name, other.name), cmp.Compare(k.dev, other.dev), cmp.Compare(k.ino, other.ino))
}

// hash is FNV-1a for a name, and mixes the numbers of a file.
func (k fileKey) hash() uint64 {
	if k.name == "" {
		return (k.ino*0x9E3779B97F4A7C15 ^ k.dev) * 0x9E3779B97F4A7C15
	}
	h := uint64(14695981039346656037)
	for i := range len(k.name) {
		h = (h ^ uint64(k.name[i])) * 1099511628211
	}
	return h
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
	// waited says that others had the lock before.
	waited bool
}

// lock waits for the lock of a file. When ctx ends it fails with ECANCELED or ETIMEDOUT.
func (l *fileLocks) lock(ctx context.Context, id contexts.ID, st rootfs.Stat, use contexts.Use) (heldLock, error) {
	return l.lockKey(ctx, keyOf(id, st), use)
}

func (l *fileLocks) lockKey(ctx context.Context, key fileKey, use contexts.Use) (heldLock, error) {
	h := heldLock{shard: &l.shards[key.hash()>>58], key: key, use: use}
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
		h.waited = true
		return h, nil
	case <-ctx.Done():
		s.giveUp(h, w)
		return heldLock{}, fserrpb.FromContext(ctx)
	}
}

// lockBoth locks from for reading, and to, another file of the context, for writing.
func (l *fileLocks) lockBoth(ctx context.Context, id contexts.ID, from, to rootfs.Stat) (unlock func(), err error) {
	return l.lockAll(ctx, []wantedLock{{keyOf(id, from), reads}, {keyOf(id, to), writes}})
}

// wantedLock is a lock of lockAll.
type wantedLock struct {
	fileKey
	use contexts.Use
}

// lockAll locks several keys, files before names and each once, in one order for all calls, so that none deadlock.
func (l *fileLocks) lockAll(ctx context.Context, wanted []wantedLock) (unlock func(), err error) {
	slices.SortFunc(wanted, func(a, b wantedLock) int { return a.compare(b.fileKey) })
	wanted = slices.CompactFunc(wanted, func(a, b wantedLock) bool { return a.fileKey == b.fileKey })
	held := make([]heldLock, 0, len(wanted))
	unlock = func() {
		for _, h := range slices.Backward(held) {
			h.unlock()
		}
	}
	for _, w := range wanted {
		h, err := l.lockKey(ctx, w.fileKey, w.use)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, h)
	}
	return unlock, nil
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
