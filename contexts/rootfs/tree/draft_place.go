package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// Place moves the tree to its place. A place that was missing appears in one step; it fails with EEXIST if it exists by now. A directory
// that exists is filled: its directories stay, and each other name appears, or with overwrite replaces a file or a link, in one step. If a
// name of the draft exists and is not to be replaced, Place fails with EEXIST, EISDIR or ENOTDIR before anything is moved. If it fails
// later, or ctx ends, it moves back what was moved. If the process is killed meanwhile, what was moved stays, and Sweep removes the files that it
// replaced. With overwrite, directories that exist get the attributes of Dir, if they are this
// process's.
func (d *Draft) Place(ctx context.Context, overwrite bool) error {
	if d.base != "" {
		return d.appear()
	}
	st, err := d.place.Lstat("")
	if err != nil {
		return err
	}
	if home, err := d.home.Lstat(""); err != nil || home.ID() != st.ID() {
		return &fserr.Error{Code: fserr.ESTALE, Detail: "the directory was replaced meanwhile", Hint: "repeat the call", Err: err}
	}
	m := &merge{Draft: d, ctx: ctx, overwrite: overwrite, to: &cursor{trail: node.NewTrail(d.place, st.ID())}, kept: map[string]bool{".": true}}
	d.place = nil
	defer m.to.trail.Close()
	return m.run()
}

// appear puts the tree in a place that is missing.
func (d *Draft) appear() error {
	if err := d.settle(d.tree, func(name string) bool { return name != "." }); err != nil {
		return err
	}
	a, has := d.dirs["."]
	if !has {
		a.Mode = draftDirMode
	}
	err := moveDir(d.box, draftTree, d.home, d.base, a.Mode)
	if err == nil && has {
		err = d.home.Utimes(d.base, a.MtimeNs, a.MtimeNs)
	}
	return err
}

// settle gives directories their attributes, those below before those above.
func (d *Draft) settle(in *cursor, wants func(name string) bool) error {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(d.dirs))) {
		if !wants(name) {
			continue
		}
		here, err := in.enter(name, nil)
		if err == nil {
			err = give(here, d.dirs[name])
		}
		if err != nil {
			return AtRel(err, name)
		}
	}
	return nil
}

func give(dir node.Node, a DirAttributes) error {
	if err := dir.Chmod("", a.Mode&0o1777); err != nil {
		return err
	}
	return dir.Utimes("", a.MtimeNs, a.MtimeNs)
}

// moveDir moves a directory and gives it its mode. Its owner must be able to write into a directory that moves.
func moveDir(from node.Node, name string, to node.Node, base string, mode uint32) error {
	const owner = 0o700
	if mode&owner == owner {
		if err := from.Chmod(name, mode); err != nil {
			return err
		}
		return from.MoveTo(name, to, base)
	}
	if err := from.Chmod(name, owner); err != nil {
		return err
	}
	if err := from.MoveTo(name, to, base); err != nil {
		return err
	}
	return to.Chmod(base, mode)
}

// merge moves a draft into a directory that exists.
type merge struct {
	*Draft
	ctx       context.Context
	overwrite bool
	// to is in the place.
	to *cursor
	// kept are the directories that exist in both.
	kept map[string]bool
	// moves are the names to move, done how many of them were moved.
	moves []draftMove
	done  int
}

// draftMove is an entry to move. old says that it replaces one.
type draftMove struct {
	dir, name string
	isDir     bool
	old       bool
}

func (m *merge) run() error {
	if err := m.compare("."); err != nil {
		return err
	}
	if err := m.settle(m.tree, func(name string) bool { return !m.kept[name] }); err != nil {
		return err
	}
	for i := range m.moves {
		err := stopped(m.ctx, "%d names were moved, and moved back", i)
		if err == nil {
			err = m.in(m.moves[i].dir, func(from, to node.Node) error { return m.moves[i].do(from, to, i) })
		}
		if err != nil {
			return errors.Join(AtRel(err, path.Join(m.moves[i].dir, m.moves[i].name)), m.back())
		}
		m.done++
	}
	if !m.overwrite {
		return nil
	}
	return m.attributes()
}

// attributes gives the directories that exist in both those of the draft. To remove the draft changes the times of the place, so that
// is done before.
func (m *merge) attributes() error {
	if err := m.settle(m.to, func(name string) bool { return m.kept[name] && name != "." }); err != nil {
		return Ignoring(err, fserr.EPERM)
	}
	if m.Drop(context.WithoutCancel(m.ctx)) != nil {
		return nil // all is in its place, and the caller's Drop returns the error
	}
	return Ignoring(m.settle(m.to, func(name string) bool { return name == "." }), fserr.EPERM)
}

