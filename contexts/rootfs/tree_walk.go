package rootfs

import (
	"context"
	"errors"

	"github.com/ctxfs/ctxfs/fserr"
)

// walker is one Walk.
type walker struct {
	ctx   context.Context
	opts  WalkOptions
	fn    WalkFunc
	trail *trail
	todo  []walkLevel
	seen  int64
}

// walkLevel is what is left of one directory.
type walkLevel struct {
	// rel ends in a slash, or is "" for the top.
	rel     string
	entries []Entry
}

// walkTree is Trees.Walk for every implementation. Paths longer than MaxPath
// could not be used, so directories beyond it are reported as ENAMETOOLONG.
func walkTree(ctx context.Context, r treeRoot, dir string, opts WalkOptions, fn WalkFunc) error {
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
	entries, err := top.entries(opts.Stats)
	if err != nil {
		return err
	}
	w.todo = []walkLevel{{entries: entries}}
	return w.run()
}

func (w *walker) run() error {
	for len(w.todo) > 0 {
		if err := stopped(w.ctx, "%d entries were walked", w.seen); err != nil {
			return err
		}
		l := &w.todo[len(w.todo)-1]
		if len(l.entries) == 0 {
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
	if err == nil || vanished(err) {
		return nil
	}
	if err = w.fn(rel, e, err); errors.Is(err, SkipDir) {
		return nil
	}
	return err
}

func (w *walker) enter(rel string, e Entry) error {
	if len(rel)+1 >= MaxPath {
		return &fserr.Error{Code: fserr.ENAMETOOLONG}
	}
	if _, err := w.trail.enter(e.Name); err != nil {
		return err
	}
	here, err := w.trail.here()
	if err != nil {
		return err
	}
	entries, err := here.entries(w.opts.Stats)
	if err != nil {
		w.trail.leave()
		return err
	}
	w.todo = append(w.todo, walkLevel{rel: rel + "/", entries: entries})
	return nil
}
