//go:build unix

package fserr

import (
	"errors"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// platformCode maps the errno in err's chain by its symbolic name, since the
// numbers differ between systems.
func platformCode(err error) (Code, bool) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return 0, false
	}
	if runtime.GOOS == "linux" {
		return Code(errno), true
	}
	name := unix.ErrnoName(errno)
	if name == "ENOTSUP" {
		return EOPNOTSUPP, true
	}
	return ParseCode(name)
}
