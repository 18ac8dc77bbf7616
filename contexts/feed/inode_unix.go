//go:build unix

package feed

import (
	"os"
	"syscall"
)

// inodeOf returns the number of a directory, 0 if it is not known.
func inodeOf(dir string) uint64 {
	st, err := os.Lstat(dir)
	if err != nil {
		return 0
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ino
	}
	return 0
}
