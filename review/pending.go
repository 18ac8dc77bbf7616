package review

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Pending reports whether a context was submitted and not all of that was applied, as it was submitted, or discarded since, and whether it has decisions that were not
// applied or conflicts that were not resolved. It reads only what reviews keep, and does not enter the context.
func (r *Reviews) Pending(ctx context.Context, id string) (submitted, decisions bool, err error) {
	st, err := r.states.read(id)
	if err != nil {
		return false, false, err
	}
	decisions = len(st.Decided) > 0 || len(st.Conflicts) > 0
	if st.Submitted != nil {
		submitted, err = r.awaited(ctx, id, st)
	}
	return submitted, decisions, err
}

// Unapplied fails with NotApplied if a context has changes that were not applied, and names them: those that are neither ignored nor barred, and what
// stands barred in the place of a file of the base. A context whose changes cannot be reviewed has none.
func (r *Reviews) Unapplied(ctx context.Context, id string) (err error) {
	l, origin, err := r.opened(ctx, id)
	if fserr.CodeOf(err) == fserr.EOPNOTSUPP {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var paths []Path
	err = r.cfg.Contexts.Frozen(ctx, id, func(root rootfs.Root) error {
		diffs, err := r.compare(ctx, Query{Context: id}, origin, l.base, root)
		if err != nil {
			return err
		}
		ignored, err := r.ignores(ctx, l.base)
		if err != nil {
			return err
		}
		for _, d := range diffs {
			if l.base.mayLose(d) && d.Tree == nil && (d.Before.Exists() || ignored.ReasonAnywhere(string(d.Path), false) == "") {
				paths = append(paths, d.Path)
			}
		}
		return ignored.Err()
	})
	if err == nil && len(paths) > 0 {
		err = refuse(NotApplied, paths, fmt.Sprintf("context '%s' has changes that were not applied", id), "apply them, discard them, or set discard_changes")
	}
	return err
}

// mayLose reports whether a difference may be all that there is of somebody's work.
func (b *base) mayLose(d Difference) bool {
	switch d.Barred {
	case "":
		return true
	case BarredSetuid: // the workspace's own files may have such a mode
		return b.lookup(d.Path).Mode&setIDs == 0
	case BarredSpecial:
		return b.has(d.Path)
	}
	return false
}

// awaited reports whether some path of what was submitted last has neither become the base, as it does when all of it is applied, nor been
// discarded as a whole since. A Discard that was undone does not count.
func (r *Reviews) awaited(ctx context.Context, id string, st *state) (bool, error) {
	rev, err := r.revisions.read(id, st.Submitted.Revision)
	if fserr.CodeOf(err) == fserr.ENOENT { // it is not known what was submitted
		return true, nil
	}
	if err != nil {
		return false, err
	}
	open := map[Path]bool{}
	for p, v := range rev.Overrides {
		if base, ok := st.Overrides[p]; !ok || !base.Same(v) {
			open[p] = true
		}
	}
	ids, err := r.journal.ids(doneSuffix)
	if err != nil {
		return false, err
	}
	for _, entry := range slices.Backward(ids) {
		if len(open) == 0 || ctx.Err() != nil {
			break
		}
		e, err := r.journal.read(entry, doneSuffix)
		if err != nil {
			return false, err
		}
		if e.At.Before(st.Submitted.At) {
			break
		}
		if e.Context == id && e.UndoneBy == 0 && e.Kind == EntryDiscard {
			for _, s := range e.Steps {
				if base, ok := st.Overrides[s.Path]; !s.Partly || ok && base.Same(s.After) { // what it left was applied
					delete(open, s.Path)
				}
			}
		}
	}
	return len(open) > 0, ctx.Err()
}
