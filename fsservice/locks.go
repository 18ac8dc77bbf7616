package fsservice

import (
	"sync"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// inodeLocks lets whole-file reads and writes of one inode exclude each other, so
// that a reader sees no half of a write in place. Inodes share 256 locks.
type inodeLocks struct{ stripes [256]sync.RWMutex }

func (l *inodeLocks) of(st rootfs.Stat) *sync.RWMutex { return &l.stripes[stripe(st)] }

func stripe(st rootfs.Stat) uint64 {
	h := (st.Ino*0x9E3779B97F4A7C15 ^ st.Dev) * 0x9E3779B97F4A7C15
	return h >> 56
}

// copying locks from for reading and to for writing until unlock is called. The
// lower stripe is taken first, so that copies over each other do not wait forever.
func (l *inodeLocks) copying(from, to rootfs.Stat) (unlock func()) {
	src, dst := l.of(from), l.of(to)
	switch {
	case src == dst:
		dst.Lock()
		return dst.Unlock
	case stripe(from) < stripe(to):
		src.RLock()
		dst.Lock()
	default:
		dst.Lock()
		src.RLock()
	}
	return func() {
		src.RUnlock()
		dst.Unlock()
	}
}
