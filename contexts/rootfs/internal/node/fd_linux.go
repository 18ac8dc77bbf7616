package node

import (
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// StatMask selects the statx(2) fields that FillStat uses.
const StatMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// StatFD returns the attributes of what fd refers to, which may be an O_PATH descriptor.
func StatFD(fd int) (st Stat, err error) {
	var x unix.Statx_t
	if err = statxFD(fd, StatMask, &x); err == nil {
		FillStat(&st, &x)
	}
	return st, err
}

// FstatInto is StatFD by fstat(2), which is faster but has no birth time. It sets that to the change time.
func FstatInto(st *Stat, fd int) error {
	var s unix.Stat_t
	err := unix.Fstat(fd, &s)
	for err == unix.EINTR {
		err = unix.Fstat(fd, &s)
	}
	if err != nil {
		return err
	}
	*st = Stat{
		Dev: uint64(s.Dev), Ino: s.Ino, Rdev: uint64(s.Rdev), Mode: s.Mode, Nlink: uint64(s.Nlink), UID: s.Uid, GID: s.Gid,
		Size: s.Size, Blksize: int64(s.Blksize), Blocks: s.Blocks,
		AtimeNs: Saturate(s.Atim.Unix()), MtimeNs: Saturate(s.Mtim.Unix()), CtimeNs: Saturate(s.Ctim.Unix()),
	}
	st.BirthtimeNs = st.CtimeNs
	return nil
}

// StatAt returns the attributes of name itself, one component in dirfd.
func StatAt(dirfd int, name string) (st Stat, err error) {
	var x unix.Statx_t
	if err = StatxAt(dirfd, name, &x); err == nil {
		FillStat(&st, &x)
	}
	return st, err
}

// FillStat converts a result of statx(2) with StatMask.
func FillStat(s *Stat, x *unix.Statx_t) {
	s.Dev, s.Ino, s.Rdev = unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino, unix.Mkdev(x.Rdev_major, x.Rdev_minor)
	s.Mode, s.Nlink, s.UID, s.GID = uint32(x.Mode), uint64(x.Nlink), x.Uid, x.Gid
	s.Size, s.Blksize, s.Blocks = int64(x.Size), int64(x.Blksize), int64(x.Blocks)
	s.AtimeNs, s.MtimeNs, s.CtimeNs = stampNs(x.Atime), stampNs(x.Mtime), stampNs(x.Ctime)
	s.BirthtimeNs = birthNs(x)
}

func stampNs(t unix.StatxTimestamp) int64 { return Saturate(t.Sec, int64(t.Nsec)) }

// birthNs returns the birth time, or, as libuv does, the change time where the file system has no birth time or reports the epoch.
func birthNs(x *unix.Statx_t) int64 {
	if x.Mask&unix.STATX_BTIME == 0 || (x.Btime.Sec == 0 && x.Btime.Nsec == 0) {
		return stampNs(x.Ctime)
	}
	return stampNs(x.Btime)
}

// Mount identifies the mount that a file is on: by its ID or, where the kernel has none (before 5.8), by its device.
type Mount struct {
	ID   uint64
	ByID bool
}

// Kind is what the resolution of a path checks of each component.
type Kind struct {
	Mode  uint32 // st_mode
	Mount Mount
	ID    FileID
}

// KindOf returns the kind of what an O_PATH descriptor refers to.
func KindOf(fd int) (Kind, error) {
	const mask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_INO | unix.STATX_MNT_ID
	var x unix.Statx_t
	if err := statxFD(fd, mask, &x); err != nil {
		return Kind{}, err
	}
	k := Kind{Mode: uint32(x.Mode), ID: FileID{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino}}
	k.Mount = Mount{ID: k.ID.dev}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		k.Mount = Mount{x.Mnt_id, true}
	}
	return k, nil
}

