package rootfs

import (
	"golang.org/x/sys/unix"
)

// chmodFD changes the mode behind a descriptor, which may be an O_PATH one: a file
// that may not even be opened can be repaired by its owner.
func chmodFD(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == unix.EOPNOTSUPP || err == unix.EPERM {
		// No fchmodat2 before Linux 6.6, or a filter that does not know it. A link
		// is not to be chmodded through /proc either: that answers EOPNOTSUPP.
		return byProc(err, unix.Fchmodat(unix.AT_FDCWD, procFD(fd), mode, 0))
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

func utimesFD(fd int, atimeNs, mtimeNs int64) error {
	ts := []unix.Timespec{timespec(atimeNs), timespec(mtimeNs)}
	err := unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		return byProc(err, unix.UtimesNanoAt(unix.AT_FDCWD, procFD(fd), ts, 0)) // before Linux 5.8
	}
	return err
}

// accessFD asks for the effective ids. EPERM is the answer for an immutable file, and
// that of a filter that does not know faccessat2: the older call, which the filter
// lets pass, tells them apart. It knows the real ids only; where the effective ones are
// others, x/sys works the answer out from the mode.
func accessFD(fd int, mode uint32) error {
	err := unix.Faccessat2(fd, "", mode, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	if err != unix.ENOSYS && err != unix.EPERM {
		return err
	}
	again := unix.Faccessat(unix.AT_FDCWD, procFD(fd), mode, 0)
	if again != unix.EPERM && (unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid()) {
		again = unix.Faccessat(unix.AT_FDCWD, procFD(fd), mode, unix.AT_EACCESS)
	}
	return byProc(err, again)
}

// chownFD changes the owner if the options permit, or it is already so.
func (r *linuxRoot) chownFD(fd int, uid, gid int64) error {
	if err := mayOwn(r.opts, uid, gid); err != nil {
		st, serr := statFD(fd)
		if serr != nil {
			return serr
		}
		if uid == int64(st.UID) {
			uid = -1
		}
		if gid == int64(st.GID) {
			gid = -1
		}
		if err := mayOwn(r.opts, uid, gid); err != nil {
			return err
		}
	}
	return unix.Fchownat(fd, "", int(uid), int(gid), unix.AT_EMPTY_PATH)
}

// held calls fn with an O_PATH descriptor of path.
func (r *linuxRoot) held(op, path string, follow bool, fn func(fd int) error) error {
	flags := unix.O_PATH
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := r.openPath(path, flags, 0)
	if err != nil {
		return failed(err, op, path)
	}
	defer closeFD(fd)
	return failed(fn(fd), op, path)
}

// Chmod sets permission bits; setuid and setgid are dropped.
func (r *linuxRoot) Chmod(path string, mode uint32) error {
	return r.held("chmod", path, true, func(fd int) error { return chmodFD(fd, mode&0o1777) })
}

// Chown sets owner and group.
func (r *linuxRoot) Chown(path string, uid, gid int64, follow bool) error {
	return r.held("chown", path, follow, func(fd int) error { return r.chownFD(fd, uid, gid) })
}

// Utimes sets access and modification time.
func (r *linuxRoot) Utimes(path string, atimeNs, mtimeNs int64, follow bool) error {
	return r.held("utime", path, follow, func(fd int) error { return utimesFD(fd, atimeNs, mtimeNs) })
}

// Stat follows a final link.
func (r *linuxRoot) Stat(path string) (Stat, error) { return r.stat("stat", path, true) }

// Lstat does not.
func (r *linuxRoot) Lstat(path string) (Stat, error) { return r.stat("lstat", path, false) }

func (r *linuxRoot) stat(op, path string, follow bool) (st Stat, err error) {
	err = r.held(op, path, follow, func(fd int) error {
		st, err = statFD(fd)
		return err
	})
	return st, err
}

// Statfs describes path's file system.
func (r *linuxRoot) Statfs(path string) (s Statfs, err error) {
	err = r.held("statfs", path, true, func(fd int) error {
		s, err = statfsFD(fd)
		return err
	})
	return s, err
}

// Access checks path with the server's effective ids.
func (r *linuxRoot) Access(path string, mode uint32) error {
	return r.held("access", path, true, func(fd int) error {
		if mode&^7 != 0 {
			return unix.EINVAL
		}
		return accessFD(fd, mode)
	})
}

// Readlink returns the target of the link path.
func (r *linuxRoot) Readlink(path string) (target string, err error) {
	err = r.held("readlink", path, false, func(fd int) error {
		target, err = readlinkFD(fd)
		return err
	})
	return target, err
}
