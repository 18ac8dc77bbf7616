package contexts

import (
	"os"
	"path/filepath"
	"strconv"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/fserr"
)

// A deletion renames, makes a directory and a lock, and changes records: on a full disk it needs some blocks and
// inodes before it can give any back. A server that starts needs some too. The reserve is files that stand for them.
const (
	reserveFiles    = 16
	reserveFileSize = 32 << 10
	// reserveLeft is how many files stay unmade on a disk that has no room for all: a server that starts needs some for itself.
	reserveLeft = 4
)

// A disk with less free space, in bytes, or fewer free inodes counts as full, whatever Config.DiskReserve says.
const (
	fullDisk   = 2 * reserveFiles * reserveFileSize
	fullInodes = 2 * reserveFiles
)

// IsFull reports whether dir's file system is full, or cannot take more files. It is false where that cannot be told.
func IsFull(dir string) bool {
	free, err := freeBytes(dir)
	return err == nil && free < fullDisk || lacksInodes(dir)
}

// reserve is a directory of such files. Any number of processes may share it.
type reserve struct{ dir string }

func (r reserve) file(n int) string { return filepath.Join(r.dir, strconv.Itoa(n)) }

// keep makes the files that are missing or too small. On a disk that is full with them, it leaves the room of reserveLeft files.
func (r reserve) keep() error {
	err := os.MkdirAll(r.dir, 0o700)
	n := 0
	for ; err == nil && n < reserveFiles; n++ {
		if st, e := os.Lstat(r.file(n)); e == nil && st.Size() == reserveFileSize {
			continue
		}
		err = os.WriteFile(r.file(n), make([]byte, reserveFileSize), 0o600)
	}
	if err == nil && IsFull(r.dir) {
		err = fserr.ENOSPC
	}
	if err != nil {
		for last := n - 1; last >= max(0, n-1-reserveLeft); last-- {
			_ = os.Remove(r.file(last))
		}
	}
	return err
}

// HasReserve reports whether the space for deletions on a full disk is kept.
func (l Layout) HasReserve() bool {
	for n := range reserveFiles {
		if st, err := os.Lstat(reserve{l.Reserve}.file(n)); err != nil || st.Size() != reserveFileSize {
			return false
		}
	}
	return true
}

// MakeRoom gives up the space that is kept for deletions if the disk is full, and reports whether it was full. A server calls it
// before it opens its state. Open keeps the space again as soon as there is room.
func (l Layout) MakeRoom() (full bool) {
	if !IsFull(l.State) {
		return false
	}
	reserve{l.Reserve}.spend()
	return true
}

// spend gives the space back; the next who needs some gets it.
func (r reserve) spend() {
	for n := range reserveFiles {
		_ = os.Remove(r.file(n)) // of what stays, the deletion tells
	}
}

// keepReserve makes the reserve as far as there is room.
func (m *Manager) keepReserve() {
	if err := m.reserve.keep(); err != nil {
		m.cfg.Log.Warn("no space could be reserved for deletions on a full disk", zap.Error(err))
	}
}

// isFull says that the disk has no room, or the server's user may have no more of it.
func isFull(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ENOSPC || code == fserr.EDQUOT
}
