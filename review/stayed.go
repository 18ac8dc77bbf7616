package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// givenUp ends an entry that failed with err and was put back. If the files that stay have something of it, the error names them.
func (r *Reviews) givenUp(ctx context.Context, w *workspace, e *Entry, stay []Path, err error) error {
	left, failed := r.abandon(ctx, w, e, stay)
	if failed != nil || len(left) == 0 {
		return errors.Join(err, failed)
	}
	r.cfg.Log.Warn("files keep what a failed "+string(e.Kind)+" wrote, since a program changed them meanwhile", zap.Int64("entry", e.ID), zap.Any("paths", left), zap.Error(err))
	var refused *Error
	if !errors.As(err, &refused) {
		return err
	}
	named := *refused
	named.leave(left)
	if !e.InContext {
		named.Hint = strings.TrimPrefix(fmt.Sprintf("%s; undo entry %d to take back what these files keep", named.Hint, e.ID), "; ")
	}
	return &named
}

// leave says which files have something of what was put back.
func (e *Error) leave(left []Path) {
	e.Detail = strings.TrimPrefix(e.Detail, "nothing was applied: ")
	if len(e.Paths) == 0 {
		e.Paths = left
		e.Detail += "; the rest was put back, but a program, such as the hook, changed these files meanwhile, so that they keep what was applied"
		return
	}
	var names []string
	for _, p := range left {
		if names = append(names, string(p)); slices.Contains(e.Paths, p) {
			continue
		}
		e.Paths = append(slices.Clip(e.Paths), p)
		if len(e.Conflicts) > 0 {
			e.Conflicts = append(slices.Clip(e.Conflicts), Conflict{p, ConflictChangedMeanwhile})
		}
	}
	kept := "what a program changed meanwhile keeps what was applied" + fserr.Names(names[:min(len(names), fserr.FewNames)], len(names))
	e.Hint = strings.TrimPrefix(e.Hint+"; "+kept, "; ")
}

// abandon ends a begun entry that was put back. stay are the paths that a program changed meanwhile. It returns those of them that have something of the
// entry. In the workspace the journal keeps it for these, so that an undo can take it back. It does not move the base: the change can be applied again.
func (r *Reviews) abandon(ctx context.Context, w *workspace, e *Entry, stay []Path) (left []Path, err error) {
	kept := &Entry{ID: e.ID, Kind: EntryApply, Context: e.Context, Actor: e.Actor, At: e.At, Dirs: e.Dirs}
	for _, s := range e.Steps {
		if !slices.Contains(stay, s.Path) {
			continue
		}
		has, err := w.hasSomeOf(ctx, s)
		if err != nil {
			return nil, err
		}
		if has {
			left = append(left, s.Path)
			kept.Steps = append(kept.Steps, step{Path: s.Path, Before: s.Before, After: s.After, Merged: s.Merged, OwnerLost: s.OwnerLost, Apart: true})
		}
	}
	if err := w.flushNames(e); err != nil {
		return nil, err
	}
	if len(left) == 0 || e.InContext {
		return left, r.journal.abandon(e)
	}
	if err := r.journal.begin(kept); err != nil {
		return nil, err
	}
	return left, r.journal.finish(kept)
}

// hasSomeOf reports whether a path has something of what a step wrote: whether taking it back would change the path, or conflicts.
func (w *workspace) hasSomeOf(ctx context.Context, s step) (bool, error) {
	now, _, err := w.store.keep(ctx, w.root, s.Path)
	switch code := fserr.CodeOf(err); {
	case errors.Is(err, errUnstable), code == fserr.EACCES, code == fserr.EPERM: // a program saves it, or its mode hides it from this process
		return true, nil
	}
	if err != nil || !now.Exists() || now.Type == rootfs.TypeDirectory {
		return false, err
	}
	after, _, kind, err := w.merge(ctx, merge3{base: s.After, now: now, want: s.Before})
	return kind != 0 || !after.Same(now), err
}
