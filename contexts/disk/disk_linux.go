package disk

import (
	"errors"

	"golang.org/x/sys/unix"
)

// RenameNoReplace renames a directory. It fails with EEXIST if the new name exists; most file systems check and rename in one step.
func RenameNoReplace(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return renameChecked(from, to)
	}
	return err
}

// Exchange swaps two directories in one step. It fails with EINVAL if the file system cannot.
func Exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// SharesExtents reports whether files in dir can share their extents (btrfs, XFS). Its files have no names, so that a kill leaves none.
func SharesExtents(dir string) bool {
	var fds [2]int
	for i := range fds {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return false
		}
		defer func() { _ = unix.Close(fd) }() // it was only a trial
		fds[i] = fd
	}
	if _, err := unix.Write(fds[0], make([]byte, 4096)); err != nil {
		return false
	}
	return unix.IoctlFileClone(fds[1], fds[0]) == nil
}
