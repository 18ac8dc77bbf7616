package disk

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// A deletion renames, makes a directory and a lock, and changes records. On a full disk it therefore needs some blocks and
// inodes before it can free any, and so does a server that starts. The reserve is files that keep this space.
const (
	reserveFiles    = 16
	reserveFileSize = 32 << 10
	// reserveLeft is the number of files that Keep leaves unmade on a disk without room for all: a server that starts needs
	// some space itself.
	reserveLeft = 4
)

// A disk with fewer free bytes than Full, or fewer free inodes than fullInodes, counts as full.
const (
	Full       = 2 * reserveFiles * reserveFileSize
	fullInodes = 2 * reserveFiles
)

// IsFull reports whether dir's file system is full, or cannot take more files. It is false where that is unknown.
func IsFull(dir string) bool {
	free, err := Free(dir)
	return err == nil && free < Full || LacksInodes(dir)
}

// NoSpace reports whether an error says that the disk has no room, or that the server's user may not use more of it.
func NoSpace(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ENOSPC || code == fserr.EDQUOT
}

// Reserve keeps space for deletions on a full disk. Several processes may share one.
type Reserve struct{ Dir string }

func (r Reserve) file(n int) string { return filepath.Join(r.Dir, strconv.Itoa(n)) }

func (r Reserve) made(n int) bool {
	st, err := os.Lstat(r.file(n))
	return err == nil && st.Size() == reserveFileSize
}

// Keep makes the files that are missing or too small. If they fill the disk, it leaves the room of reserveLeft files.
func (r Reserve) Keep() error {
	err := os.MkdirAll(r.Dir, 0o700)
	n := 0
	for ; err == nil && n < reserveFiles; n++ {
		if !r.made(n) {
			err = statedir.WriteFile(r.file(n), make([]byte, reserveFileSize), 0o600)
		}
	}
	if err == nil && IsFull(r.Dir) {
		err = fserr.ENOSPC
	}
	if err != nil {
		for last := n - 1; last >= max(0, n-1-reserveLeft); last-- {
			_ = os.Remove(r.file(last))
		}
	}
	return err
}

// Kept reports whether the whole reserve is there.
func (r Reserve) Kept() bool {
	for n := range reserveFiles {
		if !r.made(n) {
			return false
		}
	}
	return true
}

// Spend frees the space. The next writer gets it.
func (r Reserve) Spend() {
	for n := range reserveFiles {
		_ = os.Remove(r.file(n)) // the deletion that needs the space reports what is wrong
	}
}
