package git

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrTooLarge is the error of a fetch that was stopped because it brought too much.
var ErrTooLarge = errors.New("the fetch brings too much")

// ResolveRemote returns the commit that a ref of the repository at an address means now, as Repository's Resolve does. Errors that say what is
// wrong with the ref call the repository shown. Others are a *RemoteError, or ctx's.
func (r *Reader) ResolveRemote(ctx context.Context, a Address, shown, ref string) (string, error) {
	if isObjectID(ref) {
		return ref, nil // the fetch shows whether it exists and is a commit
	}
	s, err := newScratch(r.opts.Scratch, false)
	if err != nil {
		return "", err
	}
	out, said, err := to(s, a).capture(ctx, r.opts.Timeout, nil, "ls-remote", "--quiet", target)
	if err != nil {
		return "", errors.Join(a.failed(ctx, nil, said, err), s.remove())
	}
	commit, err := (&remote{reader: r, shown: shown}).choose(ref, advertised(out))
	return commit, errors.Join(err, s.remove())
}

// to runs git in a scratch repository with an address as the remote named target.
func to(s *scratch, a Address) runner {
	return (&Bare{own: s}).to(a)
}

// Fetched has a commit of a remote repository, as far as it was fetched. The caller closes it.
type Fetched struct {
	*Objects
	reader  *Reader
	address Address
	commit  string
	scratch *scratch
	most    int64
}

// Fetch fetches a commit of the repository at an address, without the contents of its files if the server can do that. It fails with ErrTooLarge if
// that takes more than most bytes. Other errors are a *RemoteError, or ctx's.
func (r *Reader) Fetch(ctx context.Context, a Address, commit string, most int64) (_ *Fetched, err error) {
	f := &Fetched{reader: r, address: a, commit: commit, most: most}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.scratch, err = newScratch(r.opts.Scratch, len(commit) == 64); err != nil {
		return nil, err
	}
	// An older server gives only what its refs name.
	err = f.tryAll(ctx, nil, []string{"--depth=1", "--filter=blob:none", target, commit}, append([]string{"--filter=blob:none", target}, allRefs...))
	if err != nil {
		return nil, err
	}
	return f, f.open(ctx)
}

var allRefs = []string{"+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"}

// IsNamedRemotely reports whether a branch or tag of the repository at an address names a commit, or one that follows it. It fetches the history of all
// branches and tags, without files if the server can do that, and fails as Fetch does.
func (r *Reader) IsNamedRemotely(ctx context.Context, a Address, commit string, most int64) (named bool, err error) {
	f := &Fetched{reader: r, address: a, commit: commit, most: most}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.scratch, err = newScratch(r.opts.Scratch, len(commit) == 64); err != nil {
		return false, err
	}
	out, said, err := to(f.scratch, a).capture(ctx, r.opts.Timeout, nil, "ls-remote", "--quiet", target)
	if err != nil {
		return false, a.failed(ctx, nil, said, err)
	}
	for name, id := range advertised(out) {
		if id == commit && (name == "HEAD" || strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/")) {
			return true, nil
		}
	}
	all := append([]string{target}, allRefs...)
	if err := f.tryAll(ctx, nil, append([]string{"--filter=tree:0"}, all...), all); err != nil {
		return false, err
	}
	own := f.scratch.local("")
	var missing *exec.ExitError
	if _, err := own.run(ctx, r.opts.Timeout, "cat-file", "-e", commit+"^{commit}"); errors.As(err, &missing) && missing.Exited() {
		return false, nil
	} else if err != nil {
		return false, err
	}
	out, err = own.run(ctx, r.opts.Timeout, "rev-list", "--max-count=1", commit, "--not", "--all")
	return len(out) == 0, err
}

// tryAll runs git fetch with one list of arguments after the other, until one succeeds or another one would not help. Only the first one gets the refs.
func (f *Fetched) tryAll(ctx context.Context, refs []string, args ...[]string) (err error) {
	for _, a := range args {
		err = f.fetch(ctx, refs, a...)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrAuth) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		refs = nil
	}
	return err
}

// open starts git with a GIT_DIR of its own, which names no remote: a missing object is not fetched.
func (f *Fetched) open(ctx context.Context) error {
	s, err := newScratch(f.reader.opts.Scratch, len(f.commit) == 64)
	if err != nil {
		return err
	}
	f.Objects, err = openObjects(ctx, s, s.local(filepath.Join(f.scratch.dir, "objects")))
	return err
}

// Need fetches the contents of these files, as far as they are not there.
func (f *Fetched) Need(ctx context.Context, ids []string) error {
	var missing []string
	for _, id := range ids {
		switch _, err := f.ask(id); {
		case errors.Is(err, errMissing):
			missing = append(missing, id)
		case err != nil:
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	// A server that gives no single files gives the commit, or what its refs name.
	all := []string{"--refetch", "--no-filter", target}
	return f.tryAll(ctx, missing, []string{"--filter=blob:none", "--stdin", target}, slices.Concat(all[:2], []string{"--depth=1", target, f.commit}), slices.Concat(all, allRefs))
}

// fetch runs git fetch, with refs from its input if there are any.
func (f *Fetched) fetch(ctx context.Context, refs []string, args ...string) error {
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := to(f.scratch, f.address).withoutHooks(ctx, f.reader.opts.Timeout)
	if err != nil {
		return err
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		f.watch(ctx, cancel)
	}()
	r.config = append(slices.Clip(r.config), "fetch.negotiationAlgorithm=noop")
	all := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head"}
	_, said, err := r.capture(ctx, f.reader.opts.FetchTimeout, strings.NewReader(strings.Join(refs, "\n")), append(all, args...)...)
	if err != nil {
		err = f.address.failed(caller, nil, said, err)
	}
	if size, sizeErr := f.size(); err == nil && (sizeErr != nil || size > f.most) {
		err = errors.Join(sizeErr, ErrTooLarge)
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrTooLarge) {
		err = cause
	}
	cancel(nil)
	<-watched
	return err
}

// fetchPoll is how often the size of a fetch is looked at.
const fetchPoll = 200 * time.Millisecond

// watch stops a fetch that brings too much.
func (f *Fetched) watch(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(fetchPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if size, err := f.size(); err == nil && size > f.most {
				stop(ErrTooLarge)
			}
		}
	}
}

// size returns how many bytes the objects take. A file that git removes meanwhile does not count.
func (f *Fetched) size() (n int64, err error) {
	err = filepath.WalkDir(filepath.Join(f.scratch.dir, "objects"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, infoErr := d.Info()
			if err = infoErr; err == nil {
				n += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return n, err
}

// Close removes what was fetched.
func (f *Fetched) Close() error {
	var err error
	if f.Objects != nil {
		err = f.Objects.Close()
	}
	if f.scratch != nil {
		err = errors.Join(err, f.scratch.remove())
	}
	return err
}
