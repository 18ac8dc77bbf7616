package rootfs

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// moveDir does what rename(2) refuses with EXDEV where overlayfs has no redirect_dir: it renames a
// directory that comes, or may come, from a lower layer. It builds the directory anew beside its new
// place, out of links to the same files, so that open files and what is written to them go along;
// renames that, at once; and takes the old names away. A crash leaves the old directory whole until the
// rename, and from then on the new one; what it leaves beside it is swept as an atomic write's file is.
//
// What is put into the old directory meanwhile follows it. Until moveDir returns both can be seen.
func (r *linuxRoot) moveDir(from, to place) error {
	st, err := movable(from, to)
	if err != nil {
		return err
	}
	// The modes of what is moved are not asked by rename(2).
	return namespaces.WithCapabilities(func() error {
		m := &mover{root: r, from: from, to: to, tmp: tmpName()}
		err := m.build(st)
		if err == nil {
			err = unix.Renameat(to.dir, m.tmp, to.dir, to.base)
		}
		if err != nil {
			return errors.Join(err, m.abandon())
		}
		return m.clear()
	})
}

// movable tells whether a refused rename is one to do by hand, EXDEV when it is not, and what rename(2) would
// have said of it.
func movable(from, to place) (Stat, error) {
	st, err := statAt(from.dir, from.base)
	if err != nil {
		return st, err
	}
	source, err1 := statFD(from.dir)
	target, err2 := statFD(to.dir)
	if err := errors.Join(err1, err2); err != nil {
		return st, err
	}
	if !st.IsDir() || source.Dev != target.Dev || st.Dev != source.Dev || !onOverlay(from.dir) {
		return st, unix.EXDEV
	}
	if err := mayMove(from, to, source.id() != target.id()); err != nil {
		return st, err
	}
	return st, free(to)
}

func onOverlay(dir int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(dir, &fs) == nil && int64(fs.Type) == unix.OVERLAYFS_SUPER_MAGIC //nolint:unconvert // the types differ between systems
}

// mayMove asks for the rights that rename(2) needs.
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

