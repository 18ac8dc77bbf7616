//go:build unix

package disk

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// OwnerOf returns the numeric owner of path, or "" if it is unknown.
func OwnerOf(path string) string {
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

// Inode names a file on this machine.
type Inode struct{ Device, Number uint64 }

// InodeOf returns the inode of a file, or false if it is unknown.
func InodeOf(st os.FileInfo) (Inode, bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return Inode{}, false
	}
	return Inode{uint64(sys.Dev), sys.Ino}, true //nolint:unconvert // the types differ between systems
}

// Free returns the bytes that an unprivileged user may still write to dir's file system.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}

// LacksInodes reports whether dir's file system cannot take more files. Some file systems, such as btrfs, do not count inodes.
func LacksInodes(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Files > 0 && st.Ffree < fullInodes
}
