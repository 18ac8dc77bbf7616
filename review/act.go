package review

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
)

// ApplyRequest says what Apply applies, and how.
type ApplyRequest struct {
	Context string
	// Selection, if nil, is what is approved.
	Selection *Selection
	// Approve approves the selection as well.
	Approve     bool
	IfRevision  string
	RefuseMerge bool
	DryRun      bool
	// RequestID makes a second call return what the first one did; "" for none.
	RequestID string
	Actor     string
	Target    Target
	// Commit is for the targets that commit.
	Commit CommitOptions
	// Checked, if not nil, is the result of a dry run. Nothing is applied if the result would be another one now.
	Checked *Entry
}

// commit returns how to commit, nil for not at all.
func (req *ApplyRequest) commit() (*CommitOptions, error) {
	if req.Target == ToWorkingTree {
		return nil, nil
	}
	return &req.Commit, req.Commit.check(req.Target)
}

// Apply merges approved changes into the workspace: all of them, or none. It moves the context's base to what was applied.
func (r *Reviews) Apply(ctx context.Context, req ApplyRequest) (*Entry, error) {
	commit, err := req.commit()
	if err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx, req.Context)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if req.RequestID != "" {
		if e, err := r.requested(req.Context, req.RequestID); e != nil || err != nil {
			return e, err
		}
	}
	steps, left, err := r.toApply(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 && len(left) > 0 {
		return nil, nothingSelected(left)
	}
	if len(steps) == 0 {
		return nil, refuse(NotApproved, nil, "nothing is approved", "approve changes first, or select some and approve them in one step")
	}
	if err := r.checkResolved(req.Context, steps); err != nil {
		return nil, err
	}
	if err := r.checkPlaces(ctx, req.Context, steps); err != nil {
		return nil, err
	}
	e := &Entry{Kind: EntryApply, Context: req.Context, Actor: req.Actor, Steps: steps, RequestID: req.RequestID, Target: req.Target, LeftOut: left}
	if req.Checked != nil {
		e.expected, e.tree = req.Checked.Steps, req.Checked.tree
	}
	if err := r.carryOut(ctx, e, commit, req.RefuseMerge, req.DryRun); err != nil || req.DryRun {
		return e, err
	}
	r.tell(req.Context, Event{Kind: EventApplied, Journal: e.ID})
	return e, nil
}

// checkPlaces refuses files of repositories that a template put at another path than they have in the workspace.
func (r *Reviews) checkPlaces(ctx context.Context, id string, steps []step) error {
	origin, err := r.cfg.Contexts.Origin(ctx, id)
	if err != nil || origin.Manifest == nil {
		return err
	}
	for _, s := range steps {
		if repo, ok := innermost(origin.Manifest.Repos, s.Path); ok && repo.IsElsewhere() {
			return refuse(BarredPath, []Path{s.Path}, fmt.Sprintf("the template has %s at /%s, where the workspace has another place for it or none", repo.Source, repo.Path),
				"apply its changes as a patch: 'ctxfs diff' prints it")
		}
	}
	return nil
}

// requested finds the entry of an earlier call with the same ID.
func (r *Reviews) requested(id, request string) (*Entry, error) {
	ids, err := r.journal.ids(doneSuffix)
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(ids) {
		e, err := r.journal.listed(n, doneSuffix)
		if err != nil {
			return nil, err
		}
		if e != nil && e.Context == id && e.RequestID == request {
			return e, nil
		}
	}
	return nil, nil
}

// toApply lists the paths with their base and what it is to become, and what the selection leaves out.
func (r *Reviews) toApply(ctx context.Context, req ApplyRequest) (steps []step, left []LeftOut, err error) {
	if req.Selection == nil || req.Selection.Approved {
		steps, err = r.allApproved(ctx, req)
		return steps, nil, err
	}
	req.Selection.approves = req.Approve
	l, chosen, left, err := r.choose(ctx, req.Context, *req.Selection, req.IfRevision)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var missing []Path
	for _, c := range chosen {
		if !req.Approve && !l.isApproved(c) {
			missing = append(missing, c.Path)
			continue
		}
		v := c.After
		if c.hunks != nil {
			if v, _, err = r.part(c.Path, c.Before, c.After, c.has); err != nil {
				return nil, nil, err
			}
		}
		steps = append(steps, applying(c.Path, c.Before, v))
	}
	if len(missing) > 0 {
		return nil, nil, refuse(NotApproved, missing, "the selection has changes that are not approved", "approve them first, or in one step")
	}
	return steps, left, nil
}

