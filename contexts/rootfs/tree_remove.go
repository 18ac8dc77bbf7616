package rootfs

import (
	"context"
	"errors"

	"github.com/ctxfs/ctxfs/fserr"
)

// maxRounds bounds how often something is tried again that others keep undoing.
const maxRounds = 16

// remover is one RemoveAll.
type remover struct {
	ctx     context.Context
	trail   *trail
	todo    []removeLevel
	removed int64
	// held is what the names in todo take in memory, in bytes.
	held int64
}

// maxRemoveNames is how much memory the names take that a removal holds, in bytes. Of a directory with more, it removes some
// before it lists the others, but at least a page of getdents64(2) at a time.
const maxRemoveNames = 4 << 20

// errFull ends the listing of a directory that has more names than a removal holds.
var errFull = errors.New("the directory has more names")

// removeLevel is what is left to remove of one directory.
type removeLevel struct {
	name   string
	names  []Entry
	rounds int
	// bytes is what the names take in memory, partial that the directory has more.
	bytes    int64
	partial  bool
	unlocked bool
}

// removeTree is Trees.RemoveAll for every implementation. It stops at the first
// name that cannot be removed. What is added meanwhile is removed as well,
// unless somebody keeps adding (ENOTEMPTY).
func removeTree(ctx context.Context, r Nodes, path string) (int64, error) {
	dir, base, slash, err := r.parent(path)
	if err != nil {
		return 0, err
	}
	if base == "" {
		_ = dir.Close()
		return 0, &fserr.Error{Code: fserr.EBUSY, Detail: "the root of the tree cannot be removed"}
	}
	if Reserved(base) {
		_ = dir.Close()
		return 0, &fserr.Error{Code: fserr.ENOENT}
	}
	st, err := dir.lstat(base)
	if err == nil && slash && !st.IsDir() {
		err = &fserr.Error{Code: fserr.ENOTDIR}
	}
	if err != nil {
		_ = dir.Close()
		return 0, err
	}
	return removeNamed(ctx, dir, Entry{Name: base, Type: st.Type()})
}

// removeNamed removes entries of dir, which it takes over.
func removeNamed(ctx context.Context, dir dirNode, entries ...Entry) (int64, error) {
	m := &remover{ctx: ctx, trail: newTrail(dir, fileID{}), todo: []removeLevel{{names: entries}}}
	defer m.trail.close()
	err := m.run()
	return m.removed, err
}

// run ends when only the level that holds the top entry is left, and it is empty.
func (m *remover) run() error {
	for {
		if err := stopped(m.ctx, "%d entries were removed", m.removed); err != nil {
			return err
		}
		l := &m.todo[len(m.todo)-1]
		var err error
		switch {
		case len(l.names) > 0:
			e := l.names[0]
			l.names = l.names[1:]
			err = m.remove(e)
		case len(m.todo) == 1:
			return nil
		default:
			err = m.finish()
		}
		if err != nil {
			return err
		}
	}
}

// remove removes a name or, of a directory, makes it the current one.
func (m *remover) remove(e Entry) error {
	if e.Type == TypeDirectory {
		return m.enter(removeLevel{name: e.Name})
	}
	gone, err := m.unlink(e.Name)
	if gone || err != nil {
		return err
	}
	return m.enter(removeLevel{name: e.Name})
}

// unlink removes what is no directory; gone is false when it is one.
func (m *remover) unlink(name string) (gone bool, err error) {
	err = m.unlocking(func(here *heldDir) error { return here.unlink(name) })
	switch fserr.CodeOf(err) {
	case 0:
		m.removed++
		return true, nil
	case fserr.ENOENT:
		return true, nil
	case fserr.EISDIR:
		return false, nil
	}
	return false, atRel(err, name)
}

// unlocking does something in the current directory. If that is not permitted it
// makes the directory writable, once, and tries again: a server that is not root
// must be able to delete what it owns, whatever the modes.
func (m *remover) unlocking(do func(*heldDir) error) error {
	here, err := m.trail.here()
	if err != nil {
		return err
	}
	err = do(here)
	l := &m.todo[len(m.todo)-1]
	if fserr.CodeOf(err) != fserr.EACCES || l.unlocked || len(m.todo) == 1 {
		return err
	}
	l.unlocked = true
	if here.chmod("", 0o700) != nil {
		return err
	}
	return do(here)
}

// enter makes the directory l the current one and lists it.
func (m *remover) enter(l removeLevel) error {
	err := m.descend(l.name)
	switch fserr.CodeOf(err) {
	case 0:
	case fserr.ENOENT:
		return nil
	case fserr.ENOTDIR, fserr.ELOOP:
		return m.swapped(l)
	default:
		return atRel(err, l.name)
	}
	m.todo = append(m.todo, l)
	return atRel(m.unlocking(m.list), l.name)
}

// list lists the current directory, or a part of it.
func (m *remover) list(here *heldDir) error {
	l := &m.todo[len(m.todo)-1]
	var err error
	l.names, err = removable(here.dirNode, func(bytes int64) error {
		if l.bytes > 0 && m.held+bytes > maxRemoveNames {
			return errFull
		}
		l.bytes += bytes
		m.held += bytes
		return nil
	})
	if l.partial = errors.Is(err, errFull); l.partial {
		return nil
	}
	return err
}

// descend opens the directory name, if need be after making it accessible.
func (m *remover) descend(name string) error {
	_, err := m.trail.enter(name)
	if fserr.CodeOf(err) != fserr.EACCES {
		return err
	}
	here, hereErr := m.trail.here()
	if hereErr != nil || here.chmod(name, 0o700) != nil {
		return err
	}
	_, err = m.trail.enter(name)
	return err
}

// swapped deals with a directory that turned into something else meanwhile.
func (m *remover) swapped(l removeLevel) error {
	if l.rounds >= maxRounds {
		return &fserr.Error{Code: fserr.EBUSY, Detail: "somebody keeps replacing '" + l.name + "'"}
	}
	l.rounds++
	gone, err := m.unlink(l.name)
	if gone || err != nil {
		return err
	}
	return m.enter(l)
}

// finish removes the current directory, which was emptied, from the one above.
func (m *remover) finish() error {
	l := m.todo[len(m.todo)-1]
	m.todo = m.todo[:len(m.todo)-1]
	m.held -= l.bytes
	m.trail.leave()
	err := m.unlocking(func(here *heldDir) error { return here.rmdir(l.name) })
	switch fserr.CodeOf(err) {
	case 0:
		m.removed++
		return nil
	case fserr.ENOENT:
		return nil
	case fserr.ENOTDIR:
		return m.swapped(removeLevel{name: l.name, rounds: l.rounds})
	case fserr.ENOTEMPTY, fserr.EEXIST:
		switch {
		case l.partial:
			return m.enter(removeLevel{name: l.name, rounds: l.rounds})
		case l.rounds < maxRounds:
			return m.enter(removeLevel{name: l.name, rounds: l.rounds + 1})
		}
	}
	return atRel(err, l.name)
}
