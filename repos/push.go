package repos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/review"
)

// Where Push pushes to, as Pushed.Target has it.
const (
	// ToBranch is a branch of the workspace's repository that no working tree has checked out.
	ToBranch = "branch"
	// ToWorktree is the branch that is checked out, with its index and working tree.
	ToWorktree = "worktree"
	// ToRemote is a branch of a remote.
	ToRemote = "remote"
)

// Phase says how far a Push is, in the order of the proto's.
type Phase int

// The phases.
const (
	Checking Phase = iota + 1
	Merging
	Moving
	Advancing
)

// PushRequest of Push.
type PushRequest struct {
	// ID is the staged commit's. Expected is the commit that was reviewed.
	ID, Expected string
	Target       string
	// Remote is the name of a remote, for ToRemote; "" means origin.
	Remote string
	// Branch is without refs/heads/; "" means the staged commit's.
	Branch string
	// Create creates a branch that does not exist. Merge merges with a branch that has moved.
	Create, Merge bool
	DryRun        bool
	// Actor is who pushes, for the journal. Panel says that it is a panel: it pushes to those remotes only that Config.Remotes names.
	Actor string
	Panel bool
	// Progress is called with each phase; nil for not at all.
	Progress func(Phase)
}

// Pushing is a push that has begun. It stays in the record until it is known whether the push has happened.
type Pushing struct {
	// Pushed is what the record gets if it has.
	Pushed
	// Request names the entry of the journal that moves a branch of the workspace, or the context's base.
	Request string `json:"request"`
	// Moved says that the branch of a remote has moved. Then the base is still to be moved.
	Moved bool `json:"moved,omitempty"`
}

const opPush = "push"

