package repos

import (
	"context"
	"errors"
	"fmt"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/review"
)

func (p *push) refuse(reason Reason, cause error, detail, hint string) *Error {
	return &Error{Reason: reason, Operation: opPush, Repo: string(p.s.Repo), Ref: p.ref(), Detail: detail, Hint: hint, Err: cause}
}

// moved says that the branch has commits that the staged one does not follow.
func (p *push) moved(cause error) *Error {
	e := p.refuse(NonFastForward, cause, fmt.Sprintf("branch %s of %s got other commits since", p.branch, p.place()),
		"merge them (on_moved), or stage again on top of the branch")
	e.Expected, e.Actual = p.s.Parent, p.at
	return e
}

// stuck says that the branch could not be moved, though it names what was expected.
func (p *push) stuck(cause error) *Error {
	e := p.refuse(Locked, cause, fmt.Sprintf("branch %s of %s changes all the time", p.branch, p.place()), "push again")
	var failed *git.RemoteError
	if errors.As(cause, &failed) && failed.Words != "" {
		e.Detail += ": " + failed.Words
	}
	return e
}

// unsettled says that it could not be found out what became of an earlier push of the commit.
func (p *push) unsettled(ctx context.Context, cause error) error {
	before := p.s.Pushing
	if ctx.Err() != nil || before == nil || before.Target != ToRemote || before.Moved {
		return cause
	}
	detail := fmt.Sprintf("it is not known whether the earlier push to branch %s of remote %s at %s happened: ", before.Branch, before.Remote, before.URL)
	hint := "push once the remote answers and is allowed; or let a host force the discard, and stage again"
	var e *Error
	if errors.As(cause, &e) {
		said := *e
		said.MayHaveHappened, said.Detail, said.Hint, said.Err = true, detail+e.Detail, hint, cause
		return &said
	}
	code, why, _ := fserr.Parts(cause)
	return &fserr.Error{Code: code, Detail: detail + why, Hint: hint, Err: cause}
}

// objectsGone says that the objects of a commit are not here any more, since it was pushed.
func objectsGone(operation string, s *Staged) *Error {
	return &Error{
		Reason: NoStaged, Operation: operation, Repo: string(s.Repo), Detail: fmt.Sprintf("staged commit %s was pushed to branch %s of %s, and its objects are not kept here", s.ID, s.Pushed.Branch, s.Pushed.URL),
		Hint: "look at commit " + s.Commit + " there",
	}
}

// ofWorkspace makes a refusal of why the workspace's repository could not be changed.
func (p *push) ofWorkspace(err error) error {
	var refused *review.Error
	switch {
	case err == nil || review.IsMoved(err) || !errors.As(err, &refused):
		return err
	case refused.Reason == review.RepositoryBusy:
		return p.refuse(Locked, err, refused.Detail, refused.Hint)
	case refused.Reason == review.DirtyCommit || refused.Reason == review.Conflicting:
		e := p.refuse(WorktreeDirty, err, refused.Detail, refused.Hint)
		for _, path := range refused.Paths {
			e.Paths = append(e.Paths, string(path))
		}
		return e
	}
	return err
}

// ofRemote makes a refusal of why a remote did not do what it was asked for.
func (p *push) ofRemote(err error) error {
	var failed *git.RemoteError
	if !errors.As(err, &failed) {
		return err
	}
	var e *Error
	switch {
	case errors.Is(failed.Kind, git.ErrMoved):
		return failed
	case errors.Is(failed.Kind, git.ErrAuth):
		e = p.refuse(Auth, err, fmt.Sprintf("remote %s at %s refuses the server's credentials, or asks for some", p.remote, p.address),
			"set up a credential helper, or an ssh key, for the user who runs the server")
	case errors.Is(failed.Kind, git.ErrRefused):
		e = p.refuse(Rejected, err, fmt.Sprintf("remote %s at %s refuses the commit: %s", p.remote, p.address, failed.Words), "")
	default:
		e = p.refuse(Unreachable, err, fmt.Sprintf("remote %s at %s does not answer as a git server does", p.remote, p.address), "check its address and the network, and push again")
		if e.MayHaveHappened = failed.MayHaveHappened; e.MayHaveHappened {
			e.Detail = fmt.Sprintf("the connection to remote %s at %s was lost, and it is not known whether the branch moved", p.remote, p.address)
			e.Hint = "push again: the server asks the remote first"
		}
	}
	return e
}
