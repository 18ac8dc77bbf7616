package tree

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// HasWriter reports whether a program has the file open for writing. It fails with EOPNOTSUPP where the system or the file system
// cannot say. f must be open for reading only.
//
// The kernel grants a read lease only on a file without writers (fcntl(2), "Leases").
func HasWriter(f node.File) (has bool, err error) {
	err = withRawFD(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		if errors.Is(err, unix.EAGAIN) {
			has = true
			return nil
		}
		if err != nil {
			return fserr.EOPNOTSUPP // EACCES: another user's file; EINVAL: no leases here
		}
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		return err
	})
	return has, err
}