// applying returns the step that applies a change of the base.
func applying(p Path, before, after Version) step {
	return step{Path: p, from: before, to: after, BaseBefore: before, BaseAfter: after}
}

// isApproved reports whether everything that is chosen is approved.
func (l *List) isApproved(c *choice) bool {
	whole, hunks := l.Verdict(c.Change)
	if c.hunks == nil {
		if len(hunks) < len(c.HunkIDs()) || len(hunks) == 0 {
			return whole.Decision == Approved && len(hunks) == 0
		}
		for _, v := range hunks {
			if v.Decision != Approved {
				return false
			}
		}
		return c.Before.sameMode(c.After) || whole.Decision == Approved
	}
	for id := range c.hunks {
		if hunks[id].Decision != Approved {
			return false
		}
	}
	return true
}

// allApproved lists what is approved. What the context holds now does not matter.
func (r *Reviews) allApproved(ctx context.Context, req ApplyRequest) ([]step, error) {
	if err := r.checkRevision(ctx, req.Context, req.IfRevision); err != nil {
		return nil, err
	}
	st, err := r.states.read(req.Context)
	if err != nil {
		return nil, err
	}
	var steps []step
	for _, p := range slices.Sorted(maps.Keys(st.Decided)) {
		d := st.Decided[p]
		v, ok, err := r.approved(p, d)
		if err != nil {
			return nil, err
		}
		if ok {
			steps = append(steps, applying(p, d.Before, v))
		}
	}
	if both := nested(steps); len(both) > 0 {
		return nil, refuse(Conflicting, both, "a file and another one below its path are approved", "reject both, and approve the one that the context has again")
	}
	return steps, nil
}

// nested returns the first two paths at which steps make files although one is below the other: an agent may have made a directory of a file that
// was approved, and what is in it was approved later.
func nested(steps []step) []Path {
	made := map[Path]bool{}
	for _, s := range steps {
		if s.to.Exists() {
			made[s.Path] = true
		}
	}
	for _, s := range steps {
		for dir := parentOf(s.Path); made[s.Path] && dir != ""; dir = parentOf(dir) {
			if made[dir] {
				return []Path{dir, s.Path}
			}
		}
	}
	return nil
}

// carryOut plans the steps of an entry, takes them, commits them if commit is not nil, and records them. Nothing is done if
// one of them cannot be. If files have to be merged it plans without the workspace's lock in between, so that no other call
// waits for git.
func (r *Reviews) carryOut(ctx context.Context, e *Entry, commit *CommitOptions, refuseMerge, dryRun bool) error {
	for _, s := range e.Steps {
		if r.cfg.ContextsDir != "" && isWithin(s.Path, r.cfg.ContextsDir) {
			return refuse(BarredPath, []Path{s.Path}, "the rule "+BarredState+" keeps it out of the workspace", "leave it out of the selection")
		}
	}
	asked := slices.Clone(e.Steps)
	w := &workspace{root: r.ws.root, store: r.store, merger: r.ws.knowing()}
	w.merger.onlyKnown = true
	err := r.carryOutBy(ctx, w, e, commit, refuseMerge, dryRun)
	if !errors.Is(err, errUnmerged) {
		return err
	}
	w.merger.onlyKnown = false
	if e.Target != ToBranch {
		if _, err := w.plan(ctx, slices.Clone(asked), refuseMerge); err != nil {
			return err
		}
	}
	e.Steps = asked
	return r.carryOutBy(ctx, w, e, commit, refuseMerge, dryRun)
}

