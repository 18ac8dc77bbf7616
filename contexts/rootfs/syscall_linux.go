package rootfs

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of every open and of every entry of a listing. x/sys allocates the name for each of them.

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

// statxAt is statx(2) of name itself, one component in dir, with statMask.
func statxAt(dir int, name string, x *unix.Statx_t) error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if len(name) >= shortName || strings.IndexByte(name, 0) >= 0 {
		return uninterrupted(func() error { return unix.Statx(dir, name, flags, statMask, x) })
	}
	var text [shortName]byte // ends in a NUL
	copy(text[:], name)
	for {
		//nolint:gosec // as x/sys does: the kernel uses both during the call
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&text)), flags, statMask,
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
