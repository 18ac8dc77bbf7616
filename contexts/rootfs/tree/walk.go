// Package tree does the recursive work of rootfs: it walks, copies, removes and sweeps trees, directory by directory.
//
// It reaches a tree through held directories (Nodes) only, and never follows a link out of it. Depth costs it no descriptors (see
// node.Trail), and the names that it holds are counted.
package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// Tree is the part of a rootfs.Root that copies use.
type Tree interface {
	Stat(path string) (node.Stat, error)
	Lstat(path string) (node.Stat, error)
	Realpath(path string) (string, error)
	OpenFile(path string, flags node.Flags, mode uint32) (node.File, error)
}

// Nodes is a Tree that gives access to its directories. Each rootfs.Root is one.
type Nodes interface {
	Tree
	// Node opens path, a directory, following a final link only with follow.
	Node(path string, follow bool) (node.Node, error)
	// Parent resolves all but path's last component and returns the directory, that component, and whether path ended in a slash. The
	// component is "" if path is the root itself. "." and ".." at the end are EINVAL.
	Parent(path string) (dir node.Node, base string, slash bool, err error)
}

func nodesOf(t Tree) (Nodes, error) {
	n, ok := t.(Nodes)
	if !ok {
		return nil, &fserr.Error{Code: fserr.EOPNOTSUPP}
	}
	return n, nil
}

// WalkOptions of Walk.
type WalkOptions struct {
	// Stats fills Entry.Stat.
	Stats bool
	// Deep enters directories whose path is longer than MaxPath too. Their entries are reported with the path of the last directory
	// above that a path can name.
	Deep bool
	// Sorted reports the entries of a directory by name, byte by byte. Without it they come as the file system lists them.
	Sorted bool
	// All reports reserved names too, which any program may give its files.
	All bool
	// MaxDepth bounds the recursion. 1 lists dir alone; 0 means no bound beyond MaxPath.
	MaxDepth int
	// Reserve is called with the bytes of memory that the walk's names take, when that changes. If it fails when they become more, the
	// walk ends with its error. May be nil.
	Reserve func(bytes int64) error
}

// WalkFunc receives an entry and its path relative to the walked directory, without a leading slash. err says why a directory, whose
// entry was reported before, could not be read. If WalkFunc then returns nil, the walk continues without it.
type WalkFunc func(rel string, e node.Entry, err error) error

// SkipDir as a WalkFunc's result skips the directory's content.
const SkipDir = walkSignal("skip this directory")

type walkSignal string

func (s walkSignal) Error() string { return string(s) }

// walker is one Walk.
type walker struct {
	ctx   context.Context
	opts  WalkOptions
	fn    WalkFunc
	trail *node.Trail
	todo  []walkLevel
	seen  int64
	// held counts the bytes of memory that the names in todo take.
	held int64
	// refused is the error of opts.Reserve that ends the walk.
	refused error
}

// walkLevel is what is left of one directory.
type walkLevel struct {
	// rel ends in a slash, or is "" for the top.
	rel     string
	entries []node.Entry
	// bytes is the memory that is reserved for the entries.
	bytes int64
}

// maxTreeLevels bounds how many directories deep an operation goes, since each takes memory. Beyond it is ENAMETOOLONG.
const maxTreeLevels = 100_000

func errTooDeep() error {
	return &fserr.Error{
		Code: fserr.ENAMETOOLONG, Detail: fmt.Sprintf("directories are nested more than %d deep", maxTreeLevels), Hint: "remove or move the directory that is nested so deep",
	}
}

// Walk implements rootfs.Root's Walk. Without opts.Deep, directories whose path is longer than MaxPath are reported as ENAMETOOLONG.
func Walk(ctx context.Context, r Nodes, dir string, opts WalkOptions, fn WalkFunc) error {
	top, err := r.Node(dir, true)
	if err != nil {
		return err
	}
	st, err := top.Lstat("")
	if err != nil {
		_ = top.Close()
		return err
	}
	w := &walker{ctx: ctx, opts: opts, fn: fn, trail: node.NewTrail(top, st.ID())}
	defer w.trail.Close()
	if err := w.push("", top); err != nil {
		return err
	}
	return w.run()
}