// carryOutBy is carryOut with the merges of w.
func (r *Reviews) carryOutBy(ctx context.Context, w *workspace, e *Entry, commit *CommitOptions, refuseMerge, dryRun bool) error {
	free, err := r.lockWorkspace(ctx)
	if err != nil {
		return err
	}
	defer free()
	if e.Target != ToBranch {
		conflicts, err := w.plan(ctx, e.Steps, refuseMerge)
		if err == nil && len(conflicts) > 0 {
			err = r.cannotMerge(e, conflicts)
		}
		if err != nil {
			return err
		}
		if e.Kind == EntryApply {
			e.keepOthersOut()
		}
	}
	if err := r.checkExpected(ctx, e); err != nil {
		return err
	}
	commits, err := r.planCommits(ctx, e, commit, w.merger)
	if err != nil {
		return err
	}
	defer commits.close()
	if dryRun {
		r.store.uses.touchAll(e.use) // the caller of Plan holds them
		return nil
	}
	if err := r.resolve(ctx); err != nil {
		return err
	}
	return r.take(ctx, r.ws, e, commits)
}

// keepOthersOut gives new files no permission to write for others, which a difference does not show: it has git's modes.
func (e *Entry) keepOthersOut() {
	for i := range e.Steps {
		if s := &e.Steps[i]; s.did() == Created && s.After.Type == rootfs.TypeFile {
			s.After.Mode &^= 0o002
		}
	}
}

// take takes an entry's steps in a tree, and makes its commits: all or none. It records them. The caller has the workspace's lock.
func (r *Reviews) take(ctx context.Context, w *workspace, e *Entry, commits *drafts) error {
	w = w.making(e.makes)
	// Without a plan for the working tree no step changes anything there.
	s, err := r.begin(ctx, w, e, commits)
	if err != nil {
		return err
	}
	// From here on the steps are taken, or put back, whatever becomes of the caller. Only hooks end with the caller.
	caller := ctx
	ctx = context.WithoutCancel(ctx)
	if err := r.takeAll(ctx, caller, s, e, commits); err != nil {
		stay, back := s.back()
		if back = errors.Join(commits.unlock(), back); back != nil {
			return errors.Join(err, back) // resolve tries again
		}
		return r.givenUp(ctx, w, e, stay, err)
	}
	r.point("finished")
	commits.install()
	if err := errors.Join(s.done(), w.flushNames(e), r.closeDone(w, e)); err != nil {
		r.cfg.Log.Warn("what was replaced could not be removed", zap.Int64("entry", e.ID), zap.Error(err))
	}
	r.point("done")
	if commits.opts.RunHooks {
		commits.runPostCommit(caller)
		e.Commits = commits.commits()
		if err := r.journal.write(e, doneSuffix); err != nil {
			return err
		}
	}
	return r.complete(ctx, e)
}

// takeAll exchanges the files, moves the refs and records the entry. If one of these fails, the caller puts the files back.
func (r *Reviews) takeAll(ctx, caller context.Context, s *swaps, e *Entry, commits *drafts) error {
	if err := commits.lock(); err != nil {
		return err
	}
	conflicts, err := s.take()
	if err == nil && len(conflicts) == 0 {
		r.point("all taken")
		conflicts, err = s.late(ctx)
	}
	if err == nil && len(conflicts) > 0 {
		err = conflicting("nothing was applied: a program changed these files meanwhile, or has them open for writing", conflicts)
	}
	if err != nil {
		return err
	}
	r.point("settled")
	if err := s.restoreDirs(e.Made); err != nil {
		return err
	}
	if err := s.w.flushNames(e); err != nil {
		return err
	}
	if commits.opts.RunHooks {
		if err := commits.runHooks(caller); err != nil {
			return err
		}
		e.Commits = commits.commits()
		if err := r.journal.begin(e); err != nil { // a start finds the commits by their IDs
			return err
		}
	}
	if err := commits.move(ctx); err != nil {
		return err
	}
	r.point("moved")
	if err := r.journal.finish(e); err != nil {
		return errors.Join(err, commits.moveBack(ctx, commits.all))
	}
	return nil
}

