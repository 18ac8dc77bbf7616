package review

import (
	"context"
	"fmt"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// UndoRequest says what Undo takes back, and how.
type UndoRequest struct {
	// ID is the entry's.
	ID     int64
	Actor  string
	DryRun bool
	// Commit, if not nil, undoes the entry's commits as well, by further commits. Its Branch is "".
	Commit *CommitOptions
	// May is asked whether the caller may change the entry's context.
	May func(e *Entry) error
}

// Undo takes an entry back: each path gets what it held before, merged with what was done to it since.
func (r *Reviews) Undo(ctx context.Context, req UndoRequest) (*Entry, error) {
	e, err := r.journal.read(req.ID, doneSuffix)
	if err == nil {
		err = req.May(e)
	}
	if err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx, e.Context)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if e, err = r.journal.read(req.ID, doneSuffix); err != nil {
		return nil, err
	}
	r.store.uses.touchAll(e.use)
	if e, err = r.journal.read(req.ID, doneSuffix); err != nil { // otherwise its contents stay, also if another call drops it from now on
		return nil, err
	}
	if e.UndoneBy != 0 {
		return nil, &fserr.Error{
			Code: fserr.EINVAL, Detail: fmt.Sprintf("entry %d was undone by entry %d", req.ID, e.UndoneBy), Hint: fmt.Sprintf("undo entry %d to have it again", e.UndoneBy),
		}
	}
	commit, err := e.reverting(req.Commit)
	if err != nil {
		return nil, err
	}
	undo := e.undo(req.Actor, commit != nil)
	switch {
	case e.MovesBase:
		err = r.exchange(ctx, undo, req.DryRun, func(ctx context.Context, w *workspace) error { return w.planUndo(ctx, undo) })
	case e.InContext && req.DryRun:
		err = r.reading(ctx, e.Context, newBeside(besideTries), func(ctx context.Context, root rootfs.Root) error {
			return r.planInContext(ctx, r.workspaceIn(root), undo)
		})
	case e.InContext:
		err = r.inContext(ctx, undo)
	default:
		err = r.carryOut(ctx, undo, commit, false, req.DryRun)
	}
	if err != nil || req.DryRun {
		return undo, err
	}
	r.tell(e.Context, Event{Kind: EventUndone, Journal: undo.ID})
	return undo, nil
}

// undo returns the entry that takes an entry back. If it commits nothing, a branch keeps its commit, so that nothing but the base moves back.
func (e *Entry) undo(actor string, commits bool) *Entry {
	undo := &Entry{Kind: EntryUndo, Context: e.Context, Actor: actor, Undoes: e.ID, Target: e.Target, InContext: e.InContext, MovesBase: e.MovesBase}
	undo.makes, undo.restores = e.Dirs, e.Emptied
	undo.Unrecorded = e.Unrecorded
	for _, p := range e.Unrecorded {
		undo.LeftOut = append(undo.LeftOut, LeftOut{Path: p, Reason: "ignored"})
	}
	if e.Target == ToCommit && !commits {
		undo.Target = ToWorkingTree
	}
	for _, s := range e.Steps {
		if s.did() != Unchanged || e.MovesBase || e.Target == ToBranch || (commits && s.Commit != nil) {
			undo.Steps = append(undo.Steps, step{
				Path: s.Path, from: s.After, to: s.Before, BaseBefore: s.BaseAfter, BaseAfter: s.BaseBefore, Unresolved: s.WasUnresolved, WasUnresolved: s.Unresolved,
				Apart: s.Apart, Pulled: s.WasPulled, WasPulled: s.Pulled, Behind: s.WasBehind, WasBehind: s.Behind, revert: s.Commit, exact: true,
				restores: s.Kept,
			})
		}
	}
	return undo
}

// reverting completes the options of the commits that take an entry's commits back; nil is no commits.
func (e *Entry) reverting(asked *CommitOptions) (*CommitOptions, error) {
	if asked == nil {
		return nil, nil
	}
	bad := func(detail, hint string) error { return &fserr.Error{Code: fserr.EINVAL, Detail: detail, Hint: hint} }
	switch {
	case len(e.Commits) == 0:
		return nil, bad(fmt.Sprintf("entry %d made no commit", e.ID), "undo it without --commit")
	case asked.Branch != "":
		return nil, bad("a branch is named for undoing commits", "leave it out: the commits go to the branch of the entry")
	}
	opts := *asked
	opts.reverts = map[Path]Commit{}
	for _, c := range e.Commits {
		opts.reverts[c.Repository] = c
	}
	if e.Target == ToBranch {
		opts.Branch = strings.TrimPrefix(e.Commits[0].Ref, "refs/heads/")
	}
	if strings.TrimSpace(opts.Message) == "" {
		opts.Message = fmt.Sprintf("Undo entry %d of the review of %s", e.ID, e.Context)
	}
	return &opts, opts.check(e.Target)
}
