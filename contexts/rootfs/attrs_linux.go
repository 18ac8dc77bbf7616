package rootfs

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
)

// chownFD changes the owner if the options permit it, or if it is the owner already.
func (r *linuxRoot) chownFD(fd int, uid, gid int64) error {
	if err := node.MayOwn(r.opts, uid, gid); err != nil {
		st, serr := node.StatFD(fd)
		if serr != nil {
			return serr
		}
		if uid == int64(st.UID) {
			uid = -1
		}
		if gid == int64(st.GID) {
			gid = -1
		}
		if err := node.MayOwn(r.opts, uid, gid); err != nil {
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
	defer node.CloseFD(fd)
	return failed(fn(fd), op, path)
}

// changing is held for a change.
func (r *linuxRoot) changing(op, path string, follow bool, fn func(fd int) error) error {
	return r.held(op, path, follow, func(fd int) error { return r.permitted(func() error { return fn(fd) }) })
}

// Chmod sets the permission bits, without setuid and setgid.
func (r *linuxRoot) Chmod(path string, mode uint32) error {
	return r.changing("chmod", path, true, func(fd int) error { return node.ChmodFD(fd, mode&0o1777) })
}

// Chown sets owner and group.
func (r *linuxRoot) Chown(path string, uid, gid int64, follow bool) error {
	return r.changing("chown", path, follow, func(fd int) error { return r.chownFD(fd, uid, gid) })
}

// Utimes sets access and modification time.
func (r *linuxRoot) Utimes(path string, atimeNs, mtimeNs int64, follow bool) error {
	return r.changing("utime", path, follow, func(fd int) error { return node.UtimesFD(fd, atimeNs, mtimeNs) })
}

// Stat follows a final link.
func (r *linuxRoot) Stat(path string) (Stat, error) { return r.stat("stat", path, true) }

// Lstat does not.
func (r *linuxRoot) Lstat(path string) (Stat, error) { return r.stat("lstat", path, false) }

func (r *linuxRoot) stat(op, path string, follow bool) (st Stat, err error) {
	err = r.held(op, path, follow, func(fd int) error {
		st, err = node.StatFD(fd)
		return err
	})
	return st, err
}

// Statfs describes path's file system.
func (r *linuxRoot) Statfs(path string) (s Statfs, err error) {
	err = r.held("statfs", path, true, func(fd int) error {
		s, err = node.StatfsFD(fd)
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
		if mode&unix.W_OK != 0 && r.opts.Refuse != nil {
			return r.opts.Refuse
		}
		return node.AccessFD(fd, mode)
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

// linuxLookups keeps the directory of the last question open if the question before was about the same. A name in it then costs one
// system call instead of three.
type linuxLookups struct {
	root *linuxRoot
	// parent is the path of the directory of the last question, "" for the root.
	parent string
	asked  bool
	// dir is the descriptor of parent, or -1.
	dir int
}

// plainLookups keeps nothing open.
type plainLookups struct{ *linuxRoot }

func (plainLookups) Close() {}

// Lookups begins a run of questions.
func (r *linuxRoot) Lookups() Lookups {
	if !r.openat2 || r.opts.FollowMounts || !r.mount.ByID {
		return plainLookups{r}
	}
	return &linuxLookups{root: r, dir: -1}
}

// Stat follows a final link.
func (l *linuxLookups) Stat(path string) (Stat, error) {
	if st, ok := l.look(path); ok && st.Type() != TypeSymlink {
		return st, nil
	}
	return l.root.Stat(path)
}

// Lstat does not.
func (l *linuxLookups) Lstat(path string) (Stat, error) {
	if st, ok := l.look(path); ok {
		return st, nil
	}
	return l.root.Lstat(path)
}

// look looks path up in the open directory. It returns false if it cannot: the caller asks the root.
func (l *linuxLookups) look(path string) (st Stat, ok bool) {
	parent, name := splitLast(path)
	if !isPlain(name) || l.root.barred(name) || len(path) > MaxPath {
		return st, false
	}
	if !l.hold(parent) {
		return st, false
	}
	var x unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	err := unix.Statx(l.dir, name, flags, node.StatMask|unix.STATX_MNT_ID, &x)
	if err != nil || x.Mask&unix.STATX_MNT_ID == 0 || x.Mnt_id != l.root.mount.ID {
		return st, false
	}
	node.FillStat(&st, &x)
	return st, true
}

// splitLast splits a path at its last slash.
func splitLast(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// isPlain reports whether name is a valid name that is not hidden, and not "." or "..".
func isPlain(name string) bool {
	return name != "" && name != "." && name != ".." && !Reserved(name) && len(name) <= MaxName && strings.IndexByte(name, 0) < 0
}

// hold opens parent if the last question was about it too. It returns false if parent is not open.
func (l *linuxLookups) hold(parent string) bool {
	if l.asked && l.parent == parent {
		return l.dir >= 0 || l.open()
	}
	l.Close()
	l.parent, l.asked = parent, true
	return false
}

func (l *linuxLookups) open() bool {
	path := l.parent
	if path == "" {
		path = "/"
	}
	fd, err := l.root.openPath(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return false
	}
	l.dir = fd
	return true
}

// Close closes the directory.
func (l *linuxLookups) Close() {
	if l.dir >= 0 {
		node.CloseFD(l.dir)
		l.dir = -1
	}
	l.asked = false
}
