package disk

import (
	"os"

	"golang.org/x/sys/windows"

	"github.com/ctxfs/ctxfs/fserr"
)

// RenameNoReplace renames a directory. It fails with EEXIST if the new name exists. The lock of the context keeps other
// ctxfs processes away between the check and the rename.
func RenameNoReplace(from, to string) error { return renameChecked(from, to) }

// Exchange fails: Windows cannot swap two directories in one step.
func Exchange(string, string) error { return fserr.EOPNOTSUPP }

// SharesExtents is false: without a check, each copy counts in full.
func SharesExtents(string) bool { return false }

// OwnerOf returns "": Windows has no numeric owners.
func OwnerOf(string) string { return "" }

// Free returns the bytes that the user may still write to dir's volume.
func Free(dir string) (int64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(free), nil
}

// Inode names a file on this machine.
type Inode struct{ Device, Number uint64 }

// InodeOf is false: an os.FileInfo of Windows does not have it.
func InodeOf(os.FileInfo) (Inode, bool) { return Inode{}, false }

// LacksInodes is false: Windows volumes do not count inodes.
func LacksInodes(string) bool { return false }
