package contexts

import "golang.org/x/sys/unix"

// renameExchange swaps two directories in one step; ENOTSUP where the file system cannot.
func renameExchange(a, b string) error {
	return unix.RenameatxNp(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_SWAP)
}