// push lists a directory as the next level.
func (w *walker) push(rel string, dir node.Node) error {
	l := walkLevel{rel: rel}
	var err error
	l.entries, err = dir.Entries(node.Listing{Stats: w.opts.Stats, All: w.opts.All, Reserve: func(bytes int64) error {
		l.bytes += bytes
		return w.reserve(bytes)
	}})
	if err != nil {
		w.release(l.bytes)
		return err
	}
	if w.opts.Sorted {
		slices.SortFunc(l.entries, func(a, b node.Entry) int { return strings.Compare(a.Name, b.Name) })
	}
	w.todo = append(w.todo, l)
	return nil
}

// reserve counts memory for names that the walk holds.
func (w *walker) reserve(bytes int64) error {
	w.held += bytes
	if w.opts.Reserve != nil {
		w.refused = w.opts.Reserve(w.held)
	}
	return w.refused
}

// release returns the memory of a level.
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
			w.trail.Leave()
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

func (w *walker) visit(prefix string, e node.Entry) error {
	if e.Type == node.TypeUnknown && !w.identify(&e) {
		return nil
	}
	w.seen++
	err := w.fn(prefix+e.Name, e, nil)
	if errors.Is(err, SkipDir) {
		return nil
	}
	if err != nil || e.Type != node.TypeDirectory || (w.opts.MaxDepth > 0 && len(w.todo) >= w.opts.MaxDepth) {
		return err
	}
	return w.descend(prefix+e.Name, e)
}

// identify sets a type that the file system did not report. It returns false if the entry vanished.
func (w *walker) identify(e *node.Entry) bool {
	here, err := w.trail.Here()
	if err != nil {
		return true
	}
	st, err := here.Lstat(e.Name)
	if err != nil {
		return !node.Vanished(err)
	}
	e.Type = st.Type()
	return true
}

// descend makes the directory just reported the current one, or reports why not.
func (w *walker) descend(rel string, e node.Entry) error {
	err := w.enter(rel, e)
	switch {
	case w.refused != nil:
		return w.refused
	case err == nil || node.Vanished(err):
		return nil
	}
	if err = w.fn(rel, e, err); errors.Is(err, SkipDir) {
		return nil
	}
	return err
}

func (w *walker) enter(rel string, e node.Entry) error {
	prefix := rel + "/"
	switch {
	case w.trail.Depth() >= maxTreeLevels:
		return errTooDeep()
	case len(prefix) < node.MaxPath:
	case !w.opts.Deep:
		return &fserr.Error{Code: fserr.ENAMETOOLONG}
	default: // a path for each level would take memory by the square of the depth
		prefix = w.todo[len(w.todo)-1].rel
	}
	if _, err := w.trail.Enter(e.Name); err != nil {
		return err
	}
	here, err := w.trail.Here()
	if err != nil {
		return err
	}
	if err := w.push(prefix, here); err != nil {
		w.trail.Leave()
		return err
	}
	return nil
}

// Ignoring returns nil instead of an err with one of codes.
func Ignoring(err error, codes ...fserr.Code) error {
	for _, code := range codes {
		if errors.Is(err, code) || fserr.CodeOf(err) == code {
			return nil
		}
	}
	return err
}

// stopped returns nil while ctx lasts, then ECANCELED or ETIMEDOUT with what was done.
func stopped(ctx context.Context, format string, done ...any) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	code := fserr.ECANCELED
	if errors.Is(err, context.DeadlineExceeded) {
		code = fserr.ETIMEDOUT
	}
	return &fserr.Error{Code: code, Detail: code.Text() + " after " + fmt.Sprintf(format, done...), Err: err}
}

// AtRel adds to err where below the top the operation failed.
func AtRel(err error, rel string) error {
	if err == nil || rel == "" {
		return err
	}
	var e *fserr.Error
	if !errors.As(err, &e) {
		e = &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	}
	c := *e
	if c.Detail == "" {
		c.Detail = c.Code.Text()
	}
	c.Detail += " at '" + rel + "'"
	return &c
}