// Push moves a branch to a staged commit, and the base of its context.
func (r *Repos) Push(ctx context.Context, req PushRequest) (*Pushed, error) {
	unlock, err := r.lock(ctx, "staged "+req.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := r.staged(ctx, opPush, req.ID)
	if err != nil {
		return nil, err
	}
	done, err := r.run(ctx, s.Context)
	if err != nil {
		return nil, err
	}
	defer done()
	defer func() { r.tidy(ctx, s) }()
	p := &push{r: r, req: req, s: s, branch: cmp.Or(req.Branch, s.Branch)}
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	if err := r.settle(ctx, s); err != nil {
		return nil, p.unsettled(ctx, err)
	}
	if err := p.restore(ctx); err != nil {
		return nil, err
	}
	if err := p.aim(ctx); err != nil {
		return nil, err
	}
	if p.remote == "" {
		// Merges with a branch would overtake each other otherwise. A remote cannot be locked.
		free, err := r.lock(ctx, "repository "+string(s.Repo))
		if err != nil {
			return nil, err
		}
		defer free()
	}
	return p.run(ctx)
}

// push is a Push that runs.
type push struct {
	r      *Repos
	req    PushRequest
	s      *Staged
	branch string
	// remote is the name, and address the place, of a remote; "" and zero for a branch of the workspace.
	remote  string
	address git.Address
	bare    *git.Bare
	// at is what the branch named when it was last looked at.
	at string
}

// check refuses what cannot be pushed, whatever the branch names.
func (p *push) check(ctx context.Context) (err error) {
	if p.req.Expected != p.s.Commit {
		e := p.refuse(StaleBase, nil, "the expected commit is not the staged one", "look at the staged commit again, and push what it shows")
		e.Expected, e.Actual = p.req.Expected, p.s.Commit
		return e
	}
	if err := git.CheckBranch(p.branch); err != nil {
		return err
	}
	p.bare, err = p.r.bare(ctx, p.s)
	return err
}

// aim finds the remote, if the push is to one.
func (p *push) aim(ctx context.Context) error {
	if p.req.Target == ToRemote {
		return p.findRemote(ctx)
	}
	if p.req.Remote != "" {
		return &fserr.Error{Code: fserr.EINVAL, Detail: "a remote is named for a push to the workspace", Hint: "leave it out, or push to the remote"}
	}
	return nil
}

// restore fetches the objects of a commit that was pushed to a remote, if the server has removed them, from there.
func (p *push) restore(ctx context.Context) error {
	if p.s.Pushed == nil {
		return nil
	}
	if has, err := p.bare.Has(ctx, p.s.Commit); err != nil || has {
		return err
	}
	if p.s.Pushed.Target == ToRemote {
		from := &push{r: p.r, req: PushRequest{Remote: p.s.Pushed.Remote, Panel: p.req.Panel}, s: p.s, branch: p.s.Pushed.Branch, bare: p.bare}
		if err := from.findRemote(ctx); err != nil {
			return err
		}
		if err := from.ofRemote(p.bare.Fetch(ctx, from.address, from.ref(), p.s.Commit)); !isMoved(err) {
			return err
		}
	}
	return objectsGone(opPush, p.s)
}

// findRemote finds the address of the remote, and refuses one that is not allowed.
func (p *push) findRemote(ctx context.Context) error {
	p.remote = cmp.Or(p.req.Remote, "origin")
	local, err := p.r.local(p.s.Repo)
	if err != nil {
		return err
	}
	all, err := local.Remotes(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(n git.NamedRemote) bool { return n.Name == p.remote })
	if i < 0 {
		hint := "it has none: 'git remote add' adds one"
		if len(all) > 0 {
			hint = "there are: " + remoteNames(all)
		}
		return p.refuse(NoRef, nil, fmt.Sprintf("repository /%s has no remote %.100q", p.s.Repo, p.remote), hint)
	}
	if err := p.r.Allowed(all[i].Push, all[i].PushErr, p.remote, p.req.Panel); err != nil {
		return err
	}
	p.address = all[i].Push
	return nil
}

func remoteNames(all []git.NamedRemote) (names string) {
	for i, n := range all[:min(len(all), 5)] {
		if i > 0 {
			names += ", "
		}
		names += n.Name
	}
	return names
}

// Allowed refuses (EACCES) an address that the operator does not allow. Without a list of prefixes, hosts may use what the configuration of a
// repository names with http, https or ssh, and panels nothing. unusable says why the address cannot be used, nil if it can.
func (r *Repos) Allowed(a git.Address, unusable error, name string, panel bool) error {
	if unusable != nil {
		return &fserr.Error{Code: fserr.EACCES, Detail: fmt.Sprintf("the address of remote %.100q cannot be used: %v", name, unusable), Hint: "give the remote an https or ssh address"}
	}
	allowed := len(r.cfg.Remotes) == 0 && !a.IsLocal() && !panel
	for _, prefix := range r.cfg.Remotes {
		allowed = allowed || a.IsWithin(prefix)
	}
	if allowed {
		return nil
	}
	at := " at " + a.String()
	if panel { // it must not learn a path of the server
		at = ""
	}
	return &fserr.Error{
		Code: fserr.EACCES, Detail: fmt.Sprintf("remote %.100q%s is not allowed", name, at), Hint: "the server's operator allows it with 'ctxfs serve --git-remote PREFIX'",
	}
}

// run moves the branch and the base.
func (p *push) run(ctx context.Context) (*Pushed, error) {
	to, err := p.move(ctx)
	if err != nil {
		return nil, err
	}
	out := p.result(to)
	if p.req.DryRun {
		out.At = time.Time{}
		return &out, nil
	}
	if to == p.at { // the branch had the commit already
		if done := p.s.Pushed; done != nil && p.isTo(done) {
			return done, nil
		}
		p.s.Pushing = &Pushing{Pushed: out, Request: p.request()}
	}
	p.tell(Advancing)
	p.s.Pushing.Moved = true
	return p.finish(ctx)
}

// finishTime is that of a server.
const finishTime = 15 * time.Second

// finish does what follows when the branch has moved, also if the caller is gone. It does not wait for others for ever.
func (p *push) finish(ctx context.Context) (*Pushed, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.r.finishTime)
	defer cancel()
	out, err := p.r.finish(ctx, p.s, p.req.Actor)
	if err == nil || ctx.Err() == nil {
		return out, err
	}
	e := p.refuse(Locked, err, fmt.Sprintf("branch %s of %s has the commit, but another call changes the context or the workspace, and the context's base did not move in %v", p.branch, p.place(), p.r.finishTime),
		"push again: that moves the base alone")
	e.MayHaveHappened = true
	return nil, e
}