// compare finds what is to be moved below a directory that exists in both.
func (m *merge) compare(dir string) error {
	if err := stopped(m.ctx, "nothing was moved"); err != nil {
		return err
	}
	here, err := m.tree.enter(dir, nil)
	if err != nil {
		return err
	}
	entries, err := here.Entries(node.Listing{Stats: true, Reserve: m.keep})
	if err != nil {
		return err
	}
	for _, e := range entries {
		rel := path.Join(dir, e.Name)
		both, err := m.entry(dir, e)
		if err != nil {
			return AtRel(err, rel)
		}
		if !both {
			continue
		}
		m.kept[rel] = true
		if err := m.compare(rel); err != nil {
			return err
		}
	}
	return nil
}

// entry decides about an entry of a directory that exists in both. It reports whether the entry is such a directory too.
func (m *merge) entry(dir string, e node.Entry) (both bool, err error) {
	there, err := m.to.enter(dir, nil)
	if err != nil {
		return false, err
	}
	if err := m.reserve(path.Join(dir, e.Name)); err != nil {
		return false, err
	}
	st, err := there.Lstat(e.Name)
	exists := err == nil
	switch {
	case !exists && fserr.CodeOf(err) != fserr.ENOENT:
		return false, err
	case exists && st.IsDir() && e.Stat.IsDir():
		return true, nil
	case exists && st.IsDir():
		return false, &fserr.Error{Code: fserr.EISDIR, Detail: "a file cannot replace a directory"}
	case exists && e.Stat.IsDir():
		return false, &fserr.Error{Code: fserr.ENOTDIR, Detail: "a directory cannot replace a file"}
	case exists && !m.overwrite:
		return false, &fserr.Error{Code: fserr.EEXIST}
	}
	m.moves = append(m.moves, draftMove{dir: dir, name: e.Name, isDir: e.Stat.IsDir(), old: exists})
	return false, nil
}

// in calls f with a directory of the draft and its counterpart.
func (m *merge) in(dir string, f func(from, to node.Node) error) error {
	from, err := m.tree.enter(dir, nil)
	if err != nil {
		return err
	}
	to, err := m.to.enter(dir, nil)
	if err != nil {
		return err
	}
	return f(from.Node, to.Node)
}

// aside is the name in the draft of what move n replaced, where two names cannot be exchanged.
func aside(n int) string { return fmt.Sprintf("%sold-%d", node.ReservedPrefix, n) }

// do moves the entry, as move n, to its place.
func (m *draftMove) do(from, to node.Node, n int) error {
	if m.isDir {
		st, err := from.Lstat(m.name)
		if err != nil {
			return err
		}
		if err := moveDir(from, m.name, to, m.name, st.Perm()); err != nil {
			return err
		}
		return to.Utimes(m.name, st.MtimeNs, st.MtimeNs)
	}
	if !m.old {
		return from.MoveTo(m.name, to, m.name)
	}
	err := from.ExchangeWith(m.name, to, m.name)
	if code := fserr.CodeOf(err); code != fserr.EOPNOTSUPP && code != fserr.EINVAL {
		return err
	}
	// For a moment the name is free.
	if err := to.MoveTo(m.name, from, aside(n)); err != nil {
		return err
	}
	if err := from.MoveTo(m.name, to, m.name); err != nil {
		return errors.Join(err, from.MoveTo(aside(n), to, m.name))
	}
	return nil
}

// undo takes back what do did.
func (m *draftMove) undo(from, to node.Node, n int) error {
	if m.isDir {
		st, err := to.Lstat(m.name)
		if err != nil {
			return err
		}
		return moveDir(to, m.name, from, m.name, st.Perm())
	}
	if !m.old {
		return to.MoveTo(m.name, from, m.name)
	}
	if _, err := from.Lstat(aside(n)); err != nil {
		return from.ExchangeWith(m.name, to, m.name)
	}
	if err := to.MoveTo(m.name, from, m.name); err != nil {
		return err
	}
	return from.MoveTo(aside(n), to, m.name)
}

// back takes all moves back, also when ctx has ended.
func (m *merge) back() error {
	var errs []error
	for m.done--; m.done >= 0; m.done-- {
		move := m.moves[m.done]
		errs = append(errs, m.in(move.dir, func(from, to node.Node) error { return move.undo(from, to, m.done) }))
	}
	return errors.Join(errs...)
}
