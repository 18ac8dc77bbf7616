package osroot

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
)

func osLstat(dir *os.Root, name string) (node.Stat, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return node.Stat{}, err
	}
	return osStat(info), nil
}

func osFstat(f *os.File) (node.Stat, error) {
	info, err := f.Stat()
	if err != nil {
		return node.Stat{}, err
	}
	return osStat(info), nil
}

// osStat converts os's attributes. darwin's mode bits are Linux's.
func osStat(info os.FileInfo) node.Stat {
	s := info.Sys().(*syscall.Stat_t)
	return node.Stat{
		Dev: uint64(uint32(s.Dev)), Ino: s.Ino, Rdev: uint64(uint32(s.Rdev)), Mode: uint32(s.Mode), Nlink: uint64(s.Nlink),
		UID: s.Uid, GID: s.Gid, Size: s.Size, Blksize: int64(s.Blksize), Blocks: s.Blocks,
		AtimeNs: node.Saturate(s.Atimespec.Sec, s.Atimespec.Nsec), MtimeNs: node.Saturate(s.Mtimespec.Sec, s.Mtimespec.Nsec),
		CtimeNs: node.Saturate(s.Ctimespec.Sec, s.Ctimespec.Nsec), BirthtimeNs: node.Saturate(s.Birthtimespec.Sec, s.Birthtimespec.Nsec),
	}
}

// osFutimes sets the times of an open file; darwin's call has microseconds.
func osFutimes(f *os.File, atimeNs, mtimeNs int64) error {
	tv := []unix.Timeval{unix.NsecToTimeval(atimeNs), unix.NsecToTimeval(mtimeNs)}
	return withFileFD(f, func(fd int) error { return unix.Futimes(fd, tv) })
}

func osDatasync(f *os.File) error { return f.Sync() }

func osAccess(n *dirNode, name string, mode uint32) error {
	return n.WithFD(func(fd int) error { return unix.Faccessat(fd, name, mode, unix.AT_SYMLINK_NOFOLLOW) })
}
