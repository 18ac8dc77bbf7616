package rootfs

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The two system calls of every open. x/sys allocates the name for each of them.

// shortName is the length from which on openat2 lets x/sys pass the path.
const shortName = 256

// openat2 is openat2(2).
func openat2(dir int, path string, how unix.OpenHow) (int, error) {
	if len(path) >= shortName || strings.IndexByte(path, 0) >= 0 {
		return unix.Openat2(dir, path, &how)
	}
	var name [shortName]byte // ends in a NUL
	copy(name[:], path)
	//nolint:gosec // as x/sys does: the kernel reads both during the call
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&how)),
		unix.SizeofOpenHow, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// statxFD is statx(2) of what fd holds, which may be by O_PATH.
func statxFD(fd, mask int, x *unix.Statx_t) error {
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	var empty byte // the NUL of the empty name
	for {
		//nolint:gosec // as x/sys does: the kernel uses both during the call
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(&empty)), flags, uintptr(mask),
			uintptr(unsafe.Pointer(x)), 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}
