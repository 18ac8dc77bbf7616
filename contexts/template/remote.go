package template

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// ErrUnreachable is in the chain of every error that says no more than that a repository under the base URL, or
// the way there, did not do its part: whether a template has moved is then not known.
var ErrUnreachable = errors.New("the repository could not be reached")

// remoteRepo is a repository under a base URL that is not a directory. The URL
// is never told: it may hold a password.
type remoteRepo struct {
	// shown is its name in the template, name its source.
	shown, name, url string
	opts             Options
}

func (r *remoteRepo) source() string { return r.name }

// failed says that the other end, or the way there, did not do its part.
func (r *remoteRepo) failed(what string, err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return err
	}
	code := fserr.CodeOf(err)
	hint := "check the repository's name, the git base URL and the server's credentials"
	if errors.Is(err, context.DeadlineExceeded) {
		hint = "try again later"
	}
	return &fserr.Error{Code: code, Err: fmt.Errorf("%w: %w", ErrUnreachable, err), Hint: hint, Detail: fmt.Sprintf("repository %q could not be %s", r.shown, what)}
}

func (r *remoteRepo) resolve(ctx context.Context, ref string) (string, error) {
	if isObjectID(ref) {
		return ref, nil // whether it is there, and a commit, shows when it is fetched
	}
	refs, err := r.list(ctx)
	if err != nil {
		return "", r.failed("asked for its refs", err)
	}
	lookup := func(name string) (string, error) {
		if id := refs[name+"^{}"]; id != "" {
			return id, nil
		}
		return refs[name], nil
	}
	rev, err := choose(ref, r.shown, lookup, func(id string) (string, error) { return id, nil })
	if err != nil || isObjectID(rev) {
		return rev, err
	}
	return r.complete(rev, refs)
}

// list asks for the refs, tags with the commits that they lead to ("^{}").
func (r *remoteRepo) list(ctx context.Context) (map[string]string, error) {
	s, err := newScratch(r.opts.Scratch, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.remove() }()
	out, err := gitRunner{scratch: s, remote: true}.run(ctx, r.opts.Timeout, "ls-remote", "--quiet", "--", r.url)
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if ok && isObjectID(id) {
			refs[name] = id
		}
	}
	return refs, nil
}

// complete finds the one advertised commit that begins with short.
func (r *remoteRepo) complete(short string, refs map[string]string) (string, error) {
	found := ""
	for name, id := range refs {
		if refs[name+"^{}"] != "" || !strings.HasPrefix(id, short) || id == found {
			continue
		}
		if found != "" {
			return "", ambiguousRef(r.shown, short, "write more digits")
		}
		found = id
	}
	if found == "" {
		return "", unknownRef(r.shown, short, "write all digits of the commit: a remote repository only tells the ends of its branches and tags")
	}
	return found, nil
}

// reader fetches the commit alone; from a server that gives only what its refs
// name, all branches and tags.
func (r *remoteRepo) reader(ctx context.Context, parent, commit string) (*objects, error) {
	s, err := newScratch(parent, len(commit) == 64)
	if err != nil {
		return nil, err
	}
	g := gitRunner{scratch: s, remote: true}
	err = r.fetch(ctx, g, "--depth=1", commit)
	if err != nil && ctx.Err() == nil {
		err = r.fetch(ctx, g, "", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
	}
	if err != nil {
		return nil, errors.Join(r.failed("fetched", err), s.remove())
	}
	return openObjects(ctx, gitRunner{scratch: s})
}

func (r *remoteRepo) fetch(ctx context.Context, g gitRunner, option string, refspecs ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head"}
	if option != "" {
		args = append(args, option)
	}
	_, err := g.run(ctx, r.opts.FetchTimeout, append(append(args, "--", r.url), refspecs...)...)
	return err
}
