package sparse

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Next finds the next part of a file with data in [at, size). It is empty, at size, if only a hole is left. A file without
// a descriptor, and one whose file system does not report holes, has none. Next moves the position of the file.
func Next(f any, at, size int64) (start, end int64, err error) {
	start, end = at, size
	seek := func(fd int) (err error) {
		if start, err = unix.Seek(fd, at, unix.SEEK_DATA); err == nil {
			end, err = unix.Seek(fd, start, unix.SEEK_HOLE)
		}
		return err
	}
	switch held := f.(type) {
	case interface {
		WithFD(fn func(fd int) error) error
	}:
		err = held.WithFD(seek)
	case syscall.Conn:
		var raw syscall.RawConn
		if raw, err = held.SyscallConn(); err == nil {
			var failed error
			if err = raw.Control(func(fd uintptr) { failed = seek(int(fd)) }); err == nil {
				err = failed
			}
		}
	}
	switch {
	case errors.Is(err, unix.ENXIO): // no data follows, or the file became shorter
		return size, size, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return at, size, nil
	case err != nil:
		return 0, 0, err
	}
	return min(start, size), min(end, size), nil
}
