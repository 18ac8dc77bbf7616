package review

import (
	"context"
	"slices"

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
