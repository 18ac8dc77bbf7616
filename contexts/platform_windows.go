package contexts

import (
	"golang.org/x/sys/windows"
)

// ownerOf returns "": Windows has no numeric owners.
func ownerOf(string) string { return "" }

// freeBytes returns what the user may still write to dir's volume.
func freeBytes(dir string) (int64, error) {
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

// lacksInodes is false: volumes do not count them.
func lacksInodes(string) bool { return false }
