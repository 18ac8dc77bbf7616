package rootfs

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// maxLinks bounds the links followed by one resolution, as in path_resolution(7).
const maxLinks = 40

// pathWalk resolves a path component by component from held descriptors. It
// never opens "..": leaving a directory is dropping its descriptor, so that a
// directory moved meanwhile cannot lead out of the tree.
type pathWalk struct {
	root    int
	mount   mount
	mounts  bool // may cross mount points
	noLinks bool // a link anywhere is ELOOP
	follow  bool // follow a final link
	held    []heldStep
	rest    []string
	mustDir bool // the path, or the last link, ended in a slash
	links   int
}

// heldStep is a directory below the root, by its own descriptor.
type heldStep struct {
	fd   int
	name string
}

// ending is where a walk ended: at base in the directory dir (held by the
// walk), or at dir itself when base is "". fd is an O_PATH descriptor of base, -1 when
// nothing stands there; it belongs to the walk until taken.
type ending struct {
	dir  int
	base string
	fd   int
	mode uint32
}

// push puts a path in front of what remains to be resolved.
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

func (w *pathWalk) top() int {
	if len(w.held) == 0 {
		return w.root
	}
	return w.held[len(w.held)-1].fd
}

// rewind goes back to the root, where an absolute link's target starts.
func (w *pathWalk) rewind() {
	for _, s := range w.held {
		closeFD(s.fd)
	}
	w.held = nil
}

func (w *pathWalk) up() error {
	if len(w.held) == 0 {
		return errOutside
	}
	closeFD(w.top())
	w.held = w.held[:len(w.held)-1]
	return nil
}

// run resolves what was pushed. The caller calls rewind when it is done.
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
	return ending{dir: w.top(), fd: -1, mode: unix.S_IFDIR}, nil
}

// step resolves one component, which is the last when nothing remains.
func (w *pathWalk) step(name string) (e ending, done bool, err error) {
	last := len(w.rest) == 0
	e = ending{dir: w.top(), base: name, fd: -1}
	if Reserved(name) {
		return e, false, unix.ENOENT
	}
	e.fd, err = openAt(e.dir, name, unix.O_PATH, 0)
	if err == unix.ENOENT && last {
		e.fd = -1
		return e, true, nil
	}
	if err != nil {
		return e, false, err
	}
	done, err = w.enter(&e, last)
	if !done && e.fd >= 0 {
		closeFD(e.fd)
	}
	return e, done, err
}

// enter decides by e's type; it takes e.fd when it keeps it.
func (w *pathWalk) enter(e *ending, last bool) (done bool, err error) {
	if err := w.admit(e); err != nil {
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
	w.held = append(w.held, heldStep{e.fd, e.base})
	e.fd = -1
	return false, nil
}

// admit reads e's type and refuses what is on another mount.
func (w *pathWalk) admit(e *ending) (err error) {
	var m mount
	e.mode, m, err = kindAndMount(e.fd)
	if err != nil || w.mounts || m == w.mount {
		return err
	}
	// Without mount ids a device is all there is; overlay gives files one of their own.
	if !m.byID && e.mode&unix.S_IFMT != unix.S_IFDIR {
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
	if target[0] == '/' {
		w.rewind()
	}
	w.push(target)
	return nil
}

// virtual is the absolute virtual path of an ending, by the names walked.
func (w *pathWalk) virtual(e ending) string {
	var b strings.Builder
	for _, s := range w.held {
		b.WriteString("/" + s.name)
	}
	if e.base != "" {
		b.WriteString("/" + e.base)
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}
