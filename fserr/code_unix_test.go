//go:build unix

package fserr

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// TestPlatformErrnosByName maps this system's numbers, which differ from Linux's elsewhere.
func TestPlatformErrnosByName(t *testing.T) {
	for errno, want := range map[syscall.Errno]Code{
		syscall.EPERM: EPERM, syscall.ENOENT: ENOENT, syscall.EINTR: EINTR, syscall.EIO: EIO, syscall.ENXIO: ENXIO,
		syscall.E2BIG: E2BIG, syscall.EBADF: EBADF, syscall.EAGAIN: EAGAIN, syscall.ENOMEM: ENOMEM, syscall.EACCES: EACCES,
		syscall.EBUSY: EBUSY, syscall.EEXIST: EEXIST, syscall.EXDEV: EXDEV, syscall.ENODEV: ENODEV, syscall.ENOTDIR: ENOTDIR,
		syscall.EISDIR: EISDIR, syscall.EINVAL: EINVAL, syscall.ENFILE: ENFILE, syscall.EMFILE: EMFILE, syscall.ENOTTY: ENOTTY,
		syscall.ETXTBSY: ETXTBSY, syscall.EFBIG: EFBIG, syscall.ENOSPC: ENOSPC, syscall.ESPIPE: ESPIPE, syscall.EROFS: EROFS,
		syscall.EMLINK: EMLINK, syscall.EPIPE: EPIPE, syscall.ERANGE: ERANGE, syscall.ENAMETOOLONG: ENAMETOOLONG,
		syscall.ENOSYS: ENOSYS, syscall.ENOTEMPTY: ENOTEMPTY, syscall.ELOOP: ELOOP, syscall.ENODATA: ENODATA,
		syscall.EOVERFLOW: EOVERFLOW, syscall.EOPNOTSUPP: EOPNOTSUPP, syscall.ETIMEDOUT: ETIMEDOUT,
		syscall.ESTALE: ESTALE, syscall.EDQUOT: EDQUOT, syscall.ECANCELED: ECANCELED,
	} {
		for _, err := range []error{
			errno,
			&fs.PathError{Op: "open", Path: "/srv/x", Err: errno},
			&os.LinkError{Op: "rename", Err: os.NewSyscallError("renameat2", errno)},
			fmt.Errorf("x: %w", errno),
		} {
			if got := CodeOf(err); got != want {
				t.Errorf("%v: %s, want %s", err, got.String(), want.String())
			}
		}
	}
	if got := CodeOf(syscall.ENOTSUP); got != EOPNOTSUPP { // another number than EOPNOTSUPP's on some systems
		t.Errorf("ENOTSUP: %s", got.String())
	}
}
