package contexts

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/fserr"
)

// A deletion renames, makes a directory and a lock, and changes records: on a full disk it needs some blocks and
// inodes before it can give any back. The reserve is files that stand for them.
const (
	reserveFiles    = 4
	reserveFileSize = 128 << 10
)

// reserve is a directory of such files. Any number of processes may share it.
type reserve struct{ dir string }

func (r reserve) file(n int) string { return filepath.Join(r.dir, strconv.Itoa(n)) }

// keep makes the files that are missing or too small.
func (r reserve) keep() error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	for n := range reserveFiles {
		if st, err := os.Lstat(r.file(n)); err == nil && st.Size() == reserveFileSize {
			continue
		}
		if err := os.WriteFile(r.file(n), make([]byte, reserveFileSize), 0o600); err != nil {
			return errors.Join(err, os.Remove(r.file(n)))
		}
	}
	return nil
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
