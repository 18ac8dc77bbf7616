package rootfs

import (
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// moveDir renames a directory of a lower layer, for which rename(2) fails with EXDEV on overlayfs without redirect_dir. It builds the
// directory again beside its new place, with links to the same files, so that open files stay the same. It renames that in one step and
// then removes the old names. After a crash, the old directory is whole if the rename was not made, else the new one. What a crash leaves
// has reserved names, and tree.Sweep removes it.
//
// Names that are created in the old directory meanwhile are moved too. Both directories are visible until moveDir returns.
func (r *linuxRoot) moveDir(from, to place) error {
	st, err := movable(from, to)
	if err != nil {
		return err
	}
	// rename(2) does not check the modes of what it moves.
	return namespaces.WithCapabilities(func() error {
		m := &mover{root: r, from: from, to: to, tmp: tmpName()}
		err := m.build(st)
		if err == nil {
			err = unix.Renameat(to.dir, m.tmp, to.dir, to.base)
		}
		if err != nil {
			return errors.Join(err, m.abandon())
		}
		if err := m.clear(); err != nil {
			return fmt.Errorf("%w: %w", ErrHalfMoved, err)
		}
		return nil
	})
}

// movable checks whether moveDir can make a rename that failed with EXDEV. It returns the error of rename(2) if not.
func movable(from, to place) (Stat, error) {
	st, err := node.StatAt(from.dir, from.base)
	if err != nil {
		return st, err
	}
	source, err1 := node.StatFD(from.dir)
	target, err2 := node.StatFD(to.dir)
	if err := errors.Join(err1, err2); err != nil {
		return st, err
	}
	if !st.IsDir() || source.Dev != target.Dev || st.Dev != source.Dev || !onOverlay(from.dir) {
		return st, unix.EXDEV
	}
	if err := mayMove(from, to, source.ID() != target.ID()); err != nil {
		return st, err
	}
	return st, free(to)
}

func onOverlay(dir int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(dir, &fs) == nil && int64(fs.Type) == unix.OVERLAYFS_SUPER_MAGIC //nolint:unconvert // the types differ between systems
}

// mayMove checks the rights that rename(2) needs.
func mayMove(from, to place, parentChanges bool) error {
	for _, dir := range []int{from.dir, to.dir} {
		if err := unix.Faccessat(dir, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
			return err
		}
	}
	if !parentChanges {
		return nil
	}
	return unix.Faccessat(from.dir, from.base, unix.W_OK, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW)
}

// free refuses a place with something that a directory cannot replace. The rename at the end checks again.
func free(to place) error {
	st, err := node.StatAt(to.dir, to.base)
	switch {
	case err == unix.ENOENT:
		return nil
	case err != nil:
		return err
	case !st.IsDir():
		return unix.ENOTDIR
	}
	fd, err := node.OpenAt(to.dir, to.base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	n := &fdNode{fd: fd}
	entries, err := n.list(node.Listing{}, visible)
	node.CloseFD(fd)
	if err == nil && len(entries) > 0 {
		return unix.ENOTEMPTY
	}
	return err
}

// moveWorkers is how many files are linked at once: overlayfs waits for the disk for each file that it copies up.
const moveWorkers = 16

// mover is one moveDir.
type mover struct {
	root     *linuxRoot
	from, to place
	tmp      string
	// linked has the files of the new directory that are links to the old.
	linked   map[string]tree.LinkedFile
	src, dst *node.Trail
	// left counts the names that this pass may still remove or move.
	left int
}

// build builds the new directory under a reserved name.
func (m *mover) build(st Stat) error {
	if err := m.root.mkdirAt(m.to.dir, m.tmp, 0o700); err != nil {
		return err
	}
	src, own, err := m.open(m.from, m.from.base)
	if err != nil {
		return err
	}
	defer src.Close()
	if own.ID() != st.ID() {
		return errBusy // another one is there now
	}
	dst, _, err := m.open(m.to, m.tmp)
	if err != nil {
		return err
	}
	defer dst.Close()
	m.linked, err = tree.LinkFiles(m.root, src, dst, moveWorkers)
	return err
}

// open starts a trail at the directory name of p.
func (m *mover) open(p place, name string) (*node.Trail, Stat, error) {
	fd, err := node.OpenAt(p.dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, Stat{}, err
	}
	st, err := node.StatFD(fd)
	if err != nil {
		node.CloseFD(fd)
		return nil, st, err
	}
	return node.NewTrail(newFDNode(fd, m.root), st.ID()), st, nil
}

// abandon removes what build made.
func (m *mover) abandon() error {
	dir, err := node.OpenAt(m.to.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	_, err = tree.RemoveEntries(context.Background(), newFDNode(dir, m.root), Entry{Name: m.tmp, Type: TypeDirectory})
	return err
}

// An emulated rename empties the old directory in passes. The first freePasses let others create names meanwhile. In each of
// the others, up to maxPasses, nothing is created through this Root, which bounds the pass to passEntries names.
const (
	freePasses  = 2
	maxPasses   = 256
	passEntries = 1024
)

// errMore ends a pass that has handled passEntries names.
var errMore = errors.New("more remains to be moved")

// clear removes the old directory, and moves what was created in it meanwhile to the new one. It fails with EBUSY if a program that does
// not use this Root fills the old directory faster than the passes empty it.
func (m *mover) clear() error {
	dst, _, err := m.open(m.to, m.to.base)
	if err != nil {
		return err
	}
	defer dst.Close()
	m.dst = dst
	for n := range maxPasses {
		err = m.pass(n >= freePasses)
		if !errors.Is(err, errMore) && fserr.CodeOf(err) != fserr.ENOTEMPTY {
			return err
		}
	}
	return errBusy
}

// pass removes what the old directory has, and then the directory. Nothing that was created before that is lost: rmdir fails with
// ENOTEMPTY while there is a name. With alone, no name is created through this Root meanwhile.
func (m *mover) pass(alone bool) error {
	m.left = math.MaxInt
	if alone {
		m.root.creating.Lock()
		defer m.root.creating.Unlock()
		m.left = passEntries
	}
	src, _, err := m.open(m.from, m.from.base)
	if err != nil {
		return tree.Ignoring(err, fserr.ENOENT)
	}
	defer src.Close()
	m.src = src
	if err := m.clearHere(""); err != nil {
		return err
	}
	return tree.Ignoring(unix.Unlinkat(m.from.dir, m.from.base, unix.AT_REMOVEDIR), fserr.ENOENT)
}

// clearHere clears the current directory of the old tree. rel is its path, ending in a slash, or "".
func (m *mover) clearHere(rel string) error {
	src, err := m.src.Here()
	if err != nil {
		return err
	}
	entries, err := tree.ListAll(src.Node, nil)
	for _, e := range entries {
		if err := m.clearEntry(rel, e.Name); errors.Is(err, errMore) {
			return err
		} else if err != nil {
			return tree.AtRel(err, rel+e.Name)
		}
	}
	return err
}

func (m *mover) clearEntry(rel, name string) error {
	if m.left <= 0 {
		return errMore
	}
	src, err := m.src.Here()
	if err != nil {
		return err
	}
	st, err := src.Lstat(name)
	if err != nil {
		return tree.Ignoring(err, fserr.ENOENT)
	}
	moved := m.linked[rel+name]
	switch {
	case st.IsDir():
		return m.clearDir(rel, name)
	case st.ID() == moved[0], st.ID() == moved[1], Reserved(name):
		m.left--
		return tree.Ignoring(src.Unlink(name), fserr.ENOENT)
	}
	return m.follow(name)
}

// clearDir empties and removes a directory of the old tree. It moves one that the new tree does not have. The next pass removes one that
// got a new name meanwhile.
func (m *mover) clearDir(rel, name string) error {
	if _, err := m.dst.Enter(name); fserr.CodeOf(err) == fserr.ENOENT {
		return m.follow(name)
	} else if err != nil {
		return err
	}
	defer m.dst.Leave()
	if _, err := m.src.Enter(name); err != nil {
		return tree.Ignoring(err, fserr.ENOENT)
	}
	err := m.clearHere(rel + name + "/")
	m.src.Leave()
	if err != nil {
		return err
	}
	src, err := m.src.Here()
	if err != nil {
		return err
	}
	m.left--
	return tree.Ignoring(src.Rmdir(name), fserr.ENOENT, fserr.ENOTEMPTY)
}

// follow moves what was created in the old directory meanwhile.
func (m *mover) follow(name string) error {
	m.left--
	src, err := m.src.Here()
	if err != nil {
		return err
	}
	dst, err := m.dst.Here()
	if err != nil {
		return err
	}
	in, ok1 := src.Node.(*fdNode)
	out, ok2 := dst.Node.(*fdNode)
	if !ok1 || !ok2 {
		return unix.EXDEV
	}
	return tree.Ignoring(unix.Renameat(in.fd, name, out.fd, name), fserr.ENOENT)
}
