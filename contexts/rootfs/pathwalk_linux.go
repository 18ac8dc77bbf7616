package rootfs

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxLinks bounds the links followed by one resolution, as in path_resolution(7).
const maxLinks = 40

// pathWalk resolves a path component by component from held descriptors. It never opens "..", but goes back on the trail, so that a
// directory that was moved cannot lead it out of the tree.
type pathWalk struct {
	root    *linuxRoot
	noLinks bool // a link anywhere is ELOOP
	follow  bool // follow a final link
	trail   *node.Trail
	rest    []string
	mustDir bool // the path, or the last link, ended in a slash
	links   int
}

// pathNode is a directory on a walk's trail, by an O_PATH descriptor: a directory on the way need not be readable.
type pathNode struct {
	fdNode
	borrowed bool // the trail does not close it
}

func (n *pathNode) OpenDir(name string) (node.Node, error) {
	fd, err := n.root.openBeneathNoFollow(n.fd, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return n.root.pathNode(fd), nil
}

// Up fails: the resolution of a path never opens "..".
func (n *pathNode) Up() (node.Node, error) { return nil, unix.EOPNOTSUPP }

func (n *pathNode) Close() error {
	if n.borrowed {
		return nil
	}
	return n.fdNode.Close()
}

// pathNode takes over fd.
func (r *linuxRoot) pathNode(fd int) *pathNode { return &pathNode{fdNode: fdNode{fd: fd, root: r}} }

// newWalk begins at root, the root's own descriptor. The caller closes the walk.
func (r *linuxRoot) newWalk(root int, path string) *pathWalk {
	top := r.pathNode(root)
	top.borrowed = true
	w := &pathWalk{root: r, trail: node.NewTrail(top, node.FileID{})}
	w.push(path)
	return w
}

func (w *pathWalk) close() { w.trail.Close() }

// ending is where a walk ended: at base in the directory dir, which the walk holds, or at dir itself if base is "". fd is an O_PATH
// descriptor of base, or -1 if base does not exist. The caller of run closes it.
type ending struct {
	dir  int
	base string
	fd   int
	mode uint32
	id   node.FileID
}

// push puts path in front of the components that remain.
func (w *pathWalk) push(path string) {
	parts := strings.Split(path, "/")
	last := parts[len(parts)-1]
	if len(w.rest) == 0 && (last == "" || last == ".") {
		w.mustDir = true
	}
	kept := parts[:0]
	for _, p := range parts {
		if p != "" && p != "." {
			kept = append(kept, p)
		}
	}
	w.rest = append(kept, w.rest...)
}

// here returns the descriptor of the directory reached.
func (w *pathWalk) here() (int, error) {
	d, err := w.trail.Here()
	if err != nil {
		return -1, err
	}
	return d.Node.(*pathNode).fd, nil
}

func (w *pathWalk) up() error {
	switch {
	case w.trail.Depth() > 0:
	case w.root.opts.Zone:
		return w.leave()
	default:
		return node.ErrOutside
	}
	w.trail.Leave()
	return nil
}

// run resolves the components that remain.
func (w *pathWalk) run() (ending, error) {
	for len(w.rest) > 0 {
		name := w.rest[0]
		w.rest = w.rest[1:]
		if name == ".." {
			if err := w.up(); err != nil {
				return ending{}, err
			}
			continue
		}
		e, done, err := w.step(name)
		if err != nil || done {
			return e, err
		}
	}
	dir, err := w.here()
	return ending{dir: dir, fd: -1, mode: unix.S_IFDIR}, err
}

// step resolves one component, which is the last one if none remain.
func (w *pathWalk) step(name string) (e ending, done bool, err error) {
	last := len(w.rest) == 0
	e = ending{base: name, fd: -1}
	switch {
	case Reserved(name):
		return e, false, unix.ENOENT
	case w.root.barred(name):
		return e, false, node.ErrBarred
	}
	if e.dir, err = w.here(); err != nil {
		return e, false, err
	}
	e.fd, err = node.OpenAt(e.dir, name, unix.O_PATH, 0)
	if err == unix.ENOENT && last {
		e.fd = -1
		return e, true, nil
	}
	if err != nil {
		return e, false, err
	}
	done, err = w.enter(&e, last)
	if !done && e.fd >= 0 {
		node.CloseFD(e.fd)
	}
	return e, done, err
}

// enter decides by e's type. If it keeps e.fd, it sets it to -1 or returns done.
func (w *pathWalk) enter(e *ending, last bool) (done bool, err error) {
	if err := w.root.admit(e); err != nil {
		return false, err
	}
	switch kind := e.mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK && (!last || w.follow || w.mustDir):
		return false, w.expand(e.fd)
	case kind != unix.S_IFDIR && (!last || w.mustDir):
		return false, unix.ENOTDIR
	case last:
		return true, nil
	}
	if err := w.trail.Descend(e.base, w.root.pathNode(e.fd), e.id); err != nil {
		return false, err
	}
	e.fd = -1
	return false, nil
}