// StatfsFD describes the file system of what fd refers to.
func StatfsFD(fd int) (Statfs, error) {
	var s unix.Statfs_t
	if err := Uninterrupted(func() error { return unix.Fstatfs(fd, &s) }); err != nil {
		return Statfs{}, err
	}
	return Statfs{
		Type: uint64(s.Type), Bsize: uint64(s.Bsize), Blocks: s.Blocks, Bfree: s.Bfree,
		Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
	}, nil
}

// CloseFD closes a descriptor that nothing was written to.
func CloseFD(fd int) { _ = unix.Close(fd) }

// Uninterrupted calls fn again while a signal interrupts it.
func Uninterrupted(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}

// OpenAt is openat(2) of one component, or ".". It follows no link.
func OpenAt(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = Uninterrupted(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// ProcFD returns a path of fd, for system calls that take no descriptor.
func ProcFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// ChmodFD changes the mode of what fd refers to. fd may be an O_PATH descriptor, so that an owner can repair a file of mode 000.
func ChmodFD(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == unix.EOPNOTSUPP || err == unix.EPERM {
		// No fchmodat2 before Linux 6.6, or a filter that does not know it. For a link, /proc answers EOPNOTSUPP too.
		return byProc(err, unix.Fchmodat(unix.AT_FDCWD, ProcFD(fd), mode, 0))
	}
	return err
}

// byProc chooses between the errors of a system call and of its repetition through /proc. Where /proc is not mounted the second is
// ENOENT, which says nothing about the file.
func byProc(first, again error) error {
	if again == unix.ENOENT {
		return first
	}
	return again
}

// UtimesFD sets the times of what fd refers to, which may be an O_PATH descriptor.
func UtimesFD(fd int, atimeNs, mtimeNs int64) error {
	ts := []unix.Timespec{unix.NsecToTimespec(atimeNs), unix.NsecToTimespec(mtimeNs)}
	err := unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		return byProc(err, unix.UtimesNanoAt(unix.AT_FDCWD, ProcFD(fd), ts, 0)) // before Linux 5.8
	}
	return err
}

// AccessFD checks the rights of the effective IDs. faccessat2 fails with EPERM for an immutable file, and under a filter that does
// not know the call. The older call, which such a filter permits, decides between the two. It uses the real IDs; where the effective
// ones differ, x/sys computes the answer from the mode.
func AccessFD(fd int, mode uint32) error {
	err := unix.Faccessat2(fd, "", mode, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	if err != unix.ENOSYS && err != unix.EPERM {
		return err
	}
	again := unix.Faccessat(unix.AT_FDCWD, ProcFD(fd), mode, 0)
	if again != unix.EPERM && (unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid()) {
		again = unix.Faccessat(unix.AT_FDCWD, ProcFD(fd), mode, unix.AT_EACCESS)
	}
	return byProc(err, again)
}

// ShortName is the length of names from which on x/sys makes the system call.
const ShortName = 256

// statxFD is statx(2) of what fd refers to, which may be an O_PATH descriptor.
func statxFD(fd, mask int, x *unix.Statx_t) error {
	var empty byte // the NUL of the empty name
	return statx(fd, &empty, unix.AT_EMPTY_PATH, mask, x)
}

// StatxAt is statx(2) of name itself, one component in dir, with StatMask.
func StatxAt(dir int, name string, x *unix.Statx_t) error {
	if len(name) >= ShortName || strings.IndexByte(name, 0) >= 0 {
		return Uninterrupted(func() error {
			return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, StatMask, x)
		})
	}
	var text [ShortName]byte // ends in a NUL
	copy(text[:], name)
	return statx(dir, &text[0], 0, StatMask, x)
}

// statx avoids the allocation that x/sys makes for each name: listings call it for each entry.
func statx(dir int, name *byte, flags, mask int, x *unix.Statx_t) error {
	flags |= unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	for {
		//nolint:gosec // as x/sys does: the kernel uses both during the call
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(flags), uintptr(mask),
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
