package tree

import (
	"errors"
	"path"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxSwapDirs bounds the directories that one Dirs has open: the files of an Apply can lie in thousands.
const maxSwapDirs = 256

// Dirs keeps the directories of swaps open from one step to the next. It closes some of them when there are too many, and opens them again.
// A directory that is another one by then fails with ErrOccupied. It is safe for concurrent use.
type Dirs struct {
	tree Tree
	mu   sync.Mutex
	open map[string]*swapDir
	// moved has the present paths of directories that StageAway's swaps took away.
	moved map[string]string
}

// swapDir is an open directory with the number of steps that use it.
type swapDir struct {
	node.Node
	st    node.Stat
	users int
}

// NewDirs returns the directories of a tree. Close it after the last step of its swaps.
func NewDirs(r Tree) *Dirs {
	return &Dirs{tree: r, open: map[string]*swapDir{}, moved: map[string]string{}}
}

// Close closes the directories. Closing again does nothing.
func (d *Dirs) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, one := range d.open {
		errs = append(errs, one.Close())
	}
	clear(d.open)
	return errors.Join(errs...)
}

// hold opens the directory of p, until release is called.
func (d *Dirs) hold(p string) (*swapDir, error) {
	name := path.Dir(p)
	if one := d.use(name, nil); one != nil {
		return one, nil
	}
	open := directoryOf
	at := d.place(name)
	if at != name {
		open = parentOf
	}
	dir, err := open(d.tree, path.Join(at, path.Base(p)))
	if err != nil {
		return nil, err
	}
	st, err := dir.Lstat("")
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return d.use(name, &swapDir{Node: dir, st: st}), nil
}

// move records where a directory is now.
func (d *Dirs) move(dir, to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.moved[dir] = to
}

// place returns where a directory is now.
func (d *Dirs) place(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir := name; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if to, ok := d.moved[dir]; ok {
			return to + name[len(dir):]
		}
	}
	return name
}

// use returns the open directory of that name. If there is none it is opened, which may be nil.
func (d *Dirs) use(name string, opened *swapDir) *swapDir {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.open[name]
	switch {
	case one == nil && opened == nil:
		return nil
	case one == nil:
		d.evict()
		one, d.open[name] = opened, opened
	case opened != nil: // another step was faster
		_ = opened.Close() // nothing was written through it
	}
	one.users++
	return one
}

// evict makes room for a directory.
func (d *Dirs) evict() {
	for name, one := range d.open {
		if len(d.open) < maxSwapDirs {
			return
		}
		if one.users == 0 {
			_ = one.Close() // closing a directory writes nothing
			delete(d.open, name)
		}
	}
}

func (d *Dirs) release(one *swapDir) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one.users--
}

// hold opens the swap's directory for a step. It fails with ErrOccupied if that is gone, or another one.
func (s *Swap) hold() (release func(), err error) {
	dir, err := s.dirs.hold(s.path)
	if isGone(err) {
		return nil, ErrOccupied
	}
	if err != nil {
		return nil, err
	}
	if s.home != (identity{}) && s.home != identityOf(dir.st) {
		s.dirs.release(dir)
		return nil, ErrOccupied
	}
	s.home, s.dir = identityOf(dir.st), dir
	return func() { s.dirs.release(dir) }, nil
}

// identity tells directories apart.
type identity struct{ dev, ino uint64 }

func identityOf(st node.Stat) identity { return identity{st.Dev, st.Ino} }

// isGone reports whether an error says that a directory is not there any more.
func isGone(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ENOENT || code == fserr.ENOTDIR || code == fserr.ELOOP
}
