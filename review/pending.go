package review

import (
	"context"
	"slices"

	"github.com/ctxfs/ctxfs/fserr"
)

// Pending reports whether a context has approvals that were not applied, or conflicts that were not resolved. It reads only
// what reviews keep, and does not enter the context.
func (r *Reviews) Pending(id string) (bool, error) {
	st, err := r.states.read(id)
	if err != nil {
		return false, err
	}
	for _, d := range st.Decided {
		if d.isApproved() {
			return true, nil
		}
	}
	return len(st.Conflicts) > 0, nil
}

// Submitted reports whether a context was submitted, and still has changes of the paths that were submitted then, of which
// not all was applied. It compares the context if it was submitted; without the layer for that, the submission counts.
func (r *Reviews) Submitted(ctx context.Context, id string) (bool, error) {
	st, err := r.states.read(id)
	if err != nil || st.Submitted == nil {
		return false, err
	}
	losing, err := r.Losing(ctx, id, false)
	if isLayerMissing(err) { // it is not known what became of it
		return true, nil
	}
	if err != nil {
		return false, err
	}
	rev, err := r.revisions.read(id, st.Submitted.Revision)
	if fserr.CodeOf(err) == fserr.ENOENT { // it is not known what was submitted
		return len(losing.Changes) > 0, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(losing.Changes, func(p Path) bool {
		v, is := rev.Overrides[p]
		base, moved := st.Overrides[p]
		return is && !(moved && base.Same(v))
	}), nil
}
