//go:build unix

package client

import (
	"io/fs"
	"os"
	"syscall"
)

// private reports whether the caller owns a directory (or is root), and others have no access to it.
func private(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || st.Mode().Perm()&0o077 != 0 {
		return false
	}
	return os.Geteuid() == 0 || int(sys.Uid) == os.Geteuid()
}