// free refuses a place where something stands that a directory cannot replace; the rename at the end looks again.
func free(to place) error {
	st, err := statAt(to.dir, to.base)
	switch {
	case err == unix.ENOENT:
		return nil
	case err != nil:
		return err
	case !st.IsDir():
		return unix.ENOTDIR
	}
	fd, err := openAt(to.dir, to.base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	n := &fdNode{fd: fd}
	entries, err := n.list(visible)
	closeFD(fd)
	if err == nil && len(entries) > 0 {
		return unix.ENOTEMPTY
	}
	return err
}

// moveWorkers is how many files are linked at once: overlayfs waits for the disk at each that it copies up.
const moveWorkers = 16

// mover is one moveDir.
type mover struct {
	root     *linuxRoot
	from, to place
	tmp      string
	// linked are the files of the new directory that came from the old.
	linked   linker
	src, dst *trail
}

// build makes the new directory under a reserved name.
func (m *mover) build(st Stat) error {
	if err := m.root.mkdirAt(m.to.dir, m.tmp, 0o700); err != nil {
		return err
	}
	src, own, err := m.open(m.from, m.from.base)
	if err != nil {
		return err
	}
	defer src.close()
	if own.id() != st.id() {
		return errBusy // somebody put another one there
	}
	dst, made, err := m.open(m.to, m.tmp)
	if err != nil {
		return err
	}
	defer dst.close()
	ctx, abort := context.WithCancelCause(context.Background())
	defer abort(nil)
	m.linked.files = map[string]linkedFile{}
	opts := CopyOptions{PreserveTimestamps: true, PreserveXattrs: true, Workers: moveWorkers}
	c := &copier{
		ctx: ctx, abort: abort, from: m.root, opts: opts, tally: newTally(opts),
		guard: made.id(), srcTrail: src, dstTrail: dst, linker: &m.linked,
	}
	c.workers.SetLimit(moveWorkers)
	return c.copyDirs(own, true)
}

// open starts a trail at the directory name of p.
func (m *mover) open(p place, name string) (*trail, Stat, error) {
	fd, err := openAt(p.dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, Stat{}, err
	}
	st, err := statFD(fd)
	if err != nil {
		closeFD(fd)
		return nil, st, err
	}
	return newTrail(newFDNode(fd, m.root), st.id()), st, nil
}

// abandon removes what build made.
func (m *mover) abandon() error {
	dir, err := openAt(m.to.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	_, err = removeNamed(context.Background(), newFDNode(dir, m.root), Entry{Name: m.tmp, Type: TypeDirectory})
	return err
}

// clear takes the old directory away, and what was put into it since into the new one.
func (m *mover) clear() error {
	src, _, err := m.open(m.from, m.from.base)
	if err != nil {
		return ignoring(err, fserr.ENOENT)
	}
	defer src.close()
	dst, _, err := m.open(m.to, m.to.base)
	if err != nil {
		return err
	}
	defer dst.close()
	m.src, m.dst = src, dst
	return m.emptied("", func() error { return unix.Unlinkat(m.from.dir, m.from.base, unix.AT_REMOVEDIR) })
}

// emptied empties the current directory of the old tree and has remove take it away, again when somebody put something
// there in between. From the second time on nobody may (EACCES, where it will soon be ENOENT): who creates files in a
// loop would never let it end.
func (m *mover) emptied(rel string, remove func() error) error {
	err := error(unix.ENOTEMPTY)
	for round := range maxRounds {
		if err := m.seal(round > 0); err != nil {
			return err
		}
		if err := m.clearHere(rel); err != nil {
			return err
		}
		if err = ignoring(remove(), fserr.ENOENT); fserr.CodeOf(err) != fserr.ENOTEMPTY {
			return err
		}
	}
	return err
}

// seal keeps clients from creating anything in the current directory of the old tree.
func (m *mover) seal(now bool) error {
	if !now {
		return nil
	}
	src, err := m.src.here()
	if err != nil {
		return err
	}
	return src.chmod("", 0o500)
}

// clearHere clears what the current directory of the old tree holds now; rel is its path, ending in a slash, or "".
func (m *mover) clearHere(rel string) error {
	src, err := m.src.here()
	if err != nil {
		return err
	}
	entries, err := removable(src.dirNode)
	for _, e := range entries {
		if err := m.clearEntry(rel, e.Name); err != nil {
			return atRel(err, rel+e.Name)
		}
	}
	return err
}

func (m *mover) clearEntry(rel, name string) error {
	src, err := m.src.here()
	if err != nil {
		return err
	}
	st, err := src.lstat(name)
	if err != nil {
		return ignoring(err, fserr.ENOENT)
	}
	moved := m.linked.files[rel+name]
	switch {
	case st.IsDir():
		return m.clearDir(rel, name)
	case st.id() == moved[0], st.id() == moved[1], Reserved(name):
		return ignoring(src.unlink(name), fserr.ENOENT)
	}
	return m.follow(name)
}

// clearDir empties and removes a directory of the old tree. One that the new tree does not have was made since.
func (m *mover) clearDir(rel, name string) error {
	if _, err := m.dst.enter(name); fserr.CodeOf(err) == fserr.ENOENT {
		return m.follow(name)
	} else if err != nil {
		return err
	}
	defer m.dst.leave()
	if _, err := m.src.enter(name); err != nil {
		return ignoring(err, fserr.ENOENT)
	}
	return m.emptied(rel+name+"/", func() error {
		m.src.leave()
		src, err := m.src.here()
		if err == nil {
			err = src.rmdir(name)
		}
		if fserr.CodeOf(err) != fserr.ENOTEMPTY {
			return err
		}
		if _, again := m.src.enter(name); again != nil {
			return again
		}
		return err
	})
}

// follow moves what came into the old directory meanwhile.
func (m *mover) follow(name string) error {
	src, err := m.src.here()
	if err != nil {
		return err
	}
	dst, err := m.dst.here()
	if err != nil {
		return err
	}
	in, ok1 := src.dirNode.(*fdNode)
	out, ok2 := dst.dirNode.(*fdNode)
	if !ok1 || !ok2 {
		return unix.EXDEV
	}
	return ignoring(unix.Renameat(in.fd, name, out.fd, name), fserr.ENOENT)
}
