//go:build unix

package statedir

import (
	"io/fs"
	"syscall"
)

// Flags make an open follow no link in the place of the file, and open a FIFO at once.
const Flags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// Owner returns the user ID of a file's owner. It reports false where files have none.
func Owner(st fs.FileInfo) (uid int, ok bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(sys.Uid), true
}

// tooOpen reports whether a file has one of the permissions.
func tooOpen(st fs.FileInfo, forbidden fs.FileMode) bool { return st.Mode().Perm()&forbidden != 0 }
