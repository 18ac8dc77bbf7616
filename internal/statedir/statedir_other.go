//go:build !unix

package statedir

import "io/fs"

// Flags are none: Windows has no FIFO among its files, and makes a link only for a user with that privilege.
const Flags = 0

// Owner reports false: a file's access list, which it inherits from the user's profile, says who may use it.
func Owner(fs.FileInfo) (uid int, ok bool) { return 0, false }

// tooOpen is false: a file's mode does not show its access list.
func tooOpen(fs.FileInfo, fs.FileMode) bool { return false }