// begin records an entry, and stages its steps.
func (r *Reviews) begin(ctx context.Context, w *workspace, e *Entry, commits *drafts) (*swaps, error) {
	var err error
	if e.ID, err = r.journal.next(); err != nil {
		return nil, err
	}
	e.At, e.Dirs, e.Closed = time.Now().UTC(), w.dirModes(e.Steps), w.closed(e.Steps, false)
	if err := w.keepRemains(ctx, e); err != nil {
		return nil, err
	}
	if err := commits.build(ctx, e); err != nil {
		return nil, err
	}
	for i := range e.Steps {
		e.Steps[i].Tmp = tree.SwapName()
		if u := e.Steps[i].Unresolved; u != nil && u.At.IsZero() {
			u.At = e.At
		}
	}
	if err := r.journal.begin(e); err != nil {
		return nil, err
	}
	r.point("begun")
	s, err := w.stage(ctx, e, r.point)
	if err != nil {
		return nil, errors.Join(err, w.flushNames(e), r.journal.abandon(e))
	}
	e.Staged = true
	if err := r.journal.begin(e); err != nil {
		s.drop()
		return nil, errors.Join(err, w.flushNames(e), r.journal.abandon(e))
	}
	r.point("intended")
	return s, nil
}

// closeDone gives the directories of a done entry their modes back. Another start leaves them alone: a user may change them from now on.
func (r *Reviews) closeDone(w *workspace, e *Entry) error {
	if len(e.Closed) == 0 {
		return nil
	}
	if err := w.close(e.Closed); err != nil {
		return err
	}
	e.Closed = nil
	return r.journal.write(e, doneSuffix)
}

// complete moves the base to what an entry did, and marks what it undoes. Repeating it does nothing.
func (r *Reviews) complete(ctx context.Context, e *Entry) error {
	ctx = budget.Uncounted(ctx) // the steps are taken, and the base follows them
	if !e.InContext || e.MovesBase {
		if err := r.moveBase(ctx, e); err != nil {
			return err
		}
		r.point("base moved")
	}
	if e.Kind == EntryApply || e.Kind == EntryDiscard || e.Kind == EntryPush {
		r.listed.settled(e)
	}
	_, _ = r.weigh(e) // otherwise boundJournal reads it
	r.boundJournal()
	if e.Undoes == 0 {
		return nil
	}
	undone, err := r.journal.read(e.Undoes, doneSuffix)
	if fserr.CodeOf(err) == fserr.ENOENT || (err == nil && undone.UndoneBy != 0) { // the journal keeps the latest entries alone
		return nil
	}
	if err != nil {
		return err
	}
	undone.UndoneBy = e.ID
	return r.journal.write(undone, doneSuffix)
}

// moveBase makes the base of an entry's context what its steps say, and drops the decisions that they have carried out.
func (r *Reviews) moveBase(ctx context.Context, e *Entry) error {
	if !slices.ContainsFunc(e.Steps, func(s step) bool { return !s.Apart }) {
		return nil // the context may be gone
	}
	st, err := r.states.read(e.Context)
	if err != nil {
		return err
	}
	if st.Journal >= e.ID {
		return nil
	}
	st.Journal = e.ID
	moved := map[string]bool{}
	for _, s := range e.Steps {
		if s.Apart {
			continue
		}
		if st.Overrides == nil {
			st.Overrides = map[Path]Version{}
		}
		if e.InContext {
			st.recordConflict(s)
			st.recordPulled(s)
			e.Stale = append(e.Stale, r.carryDecision(st, s)...)
			if s.BaseBefore == s.BaseAfter && s.Behind == s.WasBehind {
				continue
			}
		}
		now, ok := st.Overrides[s.Path]
		if !ok {
			now = s.BaseBefore
		}
		// Another entry may have moved the base since the one that this one undoes.
		next, _, kind, err := r.ws.merge(ctx, merge3{base: s.BaseBefore, now: now, want: s.BaseAfter})
		if err != nil {
			return err
		}
		if kind == 0 {
			st.Overrides[s.Path] = next
		}
		if err := r.moveBehind(ctx, st, e, s, now); err != nil {
			return err
		}
		if kind == 0 {
			s.BaseAfter = next
		}
		if !e.InContext {
			r.moveDecision(st, s)
		}
		moved[st.Overrides[s.Path].Hash], moved[st.Behind[s.Path].Hash] = true, true
	}
	if err := r.store.flush(moved); err != nil {
		return err
	}
	return r.states.write(e.Context, st)
}

