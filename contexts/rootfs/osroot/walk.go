package osroot

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxLinks bounds the links followed for one path, as MAXSYMLINKS does on Linux.
const maxLinks = 40

// walkMode says how a path is resolved.
type walkMode struct {
	// follow follows a final link.
	follow bool
	// noLinks makes any link ELOOP.
	noLinks bool
	// name leaves a final slash to the caller: the last component is neither followed nor checked, only reported.
	name bool
	// create makes a reserved final name EACCES instead of ENOENT.
	create bool
}

// position is where a path leads. The holder closes dir.
type position struct {
	dir *dirNode
	// base is the last component, in dir, or "" if the path is dir itself.
	base string
	// dot is how such a path ended: "/", "." or "..".
	dot string
	// slash says that the path, or the last link's target, ended in a slash.
	slash bool
	// info describes base itself; nil if there is no such name.
	info os.FileInfo
}

func (p position) exists() bool { return p.base == "" || p.info != nil }

func (p position) isDir() bool { return p.base == "" || (p.info != nil && p.info.IsDir()) }

func (p position) isLink() bool { return p.info != nil && p.info.Mode()&os.ModeSymlink != 0 }

// name returns base as a path below dir.
func (p position) name() string {
	if p.base == "" {
		return "."
	}
	return p.base
}

// missing returns ENOENT if nothing exists at the position.
func (p position) missing() error {
	if p.exists() {
		return nil
	}
	return fserr.ENOENT
}

// pathWalk is the resolution of one path.
type pathWalk struct {
	root  *Root
	mode  walkMode
	trail *node.Trail
	todo  []string
	dot   string
	slash bool
	links int
}

// at resolves path, calls fn with where it leads and converts fn's error.
func (r *Root) at(path string, mode walkMode, fn func(position) error) error {
	pos, err := r.walk(path, mode)
	if err != nil {
		return osError(err)
	}
	defer func() { _ = pos.dir.Close() }()
	return osError(fn(pos))
}

// existing is at for a path that must exist.
func (r *Root) existing(path string, follow bool, fn func(position) error) error {
	return r.at(path, walkMode{follow: follow}, func(p position) error {
		if err := p.missing(); err != nil {
			return err
		}
		return fn(p)
	})
}

func (r *Root) walk(path string, mode walkMode) (position, error) {
	if err := node.CheckPath(path); err != nil {
		return position{}, err
	}
	top, err := r.openTop()
	if err != nil {
		return position{}, err
	}
	w := &pathWalk{root: r, mode: mode, trail: node.NewTrail(top, top.id), dot: "/"}
	defer w.trail.Close()
	w.push(path)
	pos, err := w.run()
	if err != nil {
		return pos, err
	}
	dir, err := w.trail.Take()
	if err != nil {
		return pos, err
	}
	pos.dir = dir.(*dirNode)
	return pos, nil
}

func checkComponent(name string) error {
	if len(name) > node.MaxName {
		return fserr.ENAMETOOLONG
	}
	if runtime.GOOS == "windows" && (strings.ContainsAny(name, `\:`) || !filepath.IsLocal(name)) {
		return fserr.EINVAL
	}
	return nil
}

// push puts path's components before those in todo. If todo is empty, a final slash of path counts for the whole path.
func (w *pathWalk) push(path string) {
	if len(w.todo) == 0 && strings.HasSuffix(path, "/") {
		w.slash = true
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	w.todo = append(parts, w.todo...)
}

// here returns the directory reached.
func (w *pathWalk) here() (*dirNode, error) {
	d, err := w.trail.Here()
	if err != nil {
		return nil, err
	}
	return d.Node.(*dirNode), nil
}

func (w *pathWalk) run() (position, error) {
	for len(w.todo) > 0 {
		name := w.todo[0]
		w.todo = w.todo[1:]
		if name == "." || name == ".." {
			if err := w.dots(name); err != nil {
				return position{}, err
			}
			continue
		}
		pos, done, err := w.step(name, len(w.todo) == 0)
		if done || err != nil {
			return pos, err
		}
	}
	return position{dot: w.dot, slash: w.slash}, nil
}

func (w *pathWalk) dots(name string) error {
	w.dot = name
	if name == "." {
		return nil
	}
	if w.trail.Depth() == 0 {
		return node.ErrOutside
	}
	w.trail.Leave()
	return nil
}

// step resolves one component that is a name. done says that it was the last.
func (w *pathWalk) step(name string, last bool) (pos position, done bool, err error) {
	if err := w.admit(name, last); err != nil {
		return pos, false, err
	}
	here, err := w.here()
	if err != nil {
		return pos, false, err
	}
	info, err := here.dir.Lstat(name)
	if err != nil && last && codeOf(err) == fserr.ENOENT {
		return position{base: name, slash: w.slash}, true, nil
	}
	if err != nil {
		return pos, false, err
	}
	if info.Mode()&os.ModeSymlink != 0 && w.follows(last) {
		return pos, false, w.link(here, name)
	}
	if !last {
		return pos, false, w.enter(here, name, info)
	}
	if w.slash && !w.mode.name && !info.IsDir() {
		return pos, false, fserr.ENOTDIR
	}
	if err := w.sameMount(here, name, info.IsDir()); err != nil {
		return pos, false, err
	}
	return position{base: name, slash: w.slash, info: info}, true, nil
}

// sameMount refuses a last component that is a mount point. The system itself refuses to change the name of one.
func (w *pathWalk) sameMount(here *dirNode, name string, isDir bool) error {
	if w.mode.name || w.root.opts.FollowMounts {
		return nil
	}
	m, err := osMount(here, name)
	if err == nil && !here.admits(m, isDir) {
		err = fserr.EXDEV
	}
	return err
}

func (w *pathWalk) admit(name string, last bool) error {
	if err := checkComponent(name); err != nil {
		return err
	}
	if !node.Reserved(name) {
		return nil
	}
	if last && w.mode.create {
		return fserr.EACCES
	}
	return fserr.ENOENT
}

func (w *pathWalk) follows(last bool) bool {
	return !last || w.mode.noLinks || w.mode.follow || (w.slash && !w.mode.name)
}

func (w *pathWalk) link(here *dirNode, name string) error {
	w.links++
	if w.mode.noLinks || w.links > maxLinks {
		return fserr.ELOOP
	}
	target, err := here.Readlink(name)
	if err != nil {
		return err
	}
	if target == "" {
		return fserr.ENOENT
	}
	target = filepath.ToSlash(target)
	if filepath.VolumeName(target) != "" {
		return node.ErrOutside
	}
	if strings.HasPrefix(target, "/") {
		w.trail.Rewind()
		w.dot = "/"
	}
	w.push(target)
	return nil
}

func (w *pathWalk) enter(here *dirNode, name string, info os.FileInfo) error {
	if !info.IsDir() {
		return fserr.ENOTDIR
	}
	child, err := here.enter(name, info)
	if err != nil {
		return err
	}
	if err := w.trail.Descend(name, child, child.id); err != nil {
		_ = child.Close()
		return err
	}
	return nil
}
