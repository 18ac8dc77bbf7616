package fsservice

import (
	"context"
	"errors"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// globQuery is a Glob, checked.
type globQuery struct {
	// base is the virtual absolute path of the directory searched.
	base     string
	patterns *globSet
	exclude  *globSet
	max      int64
}

// globResult counts what a Glob found.
type globResult struct {
	matches, unreadable int64
	truncated           bool
}

// run calls found for each match, as a path relative to base. Directories that
// no pattern can reach into are not entered.
func (q *globQuery) run(ctx context.Context, root rootfs.Root, found func(rel string, e rootfs.Entry) error) (globResult, error) {
	var res globResult
	reserve, done := walkMemory(ctx)
	defer done()
	err := root.Walk(ctx, q.base, tree.WalkOptions{Reserve: reserve}, func(rel string, e rootfs.Entry, err error) error {
		if err != nil {
			res.unreadable++
			return nil
		}
		if q.exclude.match(rel) {
			return tree.SkipDir
		}
		if q.patterns.match(rel) {
			if res.matches == q.max {
				res.truncated = true
				return errSearchEnough
			}
			res.matches++
			if err := found(rel, e); err != nil {
				return err
			}
		}
		if e.Type == rootfs.TypeDirectory && !q.patterns.below(rel) {
			return tree.SkipDir
		}
		return nil
	})
	return res, enough(err)
}

// errSearchEnough ends a walk whose caller has enough.
const errSearchEnough = searchSignal("enough was found")

type searchSignal string

func (s searchSignal) Error() string { return string(s) }

func enough(err error) error {
	if errors.Is(err, errSearchEnough) {
		return nil
	}
	return err
}