// moveDecision keeps of what was decided on a path what is still to be decided: the verdicts on hunks that were not applied.
func (r *Reviews) moveDecision(st *state, s step) {
	old := st.Decided[s.Path]
	delete(st.Decided, s.Path)
	if old == nil || old.After.Same(s.BaseAfter) {
		return
	}
	r.carry(st, s, old.After, old.Before, old.verdicts())
}

// recover puts back what a killed server had begun, and completes what it had done.
func (r *Reviews) recover(ctx context.Context) error {
	free, err := r.lockWorkspace(ctx)
	if err != nil {
		return err
	}
	defer free()
	if err := r.sweepState(); err != nil {
		r.cfg.Log.Warn("what a killed server left in the state folder could not be removed", zap.Error(err))
	}
	if err := r.resolve(ctx); err != nil {
		return err
	}
	done, err := r.journal.ids(doneSuffix)
	if err != nil {
		return err
	}
	if err := r.collect(ctx); err != nil {
		r.cfg.Log.Warn("what reviews keep could not be looked through", zap.Error(err))
	}
	if len(done) == 0 {
		return nil
	}
	last, err := r.journal.read(slices.Max(done), doneSuffix)
	if err != nil {
		return err
	}
	switch {
	case !last.InContext:
		err = errors.Join(r.ws.sweep(ctx, last.Steps), r.ws.flushNames(last), r.closeDone(r.ws, last))
	case last.MovesBase:
		err = r.sweepRebased(ctx, last)
	}
	r.settleIndexes(last, true)
	return errors.Join(err, r.complete(ctx, last))
}

// resolve ends the entries that were begun and not finished. The caller has the workspace's lock.
func (r *Reviews) resolve(ctx context.Context) error {
	begun, err := r.journal.ids(intentSuffix)
	if err != nil {
		return err
	}
	for _, id := range begun {
		e, err := r.journal.read(id, intentSuffix)
		switch {
		case err != nil:
		case e.InContext && e.MovesBase:
			err = r.putBackLater(ctx, e)
		case e.InContext:
			err = r.resolveInContext(ctx, e)
		default:
			err = r.recoverEntry(ctx, e)
		}
		if err != nil {
			return fmt.Errorf("put back entry %d of the journal: %w", id, err)
		}
	}
	return nil
}

// recoverEntry completes a begun entry if one of its commits was made: all of its files were in place then. Otherwise it puts the entry
// back.
func (r *Reviews) recoverEntry(ctx context.Context, e *Entry) error {
	committed, err := r.recoverCommits(ctx, e)
	if err != nil {
		return err
	}
	if !committed {
		return r.putBack(ctx, r.ws, e)
	}
	if err := r.journal.write(e, intentSuffix); err != nil {
		return err
	}
	if err := r.journal.finish(e); err != nil {
		return err
	}
	r.cfg.Log.Warn("an interrupted apply was completed, since a commit of it was made", zap.Int64("entry", e.ID))
	r.settleIndexes(e, true)
	return errors.Join(r.ws.sweep(ctx, e.Steps), r.ws.flushNames(e), r.closeDone(r.ws, e), r.complete(ctx, e))
}

// putBack gives each path of a begun entry, in the tree that it changed, what it held before. What a program changed since stays.
func (r *Reviews) putBack(ctx context.Context, w *workspace, e *Entry) error {
	var left []Path
	if e.Staged {
		w.removeDirs(e.Made)
		stay, err := w.resume(e.Steps)
		if err != nil {
			return err
		}
		for _, p := range stay {
			r.cfg.Log.Warn("a file that an interrupted "+string(e.Kind)+" changed was changed since, and stays", zap.String("path", string(p)), zap.Int64("entry", e.ID))
		}
		left = stay
	}
	if err := w.sweep(ctx, e.Steps); err != nil {
		return err
	}
	for i := range e.Steps {
		if s := &e.Steps[i]; s.did() == Created {
			w.pruneAbove(s.Path)
		}
	}
	if err := w.close(e.Closed); err != nil {
		return err
	}
	r.cfg.Log.Warn("an interrupted "+string(e.Kind)+" was put back", zap.Int64("entry", e.ID), zap.Int("files", len(e.Steps)))
	_, err := r.abandon(ctx, w, e, left)
	return err
}
