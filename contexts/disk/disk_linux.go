package disk

import (
	"errors"
	"os"

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

// SharesExtents reports whether files in dir can share their extents (btrfs, XFS).
func SharesExtents(dir string) bool {
	from, err := os.CreateTemp(dir, "extents-")
	if err != nil {
		return false
	}
	defer func() { _ = from.Close(); _ = os.Remove(from.Name()) }()
	to, err := os.CreateTemp(dir, "extents-")
	if err != nil {
		return false
	}
	defer func() { _ = to.Close(); _ = os.Remove(to.Name()) }()
	if _, err := from.Write(make([]byte, 4096)); err != nil {
		return false
	}
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}
