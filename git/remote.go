package git

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// ErrUnreachable is in the chain of every error that reports only that a remote
// repository, or the way to it, failed: whether its refs have moved is then unknown.
var ErrUnreachable = errors.New("the repository could not be reached")

// remote is a repository behind a URL.
type remote struct {
	reader *Reader
	// shown is the repository's name in messages. The URL may hold a password, so no message shows it.
	shown string
	at    site
}

// Remote returns the repository behind a URL of scheme http, https or ssh. Errors call
// it shown, and never show the URL. Nothing is asked yet.
func (r *Reader) Remote(url, shown string) Repository {
	return &remote{reader: r, at: siteOf(url), shown: shown}
}

// failed reports that the other end, or the way there, failed.
func (r *remote) failed(what string, err error) error {
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

// Resolve is Repository's. Only ends of branches and tags may be abbreviated.
func (r *remote) Resolve(ctx context.Context, ref string) (string, error) {
	if isObjectID(ref) {
		return ref, nil // the fetch shows whether it exists and is a commit
	}
	refs, err := r.list(ctx)
	if err != nil {
		return "", r.failed("asked for its refs", err)
	}
	return r.choose(ref, refs)
}

// choose returns the commit that a ref means, of those that the repository advertises.
func (r *remote) choose(ref string, refs map[string]string) (string, error) {
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

// list asks for the refs, and for tags also the commits that they lead to ("^{}").
func (r *remote) list(ctx context.Context) (map[string]string, error) {
	s, err := newScratch(r.reader.opts.Scratch, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.remove() }()
	out, err := s.remote(r.at).run(ctx, r.reader.opts.Timeout, "ls-remote", "--quiet", target)
	if err != nil {
		return nil, err
	}
	return advertised(out), nil
}

// advertised reads the refs that git ls-remote prints.
func advertised(out []byte) map[string]string {
	refs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if ok && isObjectID(id) {
			refs[name] = id
		}
	}
	return refs
}

// complete finds the one advertised commit that begins with short.
func (r *remote) complete(short string, refs map[string]string) (string, error) {
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
		return "", unknownRef(r.shown, short, "write all digits of the commit: a remote repository lists only the ends of its branches and tags")
	}
	return found, nil
}

// Objects is Repository's. It fetches the commit alone or, from a server that gives only
// what its refs name, all branches and tags.
func (r *remote) Objects(ctx context.Context, scratch, commit string) (*Objects, error) {
	s, err := newScratch(scratch, len(commit) == 64)
	if err != nil {
		return nil, err
	}
	err = r.fetch(ctx, s, "--depth=1", target, commit)
	if err != nil && ctx.Err() == nil {
		err = r.fetch(ctx, s, target, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
	}
	if err != nil {
		return nil, errors.Join(r.failed("fetched", err), s.remove())
	}
	return openObjects(ctx, s, s.local(""))
}

func (r *remote) fetch(ctx context.Context, s *scratch, args ...string) error {
	all := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head"}
	git, err := s.remote(r.at).withoutHooks(ctx, r.reader.opts.Timeout)
	if err == nil {
		_, err = git.run(ctx, r.reader.opts.FetchTimeout, append(all, args...)...)
	}
	return err
}
