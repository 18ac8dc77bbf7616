//go:build unix

package contexts

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownerOf returns the numeric owner of path, "" when it cannot be known.
func ownerOf(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return ""
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(uint64(sys.Uid), 10)
}

// freeBytes returns what an unprivileged writer may still write to dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}

// lacksInodes reports whether dir's file system cannot take more files. Some, such as btrfs, do not count them.
func lacksInodes(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Files > 0 && st.Ffree < fullInodes
}
