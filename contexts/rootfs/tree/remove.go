package tree

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxRounds bounds how often an operation is repeated that others keep undoing.
const maxRounds = 16

// remover is one RemoveAll.
type remover struct {
	ctx     context.Context
	trail   *node.Trail
	todo    []removeLevel
	removed int64
	// held counts the bytes of memory that the names in todo take.
	held int64
}

// maxRemoveNames bounds the memory of the names that a removal holds, in bytes. Of a directory with more, it removes some before it
// lists the others. It lists at least a page of getdents64(2) at a time.
const maxRemoveNames = 4 << 20

// errFull ends the listing of a directory that has more names than a removal holds.
var errFull = errors.New("the directory has more names")

// removeLevel is what is left to remove of one directory.
type removeLevel struct {
	name   string
	names  []node.Entry
	rounds int
	// bytes is the memory of the names. partial says that the directory has more names.
	bytes    int64
	partial  bool
	unlocked bool
}

// RemoveAll implements rootfs.Root's RemoveAll. It stops at the first name that it cannot remove. It also removes what is added
// meanwhile; if others keep adding, it fails with ENOTEMPTY.
func RemoveAll(ctx context.Context, r Nodes, path string) (int64, error) {
	dir, base, slash, err := r.Parent(path)
	if err != nil {
		return 0, err
	}
	if base == "" {
		_ = dir.Close()
		return 0, &fserr.Error{Code: fserr.EBUSY, Detail: "the root of the tree cannot be removed"}
	}
	if node.Reserved(base) {
		_ = dir.Close()
		return 0, &fserr.Error{Code: fserr.ENOENT}
	}
	st, err := dir.Lstat(base)
	if err == nil && slash && !st.IsDir() {
		err = &fserr.Error{Code: fserr.ENOTDIR}
	}
	if err != nil {
		_ = dir.Close()
		return 0, err
	}
	return RemoveEntries(ctx, dir, node.Entry{Name: base, Type: st.Type()})
}

// RemoveEntries removes entries of dir, which it takes over, and returns how many entries were removed in all.
func RemoveEntries(ctx context.Context, dir node.Node, entries ...node.Entry) (int64, error) {
	m := &remover{ctx: ctx, trail: node.NewTrail(dir, node.FileID{}), todo: []removeLevel{{names: entries}}}
	defer m.trail.Close()
	err := m.run()
	return m.removed, err
}

// run ends when the level of the top entries is the only one left, and is empty.
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

// remove removes a file, or makes a directory the current one.
func (m *remover) remove(e node.Entry) error {
	if e.Type == node.TypeDirectory {
		return m.enter(removeLevel{name: e.Name})
	}
	gone, err := m.unlink(e.Name)
	if gone || err != nil {
		return err
	}
	return m.enter(removeLevel{name: e.Name})
}

// unlink removes a file. gone is false if name is a directory.
func (m *remover) unlink(name string) (gone bool, err error) {
	err = m.unlocking(func(here *node.Held) error { return here.Unlink(name) })
	switch fserr.CodeOf(err) {
	case 0:
		m.removed++
		return true, nil
	case fserr.ENOENT:
		return true, nil
	case fserr.EISDIR:
		return false, nil
	}
	return false, AtRel(err, name)
}

// unlocking calls do with the current directory. On EACCES it makes the directory writable, once, and calls do again: a server that is
// not root must be able to delete what it owns, whatever the modes.
func (m *remover) unlocking(do func(*node.Held) error) error {
	here, err := m.trail.Here()
	if err != nil {
		return err
	}
	err = do(here)
	l := &m.todo[len(m.todo)-1]
	if fserr.CodeOf(err) != fserr.EACCES || l.unlocked || len(m.todo) == 1 {
		return err
	}
	l.unlocked = true
	if here.Chmod("", 0o700) != nil {
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
		return AtRel(err, l.name)
	}
	m.todo = append(m.todo, l)
	return AtRel(m.unlocking(m.list), l.name)
}

// list lists the current directory, or a part of it.
func (m *remover) list(here *node.Held) error {
	l := &m.todo[len(m.todo)-1]
	var err error
	l.names, err = ListAll(here.Node, func(bytes int64) error {
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

// descend opens the directory name. On EACCES it makes the directory accessible first.
func (m *remover) descend(name string) error {
	_, err := m.trail.Enter(name)
	if fserr.CodeOf(err) != fserr.EACCES {
		return err
	}
	here, hereErr := m.trail.Here()
	if hereErr != nil || here.Chmod(name, 0o700) != nil {
		return err
	}
	_, err = m.trail.Enter(name)
	return err
}

// swapped removes a file that replaced a directory meanwhile.
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

// finish removes the current directory, which is empty now, from the one above.
func (m *remover) finish() error {
	l := m.todo[len(m.todo)-1]
	m.todo = m.todo[:len(m.todo)-1]
	m.held -= l.bytes
	m.trail.Leave()
	err := m.unlocking(func(here *node.Held) error { return here.Rmdir(l.name) })
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
	return AtRel(err, l.name)
}

// ListAll lists a directory, reserved names included. An error of reserve ends the listing.
func ListAll(n node.Node, reserve func(bytes int64) error) ([]node.Entry, error) {
	list, err := n.Entries(node.Listing{Reserve: reserve})
	if err != nil {
		return list, err
	}
	hidden, err := n.Reserved()
	for _, name := range hidden {
		list = append(list, node.Entry{Name: name})
	}
	return list, err
}

// Sweep removes, in the whole tree, what interrupted atomic writes left under reserved names. It returns how many entries it removed.
// Call it before the tree is used: a write in progress would lose its file. Sweep skips directories that it cannot read, and names of
// SwapName.
func Sweep(ctx context.Context, r Tree) (int, error) {
	tr, err := nodesOf(r)
	if err != nil {
		return 0, err
	}
	swept, err := sweepDir(ctx, tr, "/")
	if err != nil {
		return swept, err
	}
	err = Walk(ctx, tr, "/", WalkOptions{}, func(rel string, e node.Entry, walkErr error) error {
		if walkErr != nil || e.Type != node.TypeDirectory {
			return nil
		}
		n, err := sweepDir(ctx, tr, rel)
		swept += n
		return err
	})
	return swept, err
}

func sweepDir(ctx context.Context, r Nodes, path string) (int, error) {
	dir, err := r.Node(path, false)
	if err != nil {
		return 0, unlessGone(err)
	}
	names, err := dir.Reserved()
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, swapPrefix) })
	if err != nil || len(names) == 0 {
		_ = dir.Close()
		return 0, unlessGone(err)
	}
	entries := make([]node.Entry, len(names))
	for i, name := range names {
		entries[i].Name = name
	}
	n, err := RemoveEntries(ctx, dir, entries...)
	return int(n), err
}

// unlessGone drops the errors of a directory that vanished or may not be read.
func unlessGone(err error) error {
	if node.Vanished(err) || fserr.CodeOf(err) == fserr.EACCES {
		return nil
	}
	return err
}
