package disk

import "golang.org/x/sys/unix"

// RenameNoReplace renames a directory. It fails with EEXIST if the new name exists. The lock of the context keeps other
// ctxfs processes away between the check and the rename.
func RenameNoReplace(from, to string) error { return renameChecked(from, to) }

// Exchange swaps two directories in one step. It fails with ENOTSUP if the file system cannot.
func Exchange(a, b string) error {
	return unix.RenameatxNp(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_SWAP)
}

// SharesExtents is false: without a check, each copy counts in full.
func SharesExtents(string) bool { return false }
