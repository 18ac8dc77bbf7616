package rootfs

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
)

// maxFlushed bounds the directories that a root remembers.
const maxFlushed = 1000

// settled is the age of a directory's ctime from which a later change of its names has another one.
const settled = 20 * time.Millisecond

// flushed remembers directories whose names are on the disk, by their ctime: most directories above a file that is flushed have not changed
// since the last time, and flushing one that has not costs as much as one that has.
type flushed struct {
	mu sync.Mutex
	by map[inode]int64
}

type inode struct{ dev, ino uint64 }

func (f *flushed) has(st Stat) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctime, ok := f.by[inode{st.Dev, st.Ino}]
	return ok && ctime == st.CtimeNs
}

func (f *flushed) add(st Stat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil || len(f.by) >= maxFlushed {
		f.by = map[inode]int64{}
	}
	f.by[inode{st.Dev, st.Ino}] = st.CtimeNs
}

// syncNames flushes the names in a directory and in all above it up to the root, so that what was made there can be found after a power failure.
func (r *linuxRoot) syncNames(dir int) error {
	top, err := r.topStat()
	if err != nil {
		return err
	}
	at, err := node.OpenAt(dir, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	for range MaxPath {
		if err == unix.EACCES { // nothing was made there that a panel could find
			return nil
		}
		if err != nil {
			return err
		}
		var st Stat
		if st, err = node.StatFD(at); err == nil && !r.flushed.has(st) {
			old := time.Since(time.Unix(0, st.CtimeNs)) >= settled // clock: compared with the file system's
			if err = syncDir(at); err == nil && old {
				r.flushed.add(st)
			}
		}
		if err != nil || st.Ino == top.Ino && st.Dev == top.Dev {
			break
		}
		var up int
		up, err = node.OpenAt(at, "..", unix.O_PATH|unix.O_DIRECTORY, 0)
		node.CloseFD(at)
		at = up
	}
	node.CloseFD(at)
	return err
}

func (r *linuxRoot) topStat() (st Stat, err error) {
	err = r.dir.use(func(fd int) error {
		st, err = node.StatFD(fd)
		return err
	})
	return st, err
}

// syncDir flushes the names in a directory. It skips one that is not readable, since it cannot flush it.
func syncDir(dir int) error {
	fd, err := node.OpenAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.EACCES {
		return nil
	}
	if err != nil {
		return err
	}
	defer node.CloseFD(fd)
	return node.Uninterrupted(func() error { return unix.Fsync(fd) })
}

// syncNameOf flushes the name that an open file has now. A file that was removed has none.
func (r *linuxRoot) syncNameOf(fd int) error {
	path, err := readlinkAt(unix.AT_FDCWD, node.ProcFD(fd))
	if err != nil {
		return err
	}
	end := strings.LastIndexByte(path, '/')
	if end <= 0 {
		return nil
	}
	dir, err := unix.Open(path[:end], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES { // it was moved or removed meanwhile, or lies where the server may not look
		return nil
	}
	if err != nil {
		return err
	}
	defer node.CloseFD(dir)
	return r.syncNames(dir)
}