// isTo reports whether the push is to the same branch as another one.
func (p *push) isTo(o *Pushed) bool {
	return o.Target == p.req.Target && o.Branch == p.branch && o.Remote == p.remote
}

// settleWait is how long locks of other git commands, and a repository that changes meanwhile, are waited for.
const settleWait = 3 * time.Second

// settlePoll is how often it is tried again.
const settlePoll = 50 * time.Millisecond

// move moves the branch, and returns what it names then. While others move it too it looks again.
func (p *push) move(ctx context.Context) (string, error) {
	until := time.Now().Add(settleWait)
	for {
		was := p.at
		from, to, err := p.decide(ctx)
		if err != nil || from == to {
			return to, err
		}
		p.tell(Moving)
		if err = p.step(ctx, from, to); err == nil {
			return to, nil
		}
		if isMoved(err) {
			if was != p.at {
				until = time.Now().Add(settleWait) // somebody else got ahead
			}
			err = p.stuck(err)
		}
		var refused *Error
		if !errors.As(err, &refused) || refused.Reason != Locked || time.Now().After(until) {
			return "", err
		}
		select {
		case <-time.After(settlePoll):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func isMoved(err error) bool { return review.IsMoved(err) || errors.Is(err, git.ErrMoved) }

// decide finds what the branch names, and what it is to name: the same if it has the staged commit already.
func (p *push) decide(ctx context.Context) (from, to string, err error) {
	p.tell(Checking)
	if p.at, err = p.look(ctx); err != nil {
		return "", "", err
	}
	if p.at == "" {
		if p.mayCreate() {
			return "", p.s.Commit, nil
		}
		return "", "", p.refuse(NoRef, nil, fmt.Sprintf("branch %s does not exist in %s", p.branch, p.place()), "create it: create_branch")
	}
	if has, err := p.bare.Follows(ctx, p.at, p.s.Commit); err != nil || has {
		return p.at, p.at, err
	}
	if follows, err := p.bare.Follows(ctx, p.s.Commit, p.at); err != nil || follows {
		return p.at, p.s.Commit, err
	}
	if !p.req.Merge {
		return "", "", p.moved(nil)
	}
	return p.merge(ctx)
}

// mayCreate reports whether the branch may be created: Stage has named it, or it is checked out and has no commit yet.
func (p *push) mayCreate() bool {
	own := p.s.NamedByStage && p.branch == p.s.Branch
	return p.req.Create || own || (p.req.Target == ToWorktree && p.s.Parent == "")
}

// look returns what the branch names now; "" for nothing.
func (p *push) look(ctx context.Context) (string, error) {
	if p.remote != "" {
		at, err := p.bare.RemoteRef(ctx, p.address, p.ref())
		return at, p.ofRemote(err)
	}
	local, err := p.r.local(p.s.Repo)
	if err != nil {
		return "", err
	}
	return local.Branch(p.branch)
}

// merge merges the staged commit with what the branch names.
func (p *push) merge(ctx context.Context) (from, to string, err error) {
	p.tell(Merging)
	if p.remote != "" {
		if err := p.ofRemote(p.bare.Fetch(ctx, p.address, p.ref(), p.at)); err != nil {
			return "", "", err
		}
		if has, err := p.bare.Follows(ctx, p.at, p.s.Commit); err != nil || has {
			return p.at, p.at, err
		}
	}
	m := git.Message{
		Text:   fmt.Sprintf("Merge staged commit %.12s into %s\n\n%s: %s\n", p.s.Commit, p.branch, contextTrailer, p.s.Context),
		Author: p.s.Committer, Committer: p.s.Committer, At: time.Now(),
	}
	to, conflicts, err := p.bare.Merge(ctx, p.at, p.s.Commit, m)
	switch {
	case errors.Is(err, git.ErrUnrelated):
		e := p.moved(err)
		e.Detail, e.Hint = "branch "+p.branch+" and the staged commit have no common history", "stage on top of the branch"
		return "", "", e
	case err != nil:
		return "", "", err
	case len(conflicts) > 0:
		e := p.refuse(Conflict, nil, fmt.Sprintf("branch %s and the staged commit changed the same lines of %d files", p.branch, len(conflicts)),
			"pull the branch into the context, stage again, and discard this commit")
		e.Expected, e.Actual = p.s.Parent, p.at
		for _, c := range conflicts {
			e.Paths = append(e.Paths, string(inRepository(p.s.Repo, c)))
		}
		return "", "", e
	}
	return p.at, to, nil
}

// step moves the branch once.
func (p *push) step(ctx context.Context, from, to string) error {
	if p.remote != "" {
		return p.stepRemote(ctx, from, to)
	}
	deltas, err := p.deltas(ctx, from, to)
	if err != nil {
		return err
	}
	req := review.PushRequest{
		Context: p.s.Context, Actor: p.req.Actor, Repository: p.s.Repo, Target: review.ToBranch, Branch: p.branch,
		Old: from, New: to, Deltas: deltas, Committer: p.s.Committer, Note: "push of staged commit " + p.s.ID, DryRun: p.req.DryRun,
	}
	if p.req.Target == ToWorktree {
		req.Target = review.ToCommit
	}
	if p.s.Pushed == nil {
		req.Base = p.s.Changes
	}
	blobs, err := p.bare.Blobs(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = blobs.Close() }() // it was only read
	req.Blob = blobs.Open
	if !p.req.DryRun {
		if err := p.bare.Bring(ctx, to, present(from, p.s.Parent)...); err != nil {
			return err
		}
		if err := p.begin(to); err != nil {
			return err
		}
		req.RequestID = p.s.Pushing.Request
	}
	if _, err = p.r.cfg.Reviews.Push(ctx, req); err == nil || p.req.DryRun {
		return p.ofWorkspace(err)
	}
	if e, lost := p.r.cfg.Reviews.Requested(p.s.Context, req.RequestID); e != nil || lost != nil {
		return lost // the branch has moved, and the base follows
	}
	return errors.Join(p.ofWorkspace(err), p.abandon())
}

// deltas lists what the move changes. Of a branch that is not checked out only the staged files count.
func (p *push) deltas(ctx context.Context, from, to string) ([]git.Delta, error) {
	deltas, err := p.bare.Deltas(ctx, from, to)
	if p.req.Target == ToWorktree {
		return deltas, err
	}
	staged := map[review.Path]bool{}
	for _, f := range p.s.Files {
		staged[f.Path] = true
	}
	return slices.DeleteFunc(deltas, func(d git.Delta) bool { return !staged[inRepository(p.s.Repo, d.Path)] }), err
}

// inRepository returns a path of a repository relative to the workspace.
func inRepository(repo review.Path, p string) review.Path {
	return review.Path(path.Join(string(repo), p))
}

// present returns the commits that are named.
func present(commits ...string) []string {
	return slices.DeleteFunc(commits, func(c string) bool { return c == "" })
}

func (p *push) stepRemote(ctx context.Context, from, to string) error {
	if !p.req.DryRun {
		if err := p.begin(to); err != nil {
			return err
		}
	}
	err := p.bare.Push(ctx, p.address, p.ref(), from, to, p.req.DryRun)
	var failed *git.RemoteError
	switch {
	case err == nil:
		p.r.point("moved")
		return nil
	case !errors.As(err, &failed): // the caller is gone, and the remote may have moved the branch
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWait)
		defer cancel()
		if e := p.r.settle(asking, p.s); e != nil {
			p.r.cfg.Log.Info("what became of a push whose caller is gone is asked later", zap.String("staged", p.s.ID), zap.Error(e))
		}
		return err
	case failed.MayHaveHappened:
		return p.ofRemote(err)
	}
	return errors.Join(p.ofRemote(err), p.abandon())
}

// begin records the push before the branch moves.
func (p *push) begin(to string) error {
	p.s.Pushing = &Pushing{Pushed: p.result(to), Request: p.request()}
	err := p.r.update(p.s)
	p.r.point("intended")
	return err
}

// abandon takes back what begin recorded.
func (p *push) abandon() error {
	p.s.Pushing = nil
	return p.r.update(p.s)
}

// request names the push in the journal.
func (p *push) request() string { return "push/" + p.s.ID + "/" + newID() }

func (p *push) ref() string { return "refs/heads/" + p.branch }

func (p *push) tell(phase Phase) {
	if p.req.Progress != nil {
		p.req.Progress(phase)
	}
}

// place names where the branch is, in messages.
func (p *push) place() string {
	if p.remote != "" {
		return "remote " + p.remote
	}
	return "repository /" + string(p.s.Repo)
}

func (p *push) result(to string) Pushed {
	out := Pushed{Commit: to, Branch: p.branch, Previous: p.at, Target: p.req.Target, Remote: p.remote, URL: p.address.String(), At: time.Now().UTC()}
	if p.remote == "" {
		out.URL = "/" + string(p.s.Repo)
	}
	return out
}

// settle finds out what became of a push that was interrupted, and completes it if it has happened.
func (r *Repos) settle(ctx context.Context, s *Staged) error {
	if s.Pushing == nil {
		return nil
	}
	happened, err := r.happened(ctx, s)
	if err != nil {
		return err
	}
	if happened {
		_, err = r.finish(ctx, s, "host")
		return err
	}
	s.Pushing = nil
	return r.update(s)
}

// happened reports whether the push that the record says was begun has happened.
func (r *Repos) happened(ctx context.Context, s *Staged) (bool, error) {
	if s.Pushing.Moved {
		return true, nil
	}
	if s.Pushing.Target != ToRemote {
		e, err := r.cfg.Reviews.Requested(s.Context, s.Pushing.Request)
		return e != nil, err
	}
	p := &push{r: r, req: PushRequest{ID: s.ID, Expected: s.Commit, Target: ToRemote, Remote: s.Pushing.Remote}, s: s, branch: s.Pushing.Branch}
	if err := p.check(ctx); err != nil {
		return false, err
	}
	if err := p.aim(ctx); err != nil {
		return false, err
	}
	at, err := p.look(ctx)
	if err != nil || at == s.Pushing.Commit || at == s.Pushing.Previous {
		return err == nil && at == s.Pushing.Commit, err
	}
	if at == "" {
		return false, nil
	}
	if err := p.ofRemote(p.bare.Fetch(ctx, p.address, p.ref(), at)); err != nil {
		return false, err
	}
	return p.bare.Follows(ctx, at, s.Pushing.Commit)
}

// finish moves the base of the context, unless an earlier push did, and records the push.
func (r *Repos) finish(ctx context.Context, s *Staged, actor string) (*Pushed, error) {
	if s.Pushing.Target == ToRemote {
		if err := r.update(s); err != nil {
			return nil, err
		}
	}
	if s.Pushed == nil {
		_, err := r.cfg.Reviews.Push(ctx, review.PushRequest{
			Context: s.Context, Actor: actor, RequestID: s.Pushing.Request, Repository: s.Repo, Target: review.ToBranch, Base: s.Changes,
		})
		if err != nil {
			return nil, err
		}
		r.point("advanced")
	}
	done := s.Pushing.Pushed
	s.Pushed, s.Pushing, s.Changes = &done, nil, nil // the base has moved by the changes
	return &done, r.update(s)
}

// settleAll settles the pushes to the workspace that a killed server has begun, and completes those to remotes that it knew to have happened.
func (r *Repos) settleAll(ctx context.Context) error {
	return r.settleEach(ctx, func(p *Pushing) bool { return p.Target != ToRemote || p.Moved })
}

// Settle asks remotes what became of pushes that a killed server has begun. A remote that does not answer is asked again by the next push.
func (r *Repos) Settle(ctx context.Context) error {
	return r.settleEach(ctx, func(*Pushing) bool { return true })
}

func (r *Repos) settleEach(ctx context.Context, match func(*Pushing) bool) error {
	all, err := r.list(ctx, func(k known) bool { return !k.settled })
	for _, s := range all {
		if s.Pushing == nil || !match(s.Pushing) {
			continue
		}
		if err := r.settleOne(ctx, s.ID); err != nil {
			r.cfg.Log.Warn("what became of an interrupted push is not known yet", zap.String("staged", s.ID), zap.Error(err))
		}
	}
	return err
}

func (r *Repos) settleOne(ctx context.Context, id string) error {
	unlock, err := r.lock(ctx, "staged "+id)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := r.staged(ctx, opPush, id)
	if err != nil {
		return err
	}
	defer r.tidy(ctx, s)
	return r.settle(ctx, s)
}
