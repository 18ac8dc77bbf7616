package review

import (
	"context"
	"fmt"
	"slices"
)

// workspaceBase returns the base of a path that the workspace got last. base is the one of now.
func (st *state) workspaceBase(p Path, base Version) Version {
	if behind, ok := st.Behind[p]; ok {
		return behind
	}
	return base
}

// moveBehind records whether the workspace got the base that a step moved. former is the base of before.
func (r *Reviews) moveBehind(ctx context.Context, st *state, e *Entry, s step, former Version) error {
	behind, known := st.Behind[s.Path]
	base := st.Overrides[s.Path]
	switch {
	case s.Pulled != nil || s.WasPulled != nil: // a Pull changes no file of the workspace
		return nil
	case e.Target == ToBranch:
		if !known {
			behind = former
		}
	case !known && s.Behind == nil:
		return nil
	case s.Behind != nil:
		behind = *s.Behind
	case e.InContext:
		behind = s.BaseAfter
	case s.After.Same(base):
		behind = base
	default:
		merged, _, kind, err := r.ws.merge(ctx, merge3{base: s.BaseBefore, now: behind, want: s.BaseAfter})
		if err != nil {
			return err
		}
		if kind == 0 {
			behind = merged
		}
	}
	if behind.Same(base) {
		delete(st.Behind, s.Path)
		return nil
	}
	if st.Behind == nil {
		st.Behind = map[Path]Version{}
	}
	st.Behind[s.Path] = behind
	return nil
}

// merged returns the paths of Behind whose commits are all in the history that is checked out. A path is not among them
// if the journal does not have one of its commits: it went to a remote, the branch had the change already, the context
// is a fork, or an entry of the path was undone.
func (r *Reviews) merged(ctx context.Context, id string, st *state) (map[Path]bool, error) {
	ids, err := r.journal.ids(doneSuffix)
	if err != nil {
		return nil, err
	}
	out, checkedOut := map[Path]bool{}, map[string]bool{}
	for _, n := range ids {
		e, err := r.journal.listed(n, doneSuffix)
		if err != nil {
			return nil, err
		}
		if e == nil || e.Context != id || e.Target != ToBranch {
			continue
		}
		for _, s := range e.Steps {
			if _, behind := st.Behind[s.Path]; !behind || s.Apart || s.BaseBefore.Same(s.BaseAfter) {
				continue
			}
			repo, _ := r.ws.repositoryOf(s.Path)
			key := fmt.Sprint(n, repo)
			if _, known := checkedOut[key]; !known {
				checkedOut[key] = r.isCheckedOut(ctx, e, repo)
			}
			all, known := out[s.Path]
			out[s.Path] = checkedOut[key] && (all || !known)
		}
	}
	return out, ctx.Err()
}

// isCheckedOut reports whether the history that a repository has checked out contains an entry's commit.
func (r *Reviews) isCheckedOut(ctx context.Context, e *Entry, repo Path) bool {
	i := slices.IndexFunc(e.Commits, func(c Commit) bool { return c.Repository == repo })
	if i < 0 {
		return false
	}
	local, err := r.repository(repo)
	if err != nil {
		return false
	}
	contains, err := local.Contains(ctx, "HEAD", e.Commits[i].ID)
	return err == nil && contains
}

// cannotMerge refuses an entry that conflicts with the workspace.
func (r *Reviews) cannotMerge(e *Entry, conflicts []Conflict) error {
	refused := conflicting("nothing was applied: the workspace changed these files too", conflicts)
	if e.Kind != EntryApply {
		return refused
	}
	st, err := r.states.read(e.Context)
	if err != nil {
		return err
	}
	isBehind := func(c Conflict) bool { _, ok := st.Behind[c.Path]; return ok }
	if slices.ContainsFunc(conflicts, isBehind) {
		refused.Detail = "nothing was applied: the workspace has other lines in these files, or does not have them"
		refused.Hint = "an earlier apply or push put changes of them on a branch alone: merge that branch first"
	}
	return refused
}
