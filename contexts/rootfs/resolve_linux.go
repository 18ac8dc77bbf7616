package rootfs

import (
	"errors"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxRetries bounds how often an operation is repeated because another process interfered.
const maxRetries = 16

// errBusy is the error when another process interfered each time, or holds a lease.
var errBusy = &fserr.Error{
	Code: fserr.EBUSY, RetryAfter: 100 * time.Millisecond,
	Hint: "another process keeps changing it or holds a lease on it; try again",
}

// openBeneath is openat2(2), confined to the tree below root.
func (r *linuxRoot) openBeneath(root int, path string, flags int, resolve uint64) (fd int, err error) {
	resolve |= unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	if !r.opts.FollowMounts {
		resolve |= unix.RESOLVE_NO_XDEV
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	err = node.Uninterrupted(func() error {
		fd, err = r.syscall(root, path, how)
		return err
	})
	return fd, err
}

// openBeneathNoFollow opens name, one component or ".", in the directory dir. A link is ELOOP and, unless the options permit it, a mount
// point EXDEV.
func (r *linuxRoot) openBeneathNoFollow(dir int, name string, flags int) (int, error) {
	if r.barred(name) {
		return -1, node.ErrBarred
	}
	if r.openat2 {
		return r.openBeneath(dir, name, flags|unix.O_NOFOLLOW, unix.RESOLVE_NO_SYMLINKS)
	}
	fd, err := node.OpenAt(dir, name, flags, 0)
	if err != nil {
		return -1, linkOr(err, dir, name)
	}
	if err := r.admit(&ending{fd: fd}); err != nil {
		node.CloseFD(fd)
		return -1, err
	}
	return fd, nil
}

// linkOr returns ELOOP instead of ENOTDIR, the error of O_DIRECTORY|O_NOFOLLOW for a link.
func linkOr(err error, dir int, name string) error {
	if err != unix.ENOTDIR {
		return err
	}
	if st, serr := node.StatAt(dir, name); serr == nil && st.Type() == TypeSymlink {
		return unix.ELOOP
	}
	return err
}

// openPath opens path with the system's flags, which must not create. resolve is 0 or RESOLVE_NO_SYMLINKS. O_NOFOLLOW has no effect on a
// path with a trailing slash.
func (r *linuxRoot) openPath(path string, flags int, resolve uint64) (fd int, err error) {
	if err := node.CheckPath(path); err != nil {
		return -1, err
	}
	if strings.HasSuffix(path, "/") {
		flags = flags&^unix.O_NOFOLLOW | unix.O_DIRECTORY
	}
	root, err := r.dir.acquire()
	if err != nil {
		return -1, err
	}
	fd, err = r.openFrom(root, path, flags, resolve)
	r.dir.release()
	return fd, err
}

// openFrom is openPath below root. At first it follows no links: then only the names in path count. It resolves a path with a link on its
// way again.
func (r *linuxRoot) openFrom(root int, path string, flags int, resolve uint64) (int, error) {
	rel := path
	if path[0] == '/' || path[len(path)-1] == '/' {
		if rel = strings.Trim(path, "/"); rel == "" {
			rel = "."
		}
	}
	// The kernel counts the NUL at the end too. The walk refuses reserved and barred names.
	if !r.openat2 || len(rel) >= MaxPath || strings.Contains(rel, ReservedPrefix) || r.hasBarred(rel) {
		return r.walkOpen(root, path, flags, resolve)
	}
	fd, err := r.openRetrying(root, rel, flags, resolve|unix.RESOLVE_NO_SYMLINKS)
	if err == unix.ELOOP && resolve&unix.RESOLVE_NO_SYMLINKS == 0 {
		return r.openFollowing(root, path, rel, flags)
	}
	if err == unix.EAGAIN || err == unix.EXDEV { // a lease, an escape or a mount
		return r.walkOpen(root, path, flags, resolve)
	}
	return fd, err
}

// openFollowing opens a path with links on its way. The walk decides about absolute targets, escapes, reserved and barred names.
func (r *linuxRoot) openFollowing(root int, path, rel string, flags int) (int, error) {
	if r.opts.Barred != nil {
		return r.walkOpen(root, path, flags, 0)
	}
	fd, err := r.openRetrying(root, rel, flags, 0)
	if err == unix.ENOENT || (err == nil && cleanName(fd)) {
		return fd, err
	}
	if err == nil {
		node.CloseFD(fd)
	}
	return r.walkOpen(root, path, flags, 0)
}

// openRetrying is openBeneath. It repeats the call while a rename on the system makes ".." uncertain (EAGAIN).
func (r *linuxRoot) openRetrying(root int, rel string, flags int, resolve uint64) (fd int, err error) {
	for range maxRetries {
		fd, err = r.openBeneath(root, rel, flags, resolve)
		if err != unix.EAGAIN || !strings.Contains(rel, "..") {
			break
		}
	}
	return fd, err
}

// cleanName reports whether no reserved name is on the way to what fd refers to, since a link may lead to one. When in doubt it returns
// false.
func cleanName(fd int) bool {
	name, err := readlinkAt(unix.AT_FDCWD, node.ProcFD(fd))
	return err == nil && !strings.Contains(name, "/"+ReservedPrefix)
}

// walkOpen is openFrom by components.
func (r *linuxRoot) walkOpen(root int, path string, flags int, resolve uint64) (int, error) {
	for range maxRetries {
		fd, err := r.walkOnce(root, path, flags, resolve)
		if err != errSwapped {
			return fd, err
		}
	}
	return -1, errBusy
}

// errSwapped means that a link replaced the last component while it was opened.
var errSwapped = errors.New("replaced by a link meanwhile")

func (r *linuxRoot) walkOnce(root int, path string, flags int, resolve uint64) (int, error) {
	w := r.newWalk(root, path)
	defer w.close()
	w.follow = flags&unix.O_NOFOLLOW == 0
	w.noLinks = resolve&unix.RESOLVE_NO_SYMLINKS != 0
	e, err := w.run()
	if err != nil {
		return -1, err
	}
	if e.base == "" {
		return node.OpenAt(e.dir, ".", flags, 0)
	}
	if e.fd < 0 {
		return -1, unix.ENOENT
	}
	return r.openEnd(w, e, flags)
}

// openEnd opens what a walk ended at. It takes over e.fd.
func (r *linuxRoot) openEnd(w *pathWalk, e ending, flags int) (int, error) {
	kind := e.mode & unix.S_IFMT
	switch {
	case flags&unix.O_DIRECTORY != 0 && kind != unix.S_IFDIR:
		node.CloseFD(e.fd)
		return -1, unix.ENOTDIR
	case kind == unix.S_IFLNK && (w.noLinks || flags&unix.O_PATH == 0):
		node.CloseFD(e.fd)
		return -1, unix.ELOOP
	case flags&unix.O_PATH != 0:
		return e.fd, nil
	}
	node.CloseFD(e.fd)
	fd, err := node.OpenAt(e.dir, e.base, flags, 0)
	switch err {
	case unix.ELOOP:
		return -1, errSwapped
	case unix.EAGAIN:
		return -1, errBusy
	case nil:
		if err := r.admit(&ending{fd: fd}); err != nil {
			node.CloseFD(fd)
			return -1, err
		}
	}
	return fd, err
}

// place is where a name is changed: base, one component or one of "", "." and "..", in the directory dir.
type place struct {
	dir   int
	base  string
	slash bool // the path ended in a slash
}

func (p place) close() { node.CloseFD(p.dir) }

// plain reports whether base names an entry, not the directory itself or its parent.
func (p place) plain() bool { return p.base != "" && p.base != "." && p.base != ".." }

// splitPath splits path before its last component. dir is never empty.
func splitPath(path string) (dir, base string, slash bool) {
	trimmed := strings.TrimRight(path, "/")
	at := strings.LastIndexByte(trimmed, '/')
	return trimmed[:at+1] + ".", trimmed[at+1:], len(trimmed) < len(path)
}

// place resolves all but path's last component, to an O_PATH descriptor. creating makes a reserved name EACCES instead of ENOENT.
func (r *linuxRoot) place(path string, creating bool) (place, error) {
	if err := node.CheckPath(path); err != nil {
		return place{}, err
	}
	dir, base, slash := splitPath(path)
	fd, err := r.openPath(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return place{}, leavingTo(err, path[len(dir)-1:])
	}
	p := place{dir: fd, base: base, slash: slash}
	switch {
	case len(base) > MaxName:
		err = unix.ENAMETOOLONG
	case Reserved(base) && creating:
		err = unix.EACCES
	case Reserved(base):
		err = unix.ENOENT
	case r.barred(base):
		err = node.ErrBarred
	}
	if err != nil {
		p.close()
	}
	return p, err
}

// target returns the place that path leads to if a final link is followed. missing says that nothing exists there.
func (r *linuxRoot) target(path string) (p place, missing bool, err error) {
	err = r.dir.use(func(root int) error {
		w := r.newWalk(root, path)
		defer w.close()
		w.follow = true
		e, err := w.run()
		if err != nil {
			return err
		}
		if e.fd >= 0 {
			node.CloseFD(e.fd)
		}
		p = place{base: e.base, slash: w.mustDir}
		missing = e.base != "" && e.fd < 0
		p.dir, err = node.OpenAt(e.dir, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
		return err
	})
	return p, missing, err
}

// Node implements tree.Nodes.
func (r *linuxRoot) Node(path string, follow bool) (node.Node, error) {
	flags := unix.O_RDONLY | unix.O_DIRECTORY
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := r.openPath(path, flags, 0)
	if err != nil {
		return nil, failed(err, "open", path)
	}
	return newFDNode(fd, r), nil
}

// Parent implements tree.Nodes.
func (r *linuxRoot) Parent(path string) (dir node.Node, base string, slash bool, err error) {
	p, err := r.place(path, false)
	if err != nil {
		return nil, "", false, failed(err, "open", path)
	}
	defer p.close()
	if p.base == "." || p.base == ".." {
		return nil, "", false, fserr.New("open", path, fserr.EINVAL)
	}
	fd, err := node.OpenAt(p.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, "", false, failed(err, "open", path)
	}
	return newFDNode(fd, r), p.base, p.slash, nil
}

// openat2 is openat2(2). It avoids the allocation that x/sys makes for each path.
func openat2(dir int, path string, how unix.OpenHow) (int, error) {
	if len(path) >= node.ShortName || strings.IndexByte(path, 0) >= 0 {
		return unix.Openat2(dir, path, &how)
	}
	var name [node.ShortName]byte // ends in a NUL
	copy(name[:], path)
	//nolint:gosec // as x/sys does: the kernel reads both during the call
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&how)),
		unix.SizeofOpenHow, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
