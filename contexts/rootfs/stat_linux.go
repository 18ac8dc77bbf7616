package rootfs

import (
	"golang.org/x/sys/unix"
)

const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// statFD returns the attributes behind a descriptor, which may be an O_PATH one.
func statFD(fd int) (st Stat, err error) {
	err = statInto(&st, fd)
	return st, err
}

func statInto(st *Stat, fd int) error {
	var x unix.Statx_t
	if err := statxFD(fd, statMask, &x); err != nil {
		return err
	}
	fillStat(st, &x)
	return nil
}

// fstatInto is statInto by fstat(2), which is quicker and knows no birth time: the change time stands for it.
func fstatInto(st *Stat, fd int) error {
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
		AtimeNs: saturate(s.Atim.Unix()), MtimeNs: saturate(s.Mtim.Unix()), CtimeNs: saturate(s.Ctim.Unix()),
	}
	st.BirthtimeNs = st.CtimeNs
	return nil
}

// statAt returns the attributes of name itself, one component in dirfd.
func statAt(dirfd int, name string) (st Stat, err error) {
	var x unix.Statx_t
	if err := statxAt(dirfd, name, &x); err != nil {
		return st, err
	}
	fillStat(&st, &x)
	return st, nil
}

// fillStat is what statx(2) told, with statMask, as a Stat.
func fillStat(s *Stat, x *unix.Statx_t) {
	s.Dev, s.Ino, s.Rdev = unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino, unix.Mkdev(x.Rdev_major, x.Rdev_minor)
	s.Mode, s.Nlink, s.UID, s.GID = uint32(x.Mode), uint64(x.Nlink), x.Uid, x.Gid
	s.Size, s.Blksize, s.Blocks = int64(x.Size), int64(x.Blksize), int64(x.Blocks)
	s.AtimeNs, s.MtimeNs, s.CtimeNs = stampNs(x.Atime), stampNs(x.Mtime), stampNs(x.Ctime)
	s.BirthtimeNs = birthNs(x)
}

func stampNs(t unix.StatxTimestamp) int64 { return saturate(t.Sec, int64(t.Nsec)) }

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
type mount struct {
	id   uint64
	byID bool
}

// kind is what a walk needs to know of what it meets.
type kind struct {
	mode  uint32 // st_mode
	mount mount
	id    fileID
}

// kindOfFD asks for the kind of what an O_PATH descriptor holds.
func kindOfFD(fd int) (kind, error) {
	const mask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_INO | unix.STATX_MNT_ID
	var x unix.Statx_t
	if err := statxFD(fd, mask, &x); err != nil {
		return kind{}, err
	}
	k := kind{mode: uint32(x.Mode), id: fileID{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino}}
	k.mount = mount{id: k.id.dev}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		k.mount = mount{x.Mnt_id, true}
	}
	return k, nil
}

// timespec splits ns since the epoch, also before it.
func timespec(ns int64) unix.Timespec {
	sec, rest := ns/1e9, ns%1e9
	if rest < 0 {
		sec, rest = sec-1, rest+1e9
	}
	return unix.Timespec{Sec: sec, Nsec: rest}
}

func statfsFD(fd int) (Statfs, error) {
	var s unix.Statfs_t
	if err := uninterrupted(func() error { return unix.Fstatfs(fd, &s) }); err != nil {
		return Statfs{}, err
	}
	return Statfs{
		Type: uint64(s.Type), Bsize: uint64(s.Bsize), Blocks: s.Blocks, Bfree: s.Bfree,
		Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
	}, nil
}
