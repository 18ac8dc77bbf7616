package rootfs

import (
	"context"
	"errors"
	"fmt"

	"github.com/ctxfs/ctxfs/fserr"
)

// Tree is what the functions here use of a Root that everybody may use.
type Tree interface {
	Stat(path string) (Stat, error)
	Lstat(path string) (Stat, error)
	Realpath(path string) (string, error)
	OpenFile(path string, flags Flags, mode uint32) (File, error)
}

// Nodes is a Tree that gives access to its directories. Every Root of this module is one.
type Nodes interface {
	Tree
	// node resolves path, a directory, following a final link only when follow.
	node(path string, follow bool) (dirNode, error)
	// parent resolves all but path's last component and returns the directory, that
	// component, and whether path ended in a slash. The component is "" when path
	// is the root itself; "." and ".." at the end are EINVAL.
	parent(path string) (dir dirNode, base string, slash bool, err error)
}

func nodesOf(t Tree) (Nodes, error) {
	n, ok := t.(Nodes)
	if !ok {
		return nil, &fserr.Error{Code: fserr.EOPNOTSUPP}
	}
	return n, nil
}

// walker is one Walk.
type walker struct {
	ctx   context.Context
	opts  WalkOptions
	fn    WalkFunc
	trail *trail
	todo  []walkLevel
	seen  int64
	// held is what the names in todo take in memory, in bytes.
	held int64
	// refused is the error of opts.Reserve, which ends the walk.
	refused error
}

// walkLevel is what is left of one directory.
type walkLevel struct {
	// rel ends in a slash, or is "" for the top.
	rel     string
	entries []Entry
	// bytes is what was reserved for the entries.
	bytes int64
}

// maxTreeLevels bounds how deep a recursive operation goes, in directories: each takes memory. What is deeper is ENAMETOOLONG.
const maxTreeLevels = 100_000

// errTooDeep says what is in the way of a recursive operation.
func errTooDeep() error {
	return &fserr.Error{
		Code: fserr.ENAMETOOLONG, Detail: fmt.Sprintf("directories are nested more than %d deep", maxTreeLevels), Hint: "remove or move the directory that is nested so deep",
	}
}

// walkTree is Trees.Walk for every implementation. Paths longer than MaxPath could not be used, so directories beyond it
// are reported as ENAMETOOLONG, unless opts.Deep.
func walkTree(ctx context.Context, r Nodes, dir string, opts WalkOptions, fn WalkFunc) error {
	top, err := r.node(dir, true)
	if err != nil {
		return err
	}
	st, err := top.lstat("")
	if err != nil {
		_ = top.Close()
		return err
	}
	w := &walker{ctx: ctx, opts: opts, fn: fn, trail: newTrail(top, st.id())}
	defer w.trail.close()
	if err := w.push("", top); err != nil {
		return err
	}
	return w.run()
}

// push lists a directory as the next level. rel ends in a slash, or is "" for the top.
func (w *walker) push(rel string, dir dirNode) error {
	l := walkLevel{rel: rel}
	var err error
	l.entries, err = dir.entries(listOptions{stats: w.opts.Stats, reserve: func(bytes int64) error {
		l.bytes += bytes
		return w.reserve(bytes)
	}})
	if err != nil {
		w.release(l.bytes)
		return err
	}
	w.todo = append(w.todo, l)
	return nil
}

// reserve asks for memory for the names that the walk holds.
func (w *walker) reserve(bytes int64) error {
	w.held += bytes
	if w.opts.Reserve != nil {
		w.refused = w.opts.Reserve(w.held)
	}
	return w.refused
}

// release gives back what a level had reserved.
func (w *walker) release(bytes int64) {
	w.held -= bytes
	if w.opts.Reserve != nil {
		_ = w.opts.Reserve(w.held) // less is never refused
	}
}

func (w *walker) run() error {
	for len(w.todo) > 0 {
		if err := stopped(w.ctx, "%d entries were walked", w.seen); err != nil {
			return err
		}
		l := &w.todo[len(w.todo)-1]
		if len(l.entries) == 0 {
			w.release(l.bytes)
			w.todo = w.todo[:len(w.todo)-1]
			w.trail.leave()
			continue
		}
		e := l.entries[0]
		l.entries = l.entries[1:]
		if err := w.visit(l.rel, e); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) visit(prefix string, e Entry) error {
	if e.Type == TypeUnknown && !w.identify(&e) {
		return nil
	}
	w.seen++
	err := w.fn(prefix+e.Name, e, nil)
	if errors.Is(err, SkipDir) {
		return nil
	}
	if err != nil || e.Type != TypeDirectory || (w.opts.MaxDepth > 0 && len(w.todo) >= w.opts.MaxDepth) {
		return err
	}
	return w.descend(prefix+e.Name, e)
}

// identify finds out the type that the file system did not tell; false when the entry vanished.
func (w *walker) identify(e *Entry) bool {
	here, err := w.trail.here()
	if err != nil {
		return true
	}
	st, err := here.lstat(e.Name)
	if err != nil {
		return !vanished(err)
	}
	e.Type = st.Type()
	return true
}

// descend makes the directory just reported the current one, or reports why it cannot.
func (w *walker) descend(rel string, e Entry) error {
	err := w.enter(rel, e)
	switch {
	case w.refused != nil: // what was listed so far is not all, and no reason to go on
		return w.refused
	case err == nil || vanished(err):
		return nil
	}
	if err = w.fn(rel, e, err); errors.Is(err, SkipDir) {
		return nil
	}
	return err
}

func (w *walker) enter(rel string, e Entry) error {
	prefix := rel + "/"
	switch {
	case w.trail.depth() >= maxTreeLevels:
		return errTooDeep()
	case len(prefix) < MaxPath:
	case !w.opts.Deep:
		return &fserr.Error{Code: fserr.ENAMETOOLONG}
	default: // the path of a directory for each level would take memory by the square of the depth
		prefix = w.todo[len(w.todo)-1].rel
	}
	if _, err := w.trail.enter(e.Name); err != nil {
		return err
	}
	here, err := w.trail.here()
	if err != nil {
		return err
	}
	if err := w.push(prefix, here); err != nil {
		w.trail.leave()
		return err
	}
	return nil
}
