package rootfs

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func osLstat(dir *os.Root, name string) (Stat, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return Stat{}, err
	}
	return osStat(info), nil
}

func osFstat(f *os.File) (Stat, error) {
	info, err := f.Stat()
	if err != nil {
		return Stat{}, err
	}
	return osStat(info), nil
}

// osStat converts what os knows; darwin's mode bits are Linux's.
func osStat(info os.FileInfo) Stat {
	s := info.Sys().(*syscall.Stat_t)
	return Stat{
		Dev: uint64(uint32(s.Dev)), Ino: s.Ino, Rdev: uint64(uint32(s.Rdev)), Mode: uint32(s.Mode), Nlink: uint64(s.Nlink),
		UID: s.Uid, GID: s.Gid, Size: s.Size, Blksize: int64(s.Blksize), Blocks: s.Blocks,
		AtimeNs: saturate(s.Atimespec.Sec, s.Atimespec.Nsec), MtimeNs: saturate(s.Mtimespec.Sec, s.Mtimespec.Nsec),
		CtimeNs: saturate(s.Ctimespec.Sec, s.Ctimespec.Nsec), BirthtimeNs: saturate(s.Birthtimespec.Sec, s.Birthtimespec.Nsec),
	}
}

// osFutimes sets the times of an open file; darwin's call has microseconds.
func osFutimes(f *os.File, atimeNs, mtimeNs int64) error {
	tv := []unix.Timeval{unix.NsecToTimeval(atimeNs), unix.NsecToTimeval(mtimeNs)}
	return withFileFD(f, func(fd int) error { return unix.Futimes(fd, tv) })
}

func osDatasync(f *os.File) error { return f.Sync() }

func osAccess(n *osNode, name string, mode uint32) error {
	return n.withFD(func(fd int) error { return unix.Faccessat(fd, name, mode, unix.AT_SYMLINK_NOFOLLOW) })
}
