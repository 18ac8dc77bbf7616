package repos

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// address returns where a remote of the repository is fetched from.
func (p *pull) address(ctx context.Context) (git.Address, error) {
	all, err := p.repo.Remotes(ctx)
	if err != nil {
		return git.Address{}, err
	}
	i := slices.IndexFunc(all, func(n git.NamedRemote) bool { return n.Name == p.req.Remote })
	if i < 0 {
		hint := "it has none: 'git remote add' adds one"
		if len(all) > 0 {
			hint = "there are: " + remoteNames(all)
		}
		return git.Address{}, &Error{Reason: NoRef, Detail: fmt.Sprintf("repository %s has no remote %.100q", p.repo.shown(), p.req.Remote), Hint: hint}
	}
	err = p.repos.Allowed(all[i].Fetch, all[i].FetchErr, p.req.Remote, p.req.Panel)
	if err != nil && p.req.Panel { // the address may be a path of the server
		_, _, hint := fserr.Parts(err)
		err = &fserr.Error{Code: fserr.EACCES, Detail: fmt.Sprintf("remote %.100q is not allowed to panels", p.req.Remote), Hint: hint, Err: err}
	}
	return all[i].Fetch, err
}

// ofRemote returns the refusal for an error of a remote; nil if it is none.
func (p *pull) ofRemote(err error) *Error {
	switch {
	case errors.Is(err, git.ErrAuth):
		return &Error{
			Reason: Auth, Detail: fmt.Sprintf("remote %s refuses the server's credentials, or asks for some", p.req.Remote),
			Hint: "set up a credential helper, or an ssh key, for the user who runs the server", Err: err,
		}
	case errors.Is(err, git.ErrUnreachable):
		return &Error{
			Reason: Unreachable, Detail: fmt.Sprintf("remote %s does not answer as a git server does", p.req.Remote),
			Hint: "check its address and the network, and pull again", Err: err,
		}
	}
	return nil
}