// admit sets e.mode and e.id, and refuses e if it is on another mount.
func (r *linuxRoot) admit(e *ending) error {
	k, err := node.KindOf(e.fd)
	e.mode, e.id = k.Mode, k.ID
	if err != nil || r.opts.FollowMounts || k.Mount == r.mount {
		return err
	}
	// Without mount IDs the device decides, but not for files: overlayfs gives them other devices.
	if !k.Mount.ByID && e.mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	return &fserr.Error{Code: fserr.EXDEV, Hint: "a mount point stands on the way and mounts are not followed here"}
}

func (w *pathWalk) expand(fd int) error {
	w.links++
	if w.noLinks || w.links > maxLinks {
		return unix.ELOOP
	}
	target, err := readlinkFD(fd)
	if err != nil {
		return err
	}
	if target == "" {
		return unix.ENOENT
	}
	w.push(target)
	if target[0] == '/' {
		if w.root.opts.Zone {
			return w.leave()
		}
		w.trail.Rewind()
	}
	return nil
}

// virtual returns the virtual path of an ending, by the names walked.
func (w *pathWalk) virtual(e ending) string {
	path := w.trail.Path()
	if e.base != "" || path == "" {
		path += "/" + e.base
	}
	return path
}

// Realpath returns where path leads.
func (r *linuxRoot) Realpath(path string) (string, error) {
	var err error
	for range maxRetries {
		var name string
		name, err = r.realpath(path)
		if err != errRenamed {
			return name, failed(err, "realpath", path)
		}
	}
	return "", failed(errBusy, "realpath", path)
}

// errRenamed means that a name was no longer that of its file when it was checked.
var errRenamed = unix.ESTALE

func (r *linuxRoot) realpath(path string) (name string, err error) {
	fd, err := r.openPath(path, unix.O_PATH, 0)
	if err != nil {
		return "", err
	}
	defer node.CloseFD(fd)
	err = r.dir.use(func(root int) error {
		name, err = r.nameOf(root, fd, path)
		return err
	})
	return name, err
}

func (r *linuxRoot) straight(path string) bool {
	fd, err := r.openPath(path, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return false
	}
	node.CloseFD(fd)
	return true
}

// nameOf returns the virtual path of what fd refers to, from /proc or, without that, by walking path again.
func (r *linuxRoot) nameOf(root, fd int, path string) (string, error) {
	st, err := node.StatFD(fd)
	if err != nil {
		return "", err
	}
	if st.Nlink == 0 {
		return "", unix.ENOENT
	}
	whole, err := readlinkAt(unix.AT_FDCWD, node.ProcFD(fd))
	if err != nil {
		return r.walkedName(root, path)
	}
	top, err := readlinkAt(unix.AT_FDCWD, node.ProcFD(root))
	if err != nil {
		return "", err
	}
	name, under := virtualName(top, whole)
	if !under {
		return "", node.ErrOutside
	}
	return name, r.confirm(name, st)
}

// virtualName removes the root's own path from a path below it.
func virtualName(top, whole string) (name string, under bool) {
	if whole == top {
		return "/", true
	}
	rest, under := strings.CutPrefix(whole, strings.TrimSuffix(top, "/")+"/")
	return "/" + rest, under
}

// confirm checks that name is the file of st: /proc adds " (deleted)" to the name of a deleted file, but that may be a name too.
func (r *linuxRoot) confirm(name string, st Stat) error {
	fd, err := r.openPath(name, unix.O_PATH|unix.O_NOFOLLOW, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		defer node.CloseFD(fd)
		now, err := node.StatFD(fd)
		if err == nil && now.Dev == st.Dev && now.Ino == st.Ino {
			return nil
		}
	}
	if strings.HasSuffix(name, " (deleted)") {
		return unix.ENOENT
	}
	return errRenamed
}

func (r *linuxRoot) walkedName(root int, path string) (string, error) {
	w := r.newWalk(root, path)
	defer w.close()
	w.follow = true
	e, err := w.run()
	if err != nil {
		return "", err
	}
	if e.base != "" && e.fd < 0 {
		return "", unix.ENOENT
	}
	if e.fd >= 0 {
		node.CloseFD(e.fd)
	}
	return w.virtual(e), nil
}
