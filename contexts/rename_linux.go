package contexts

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNoReplace moves a directory to a name that must be free: EEXIST
// otherwise. os.Rename alone would replace an empty directory.
func renameNoReplace(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return renameChecked(from, to)
	}
	return err
}

// renameExchange swaps two directories in one step; EINVAL where the file system cannot.
func renameExchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
