package rootfs

import (
	"strings"

	"golang.org/x/sys/unix"
)

// linuxLookups holds the directory of the last question when the one before was about it
// too. A name in it then costs one system call instead of three.
type linuxLookups struct {
	root *linuxRoot
	// parent is the directory of the last question, as it was named; "" is the root.
	parent string
	asked  bool
	// dir holds parent; -1 while it does not.
	dir int
}

// plainLookups holds nothing.
type plainLookups struct{ *linuxRoot }

func (plainLookups) Close() {}

// Lookups begins a run of questions.
func (r *linuxRoot) Lookups() Lookups {
	if !r.openat2 || r.opts.FollowMounts || !r.mount.byID {
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

// look asks for a name in the held directory; false when there is none, or the answer is not that simple.
func (l *linuxLookups) look(path string) (st Stat, ok bool) {
	parent, name := splitLast(path)
	if !isPlain(name) || len(path) > MaxPath {
		return st, false
	}
	if !l.hold(parent) {
		return st, false
	}
	var x unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	err := unix.Statx(l.dir, name, flags, statMask|unix.STATX_MNT_ID, &x)
	if err != nil || x.Mask&unix.STATX_MNT_ID == 0 || x.Mnt_id != l.root.mount.id {
		return st, false
	}
	fillStat(&st, &x)
	return st, true
}

// splitLast splits a path at its last slash.
func splitLast(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// isPlain reports whether name is a name, and not a way to elsewhere or one that is hidden.
func isPlain(name string) bool {
	return name != "" && name != "." && name != ".." && !Reserved(name) && len(name) <= MaxName && strings.IndexByte(name, 0) < 0
}

// hold makes dir the directory parent, when it was asked for before; false when it is not held.
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

// Close lets go of the directory.
func (l *linuxLookups) Close() {
	if l.dir >= 0 {
		closeFD(l.dir)
		l.dir = -1
	}
	l.asked = false
}
