//go:build unix

package client

import (
	"io/fs"
	"os"
	"syscall"
)

// private tells whether a directory is the caller's (or the caller is root), and closed to others.
func private(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || st.Mode().Perm()&0o077 != 0 {
		return false
	}
	return os.Geteuid() == 0 || int(sys.Uid) == os.Geteuid()
}
