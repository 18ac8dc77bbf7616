package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// PushRequest of Push. The repository has the commit New already.
type PushRequest struct {
	Context, Actor string
	// RequestID makes a second call return what the first one did.
	RequestID  string
	Repository Path
	// Target is ToCommit for the branch that is checked out, with index and working tree, and ToBranch for another one.
	Target Target
	// Branch moves from Old, "" for no commit, to New. If Branch is "" no branch of the workspace moves, only the context's base.
	Branch, Old, New string
	// Deltas are what the move changes, and Blob opens one of their contents. It is read before the next call.
	Deltas []git.Delta
	Blob   func(id string) (io.Reader, error)
	// Base is what the context's base is moved by.
	Base []PickedChange
	// Committer and Note go to the reflog.
	Committer git.Identity
	Note      string
	DryRun    bool
}

// Push moves a branch of a repository to a commit that was staged before, and the base of its context to what the commit was staged from: both, or
// nothing. Files of the working tree, and of the index, are refused (DirtyCommit) if they differ from both commits. If the branch does not name Old, or moves
// meanwhile, the refusal is Conflicting without conflicts or git.ErrMoved.
func (r *Reviews) Push(ctx context.Context, req PushRequest) (*Entry, error) {
	unlock, err := r.lock(ctx, req.Context)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if e, err := r.Requested(req.Context, req.RequestID); e != nil || err != nil {
		return e, err
	}
	free, err := r.lockWorkspace(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	e := &Entry{Kind: EntryPush, Context: req.Context, Actor: req.Actor, RequestID: req.RequestID, Target: req.Target}
	commits := &drafts{r: r, opts: CommitOptions{Message: req.Note}}
	defer commits.close()
	if err := r.planPush(ctx, &req, e, commits); err != nil {
		return nil, asRefusal(err)
	}
	if req.DryRun {
		return e, nil
	}
	if err := r.resolve(ctx); err != nil {
		return nil, err
	}
	if err := r.take(ctx, r.ws, e, commits); err != nil {
		return nil, err
	}
	r.tell(req.Context, Event{Kind: EventApplied, Journal: e.ID})
	return e, nil
}

// Requested returns the entry of an earlier call with a RequestID; nil for none.
func (r *Reviews) Requested(context, request string) (*Entry, error) {
	if request == "" {
		return nil, nil
	}
	return r.requested(context, request)
}

// planPush finds the steps of a push, and begins the move of its branch.
func (r *Reviews) planPush(ctx context.Context, req *PushRequest, e *Entry, commits *drafts) error {
	steps := map[Path]*step{}
	base, err := r.baseMoves(ctx, req)
	if err != nil {
		return err
	}
	for _, c := range base {
		steps[c.Path] = &step{Path: c.Path, BaseBefore: c.Before, BaseAfter: c.After}
	}
	for _, d := range req.Deltas {
		p := Path(path.Join(string(req.Repository), d.Path))
		if r.cfg.ContextsDir != "" && isWithin(p, r.cfg.ContextsDir) {
			return refuse(BarredPath, []Path{p}, "the rule "+BarredState+" keeps it out of the workspace", "leave it out")
		}
		s := steps[p]
		if s == nil {
			s = &step{Path: p, Apart: true}
			steps[p] = s
		}
		if err := r.readDelta(ctx, s, d, req.Blob); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(steps)) {
		e.Steps = append(e.Steps, *steps[p])
	}
	if req.Branch == "" {
		return nil
	}
	if err := r.beginMove(ctx, req, commits); err != nil {
		return err
	}
	e.Commits = commits.commits()
	if req.Target != ToCommit {
		return nil
	}
	return r.planTree(ctx, req, e, commits.all[0])
}

// baseMoves returns how the base moves. If it is not what the commit was staged from any more, it gets the staged changes on top of what it is now,
// where that can be had. A context that was deleted has none.
func (r *Reviews) baseMoves(ctx context.Context, req *PushRequest) (moves []PickedChange, err error) {
	if len(req.Base) == 0 {
		return nil, nil
	}
	origin, err := r.cfg.Contexts.Origin(ctx, req.Context)
	if fserr.CodeOf(err) == fserr.ESTALE {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	st, err := r.states.read(req.Context)
	if err != nil {
		return nil, err
	}
	b, err := r.baseOf(origin, st)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, c := range req.Base {
		r.store.uses.touch(c.Before.Hash)
		r.store.uses.touch(c.After.Hash)
		now, err := r.keepEntry(ctx, b, b.lookup(c.Path))
		if err != nil {
			return nil, err
		}
		after, _, kind, err := r.ws.merge(ctx, merge3{base: c.Before, now: now, want: c.After})
		if err != nil {
			return nil, err
		}
		if kind == 0 {
			moves = append(moves, PickedChange{c.Path, now, after})
		}
	}
	return moves, nil
}

// readDelta gives a step the versions of both commits.
func (r *Reviews) readDelta(ctx context.Context, s *step, d git.Delta, blob func(id string) (io.Reader, error)) (err error) {
	if s.from, err = versionOf(ctx, r.store, git.File{Path: d.Path, Mode: d.OldMode, ID: d.OldID}, blob); err != nil {
		return err
	}
	if s.to, err = versionOf(ctx, r.store, git.File{Path: d.Path, Mode: d.NewMode, ID: d.NewID}, blob); err != nil {
		return err
	}
	s.Commit = &committed{Before: s.from, After: s.to}
	return nil
}

// beginMove checks that the branch names Old, and is checked out or not as the target says.
func (r *Reviews) beginMove(ctx context.Context, req *PushRequest, commits *drafts) error {
	if r.cfg.Owner != nil {
		return &fserr.Error{
			Code: fserr.EOPNOTSUPP, Detail: "the server runs as root, and would leave files of root in the repository of another user",
			Hint: "run the server as the owner of the workspace, or push to a remote",
		}
	}
	repo, err := r.repository(req.Repository)
	if err != nil {
		return err
	}
	branch := req.Branch
	if req.Target == ToCommit {
		branch = ""
	}
	g, err := repo.Draft(ctx, branch)
	var refused *fserr.Error
	if branch != "" && errors.As(err, &refused) && refused.Code == fserr.EINVAL { // its name is good, so that it is checked out
		refused.Hint = "push to it with its working tree, or name another branch"
	}
	if err != nil {
		return err
	}
	c := &draft{Draft: g, repo: repo, given: true}
	c.done = &Commit{Repository: req.Repository, ID: req.New, Ref: g.Ref, Old: g.Old, Parent: g.Old, Author: req.Committer, Committer: req.Committer}
	commits.all = append(commits.all, c)
	if g.Ref != "refs/heads/"+req.Branch {
		detail := fmt.Sprintf("branch %q is not checked out in %s", req.Branch, shownRepository(req.Repository))
		if g.Ref == "HEAD" {
			detail = "no branch is checked out in " + shownRepository(req.Repository)
		}
		return &fserr.Error{Code: fserr.EINVAL, Detail: detail, Hint: "push to the branch without its working tree, or check it out"}
	}
	if g.Old != req.Old {
		return git.ErrMoved
	}
	return nil
}

// planTree finds what becomes of the working tree and the index. It merges nothing.
func (r *Reviews) planTree(ctx context.Context, req *PushRequest, e *Entry, c *draft) error {
	conflicts, err := r.ws.plan(ctx, e.Steps, true)
	if err != nil {
		return err
	}
	dirty := map[Path]bool{}
	for _, conflict := range conflicts {
		dirty[conflict.Path] = true
	}
	index, err := c.Index(ctx)
	if err != nil {
		return err
	}
	removed := map[string]bool{}
	for _, d := range req.Deltas {
		removed[d.Path] = d.NewMode == 0
	}
	staged := slices.Sorted(maps.Keys(index))
	for _, d := range req.Deltas {
		now, old, next := index[d.Path], git.File{Path: d.Path, Mode: d.OldMode, ID: d.OldID}, git.File{Path: d.Path, Mode: d.NewMode, ID: d.NewID}
		now.Path = d.Path
		switch {
		case now == next:
		case now == old && (next.Mode == 0 || !inTheWayOf(d.Path, staged, removed)):
			c.files = append(c.files, next)
		default:
			dirty[Path(path.Join(string(req.Repository), d.Path))] = true
		}
	}
	if len(dirty) == 0 {
		return nil
	}
	paths := slices.Sorted(maps.Keys(dirty))
	return refuse(DirtyCommit, paths, "nothing was pushed: these files have changes in the working tree, or staged ones, that are not committed",
		"commit them, put them away with git stash, or push to another branch")
}

// stageGiven prepares the index for a commit that is there already.
func (c *draft) stageGiven(ctx context.Context) (err error) {
	if len(c.files) > 0 {
		c.done.Index, err = c.Stage(ctx, c.files)
	}
	return err
}

// IsMoved reports whether a push was refused since the branch, the index or HEAD changed meanwhile.
func IsMoved(err error) bool {
	var e *Error
	return errors.Is(err, git.ErrMoved) || (errors.As(err, &e) && e.Reason == Conflicting && len(e.Conflicts) == 0)
}
