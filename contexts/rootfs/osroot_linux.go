package rootfs

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func osLstat(dir *os.Root, name string) (st Stat, err error) {
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

// osStat converts what os knows. os has no birth time: the earlier of mtime and ctime is given, as libuv does.
func osStat(info os.FileInfo) Stat {
	s := info.Sys().(*syscall.Stat_t)
	mtime, ctime := saturate(s.Mtim.Sec, s.Mtim.Nsec), saturate(s.Ctim.Sec, s.Ctim.Nsec)
	return Stat{
		Dev: uint64(s.Dev), Ino: s.Ino, Rdev: uint64(s.Rdev), Mode: s.Mode, Nlink: uint64(s.Nlink),
		UID: s.Uid, GID: s.Gid, Size: s.Size, Blksize: int64(s.Blksize), Blocks: s.Blocks,
		AtimeNs: saturate(s.Atim.Sec, s.Atim.Nsec), MtimeNs: mtime, CtimeNs: ctime, BirthtimeNs: min(mtime, ctime),
	}
}

// osFutimes sets the times of an open file, by its descriptor.
func osFutimes(f *os.File, atimeNs, mtimeNs int64) error {
	ts := []unix.Timespec{unix.NsecToTimespec(atimeNs), unix.NsecToTimespec(mtimeNs)}
	return withFileFD(f, func(fd int) error { return unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH) })
}

func osDatasync(f *os.File) error { return withFileFD(f, unix.Fdatasync) }
