package fsservice

import (
	"sync"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// inodeLocks lets whole-file reads and writes of one inode exclude each other, so
// that a reader sees no half of a write in place. Inodes share 256 locks.
type inodeLocks struct{ stripes [256]sync.RWMutex }

func (l *inodeLocks) of(st rootfs.Stat) *sync.RWMutex {
	h := (st.Ino*0x9E3779B97F4A7C15 ^ st.Dev) * 0x9E3779B97F4A7C15
	return &l.stripes[h>>56]
}
