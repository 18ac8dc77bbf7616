package node

import (
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const StatMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// statFD returns the attributes behind a descriptor, which may be an O_PATH one.
func StatFD(fd int) (st Stat, err error) {
	err = statInto(&st, fd)
	return st, err
}

func statInto(st *Stat, fd int) error {
	var x unix.Statx_t
	if err := statxFD(fd, StatMask, &x); err != nil {
		return err
	}
	FillStat(st, &x)
	return nil
}

// fstatInto is statInto by fstat(2), which is quicker and knows no birth time: the change time stands for it.
func FstatInto(st *Stat, fd int) error {
	var s unix.Stat_t
	for {
		if err := unix.Fstat(fd, &s); err == nil {
			break
		} else if err != unix.EINTR {
			return err
		}
	}
	*st = Stat{
		Dev: uint64(s.Dev), Ino: s.Ino, Rdev: uint64(s.Rdev), Mode: s.Mode, Nlink: uint64(s.Nlink), UID: s.Uid, GID: s.Gid,
		Size: s.Size, Blksize: int64(s.Blksize), Blocks: s.Blocks,
		AtimeNs: Saturate(s.Atim.Unix()), MtimeNs: Saturate(s.Mtim.Unix()), CtimeNs: Saturate(s.Ctim.Unix()),
	}
	st.BirthtimeNs = st.CtimeNs
	return nil
}

// statAt returns the attributes of name itself, one component in dirfd.
func StatAt(dirfd int, name string) (st Stat, err error) {
	var x unix.Statx_t
	if err := StatxAt(dirfd, name, &x); err != nil {
		return st, err
	}
	FillStat(&st, &x)
	return st, nil
}

// fillStat is what statx(2) told, with statMask, as a Stat.
func FillStat(s *Stat, x *unix.Statx_t) {
	s.Dev, s.Ino, s.Rdev = unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino, unix.Mkdev(x.Rdev_major, x.Rdev_minor)
	s.Mode, s.Nlink, s.UID, s.GID = uint32(x.Mode), uint64(x.Nlink), x.Uid, x.Gid
	s.Size, s.Blksize, s.Blocks = int64(x.Size), int64(x.Blksize), int64(x.Blocks)
	s.AtimeNs, s.MtimeNs, s.CtimeNs = stampNs(x.Atime), stampNs(x.Mtime), stampNs(x.Ctime)
	s.BirthtimeNs = birthNs(x)
}

func stampNs(t unix.StatxTimestamp) int64 { return Saturate(t.Sec, int64(t.Nsec)) }

// birthNs is the change time where the file system keeps no birth time, as in libuv:
// it says so, or tells of the epoch.
func birthNs(x *unix.Statx_t) int64 {
	if x.Mask&unix.STATX_BTIME == 0 || (x.Btime.Sec == 0 && x.Btime.Nsec == 0) {
		return stampNs(x.Ctime)
	}
	return stampNs(x.Btime)
}

// mount identifies the mount a file is on: by its id, or where the kernel tells
// none (before 5.8) by its device.
type Mount struct {
	ID   uint64
	ByID bool
}

// kind is what a walk needs to know of what it meets.
type Kind struct {
	Mode  uint32 // st_mode
	Mount Mount
	ID    FileID
}

// kindOfFD asks for the kind of what an O_PATH descriptor holds.
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

// timespec splits ns since the epoch, also before it.
func Timespec(ns int64) unix.Timespec {
	sec, rest := ns/1e9, ns%1e9
	if rest < 0 {
		sec, rest = sec-1, rest+1e9
	}
	return unix.Timespec{Sec: sec, Nsec: rest}
}

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

// closeFD closes a descriptor through which nothing was written.
func CloseFD(fd int) { _ = unix.Close(fd) }

// uninterrupted calls fn again while a signal interrupts it.
func Uninterrupted(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}

// openAt is openat(2) of one component, or ".", that is never followed.
func OpenAt(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = Uninterrupted(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// procFD is the name under which a system call that takes no descriptor finds fd.
func ProcFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// chmodFD changes the mode behind a descriptor, which may be an O_PATH one: a file
// that may not even be opened can be repaired by its owner.
func ChmodFD(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == unix.EOPNOTSUPP || err == unix.EPERM {
		// No fchmodat2 before Linux 6.6, or a filter that does not know it. A link
		// is not to be chmodded through /proc either: that answers EOPNOTSUPP.
		return byProc(err, unix.Fchmodat(unix.AT_FDCWD, ProcFD(fd), mode, 0))
	}
	return err
}

// byProc is what a system call on fd answers that was made again through /proc: where
// that is not mounted its ENOENT tells nothing of the file, and the first error counts.
func byProc(first, again error) error {
	if again == unix.ENOENT {
		return first
	}
	return again
}

func UtimesFD(fd int, atimeNs, mtimeNs int64) error {
	ts := []unix.Timespec{Timespec(atimeNs), Timespec(mtimeNs)}
	err := unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		return byProc(err, unix.UtimesNanoAt(unix.AT_FDCWD, ProcFD(fd), ts, 0)) // before Linux 5.8
	}
	return err
}

// accessFD asks for the effective ids. EPERM is the answer for an immutable file, and
// that of a filter that does not know faccessat2: the older call, which the filter
// lets pass, tells them apart. It knows the real ids only; where the effective ones are
// others, x/sys works the answer out from the mode.
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

// shortName is the length from which on openat2 lets x/sys pass the path.
const ShortName = 256

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
func StatxAt(dir int, name string, x *unix.Statx_t) error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if len(name) >= ShortName || strings.IndexByte(name, 0) >= 0 {
		return Uninterrupted(func() error { return unix.Statx(dir, name, flags, StatMask, x) })
	}
	var text [ShortName]byte // ends in a NUL
	copy(text[:], name)
	for {
		//nolint:gosec // as x/sys does: the kernel uses both during the call
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&text)), flags, StatMask,
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
