package repos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/review"
)

// PullRequest of Pull.
type PullRequest struct {
	Context, Actor string
	// Panel says that a panel pulls: from those remotes only that Config.Remotes names.
	Panel bool
	// Repo is the repository, relative to the workspace; "" for the workspace's own.
	Repo review.Path
	// Paths are files and directories, relative to the repository; none means all.
	Paths []string
	// Ref is a branch, a tag or a commit; "" means HEAD.
	Ref string
	// Remote is the name of a remote of the repository; "" means the workspace's repository itself.
	Remote string
	// Elsewhere puts the files into Dest, a directory of the context, and not into their own places.
	Elsewhere  bool
	Dest       review.Path
	OnConflict review.OnPullConflict
	DryRun     bool
}

// Pulled is what Pull did, or would do.
type Pulled struct {
	*review.Pulled
	// Commit is the one that was pulled.
	Commit string
}

// historyOf is the key of the lock with which a pull of a context fetches the history of a remote.
const historyOf = "history for "

// opPull is the operation in errors.
const opPull = "pull"

// Pull brings files of a commit into a context: all of them, or none. The commit is one of the workspace's repository, or of one of its remotes.
func (r *Repos) Pull(ctx context.Context, req PullRequest) (_ *Pulled, err error) {
	stop, err := r.run(ctx, req.Context)
	if err != nil {
		return nil, err
	}
	defer stop()
	p := &pull{repos: r, req: req}
	defer func() {
		if err = errors.Join(err, p.close()); err != nil {
			err = p.refused(err)
		}
	}()
	if err := p.clean(); err != nil {
		return nil, err
	}
	if p.repo, err = r.repository(ctx, opPull, req.Context, req.Repo); err != nil {
		return nil, err
	}
	if p.all, err = r.cfg.Reviews.Repositories(ctx, req.Context); err != nil {
		return nil, err
	}
	if p.excluded, err = r.cfg.Reviews.Excluded(ctx, req.Context); err != nil {
		return nil, err
	}
	if err := p.find(ctx); err != nil {
		return nil, err
	}
	if err := p.list(ctx); err != nil {
		return nil, err
	}
	if err := p.fetchContents(ctx); err != nil {
		return nil, err
	}
	request, err := p.request(ctx)
	if err != nil {
		return nil, err
	}
	done, err := r.cfg.Reviews.Pull(ctx, request)
	if err != nil {
		return nil, err
	}
	return &Pulled{done, p.commit}, nil
}

// pull is one call of Pull.
type pull struct {
	repos *Repos
	req   PullRequest
	repo  *repository
	// all are the repositories of the context.
	all []seed.Repository
	// commit is pulled, and root is its tree.
	commit, root string
	// local reads the workspace's repository, and fetched what came from a remote; nil if none is concerned.
	local   *git.Objects
	fetched *git.Fetched
	trees   trees
	// excluded says why seeding leaves out a path of the context.
	excluded func(p review.Path) string
	// bytes counts what was read.
	bytes int64
}

func (p *pull) close() error {
	var err error
	if p.local != nil {
		err = p.local.Close()
	}
	if p.fetched != nil {
		err = errors.Join(err, p.fetched.Close())
	}
	return err
}

// clean checks the request.
func (p *pull) clean() error {
	p.req.Paths = slices.Clone(p.req.Paths)
	for i, name := range p.req.Paths {
		clean := path.Clean(name)
		if path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || strings.Contains(name, "\x00") {
			return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("%.300q is no path in a repository", name), Hint: "write it relative to the repository"}
		}
		if clean == "." {
			clean = ""
		}
		p.req.Paths[i] = clean
	}
	if len(p.req.Paths) == 0 {
		p.req.Paths = []string{""}
	}
	if p.req.Ref == "" {
		p.req.Ref = "HEAD"
	}
	if err := git.CheckRef(p.req.Ref); err != nil {
		return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("%.300q cannot be a branch, a tag or a commit", p.req.Ref), Hint: "see 'git help check-ref-format'"}
	}
	if rule := review.BarredName(p.req.Dest); rule != "" {
		return &fserr.Error{Code: fserr.EACCES, Path: "/" + string(p.req.Dest), Detail: "files cannot be put there: rule " + rule}
	}
	return nil
}

// leftOut says why the context does not get a path of the repository, "" if it does. What seeding leaves out cannot be had in another place.
func (p *pull) leftOut(name string) string { return p.excluded(p.repo.own(name)) }

// find resolves the ref, and makes the commit readable.
func (p *pull) find(ctx context.Context) (err error) {
	repo := p.repo
	if p.req.Panel && isHidden(p.req.Ref) {
		return p.notForPanels(nil)
	}
	if p.req.Remote == "" {
		if p.commit, err = p.resolve(ctx); err != nil {
			return err
		}
	}
	if p.local, err = repo.Objects(ctx, p.repos.cfg.Git.Scratch, cmp.Or(p.commit, p.repo.Seeded.Head)); err != nil {
		return err
	}
	if p.req.Remote == "" {
		p.root, err = p.local.TreeOf(p.commit)
		return err
	}
	address, err := p.address(ctx)
	if err != nil {
		return err
	}
	if p.commit, err = p.repos.git.ResolveRemote(ctx, address, p.req.Remote, p.req.Ref); err != nil {
		return err
	}
	if err := p.mayHave(ctx, address); err != nil {
		return err
	}
	if p.fetched, err = p.repos.git.Fetch(ctx, address, p.commit, p.repos.cfg.MaxBytes); err != nil {
		return err
	}
	if p.root, err = p.fetched.TreeOf(p.commit); err != nil {
		return &Error{Reason: NoRef, Detail: fmt.Sprintf("remote %q has no commit %.12s", p.req.Remote, p.commit), Hint: "name one of its branches or tags", Err: err}
	}
	return nil
}

// resolve finds the commit of the workspace's repository. A panel gets what branches, tags and remote-tracking branches contain: the repository may
// also have commits that its user dropped because of a secret in them, and the stash. A panel does not learn which of these there are.
func (p *pull) resolve(ctx context.Context) (string, error) {
	commit, err := p.repo.Resolve(ctx, p.req.Ref)
	if !p.req.Panel || !git.MayBeCommit(p.req.Ref) {
		return commit, err
	}
	if fserr.CodeOf(err) == fserr.ENOENT {
		return "", p.notForPanels(err)
	}
	if err != nil || commit == p.repo.Seeded.Head {
		return commit, err
	}
	if named, err := p.repo.IsNamed(ctx, commit); err != nil || named {
		return commit, err
	}
	return "", p.notForPanels(nil)
}

// mayHave refuses a panel a commit, named by its full ID, that no branch or tag of the remote contains: many servers give any commit that they have, also
// one that its author dropped because of a secret in it. That takes the history of all branches, so a context asks for one commit at a time.
func (p *pull) mayHave(ctx context.Context, from git.Address) error {
	if !p.req.Panel || p.req.Ref != p.commit {
		return nil
	}
	unlock, err := p.repos.lock(ctx, historyOf+p.req.Context)
	if err != nil {
		return err
	}
	defer unlock()
	named, err := p.repos.git.IsNamedRemotely(ctx, from, p.commit, p.repos.cfg.MaxBytes)
	if err == nil && !named {
		err = &Error{
			Reason: NoRef, Detail: fmt.Sprintf("no branch or tag of remote %q contains commit %.12s", p.req.Remote, p.commit),
			Hint: "panels pull branches and tags, and commits that these contain; the host pulls any commit",
		}
	}
	return err
}

// isHidden reports whether a full name is of a ref that panels do not pull, such as refs/stash.
func isHidden(ref string) bool {
	return strings.HasPrefix(ref, "refs/") && !slices.ContainsFunc([]string{"refs/heads/", "refs/tags/", "refs/remotes/"}, func(dir string) bool { return strings.HasPrefix(ref, dir) })
}

func (p *pull) notForPanels(cause error) error {
	return &Error{
		Reason: NoRef, Detail: fmt.Sprintf("repository %s has nothing for panels that is called %.100q", p.repo.shown(), p.req.Ref), Err: cause,
		Hint: "panels pull branches, tags and remote-tracking branches, and commits that these contain; the host pulls any commit",
	}
}

// list finds the files of the paths.
func (p *pull) list(ctx context.Context) error {
	p.trees = trees{objects: p.local, most: p.repos.cfg.MaxFiles}
	if p.fetched != nil {
		p.trees.objects = p.fetched.Objects
	}
	var gone []string
	for _, name := range outermost(p.req.Paths) {
		listed := len(p.trees.files)
		found, submodule, err := p.trees.list(ctx, p.root, name)
		switch {
		case err != nil:
			return err
		case submodule != "":
			return &Error{
				Reason: IsSubmodule, Paths: []string{string(p.repo.own(submodule))}, Detail: "submodules are not pulled",
				Hint: "pull from its own repository",
			}
		case !found && name != "":
			gone = append(gone, name)
		}
		if err := p.checkLeftOut(name, p.trees.files[listed:]); err != nil {
			return err
		}
	}
	return p.checkGone(ctx, gone)
}

// checkLeftOut refuses a path if the context gets no file of it.
func (p *pull) checkLeftOut(name string, found []treeFile) error {
	if name == "" || len(found) == 0 || slices.ContainsFunc(found, func(f treeFile) bool { return p.leftOut(f.path) == "" }) {
		return nil
	}
	return &fserr.Error{
		Code: fserr.EACCES, Path: "/" + string(p.repo.own(name)), Detail: "the context does not get this path: it is left out by " + p.leftOut(found[0].path),
		Hint: "name paths that contexts are seeded with",
	}
}

// checkGone refuses paths that neither the commit has nor the one that the context was seeded with.
func (p *pull) checkGone(ctx context.Context, gone []string) error {
	if len(gone) == 0 {
		return nil
	}
	tracked, err := p.tracked(ctx)
	if err != nil {
		return err
	}
	for _, name := range gone {
		had := slices.ContainsFunc(tracked, func(f treeFile) bool { return isWithin(f.path, name) })
		if !had {
			return &fserr.Error{
				Code: fserr.ENOENT, Path: "/" + string(p.target(name)), Detail: fmt.Sprintf("%s of repository %s has no %q", p.label(), p.repo.shown(), name),
				Hint: "write it relative to the repository, as git ls-tree does",
			}
		}
	}
	return nil
}

func isWithin(p, dir string) bool { return review.Path(p).Within(review.Path(dir)) }

// outermost drops the paths that are below another one.
func outermost(paths []string) []string {
	var out []string
	for _, p := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		if !slices.ContainsFunc(out, func(dir string) bool { return isWithin(p, dir) }) {
			out = append(out, p)
		}
	}
	return out
}

// tracked lists what the commit that the context was seeded with has at the paths. It is empty if that commit is not there any more.
func (p *pull) tracked(ctx context.Context) ([]treeFile, error) {
	if p.repo.Seeded.Head == "" {
		return nil, nil
	}
	root, err := p.local.TreeOf(p.repo.Seeded.Head)
	if err != nil {
		if ctx.Err() == nil {
			p.repos.cfg.Log.Warn("the commit that a context was seeded with cannot be read: pulling removes only what was pulled before",
				zap.String("context", p.req.Context), zap.String("repository", p.repo.shown()), zap.Error(err))
		}
		return nil, ctx.Err()
	}
	t := trees{objects: p.local, most: p.repos.cfg.MaxFiles}
	for _, name := range outermost(p.req.Paths) {
		if _, _, err := t.list(ctx, root, name); err != nil {
			return nil, err
		}
	}
	return t.files, nil
}

// fetchContents fetches what the paths need of a remote, and what the workspace's repository does not have.
func (p *pull) fetchContents(ctx context.Context) error {
	if p.fetched == nil {
		return nil
	}
	needed := slices.Clone(p.trees.attributes)
	for _, f := range p.trees.files {
		if f.mode == git.ModeRepository || p.leftOut(f.path) != "" {
			continue
		}
		if _, err := p.local.Blob(f.id); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			needed = append(needed, f.id)
		}
	}
	return p.fetched.Need(ctx, needed)
}

// target returns where the context gets a path of the repository.
func (p *pull) target(name string) review.Path {
	if p.req.Elsewhere {
		return review.Path(path.Join(string(p.req.Dest), name))
	}
	return p.repo.own(name)
}

// inside returns the repository in this one that a path of the context lies in; "" if it lies in none.
func (p *pull) inside(at review.Path) string {
	for _, s := range p.all {
		if dir := pathOf(s); len(dir) > len(p.repo.Path) && at.Within(dir) {
			return "/" + string(dir)
		}
	}
	return ""
}

// own returns where the context has a path of the repository.
func (r *repository) own(name string) review.Path {
	return review.Path(path.Join(string(r.Path), name))
}

func (r *repository) shown() string { return "/" + string(r.Path) }

// label names the commit in messages and in conflict markers.
func (p *pull) label() string {
	ref := p.req.Ref
	if ref == p.commit {
		ref = ref[:12]
	}
	if p.req.Remote != "" {
		return p.req.Remote + "/" + ref
	}
	return ref
}

// request returns what the review has to do.
func (p *pull) request(ctx context.Context) (review.PullRequest, error) {
	req := review.PullRequest{
		Context: p.req.Context, Actor: p.req.Actor, DryRun: p.req.DryRun, OnConflict: p.req.OnConflict,
		From: p.repo.Path, Into: p.target(""), Label: p.label(), Tracked: map[review.Path]bool{}, Open: p.open,
	}
	for _, name := range p.req.Paths {
		req.Scope = append(req.Scope, p.target(name))
	}
	was := map[string]treeFile{}
	if req.Into == req.From {
		tracked, err := p.tracked(ctx)
		if err != nil {
			return req, err
		}
		for _, f := range tracked {
			if at := p.target(f.path); f.mode != git.ModeRepository && p.leftOut(f.path) == "" {
				was[f.path], req.Tracked[at] = f, true
			}
		}
	}
	if err := p.files(&req); err != nil {
		return req, err
	}
	return req, p.filters(ctx, &req, was)
}

// files adds the files to the request.
func (p *pull) files(req *review.PullRequest) error {
	for _, f := range p.trees.files {
		at := p.target(f.path)
		if f.mode == git.ModeRepository || p.leftOut(f.path) != "" {
			continue
		}
		if why := cmp.Or(refusedName(f.path), review.BarredName(at)); why != "" {
			return git.RefuseEntry(f.path, why)
		}
		if other := p.inside(at); other != "" && req.Into == req.From {
			return &Error{
				Reason: IsSubmodule, Paths: []string{string(at)}, Detail: "the path lies in another repository of the context, " + other,
				Hint: "name the paths that are of this repository",
			}
		}
		file := review.PullFile{Path: at, Type: rootfs.TypeFile, Mode: 0o644, ID: f.id}
		switch f.mode {
		case git.ModeFile, 0o100664: // the second was written by git before 2005
		case git.ModeExecutable:
			file.Mode = 0o755
		case git.ModeLink:
			file.Type = rootfs.TypeSymlink
		default:
			return git.RefuseEntry(f.path, fmt.Sprintf("mode %o is none that git gives", f.mode))
		}
		req.Files = append(req.Files, file)
	}
	return nil
}

// filters keeps the context's version of files that need a filter program and that the commit did not change, and refuses the others.
func (p *pull) filters(ctx context.Context, req *review.PullRequest, was map[string]treeFile) error {
	if has, err := p.mayFilter(); err != nil || !has {
		return err
	}
	var paths []string
	for _, f := range p.trees.files {
		paths = append(paths, f.path)
	}
	if len(paths) == 0 {
		return nil
	}
	filters, err := p.trees.objects.Filters(ctx, p.root, paths)
	if err != nil {
		return err
	}
	kept := map[review.Path]bool{}
	var refused []string
	filter := ""
	for _, f := range p.trees.files {
		if filters[f.path] == "" || p.leftOut(f.path) != "" || (f.mode != git.ModeFile && f.mode != git.ModeExecutable) {
			continue
		}
		if was[f.path].id == f.id {
			kept[p.target(f.path)] = true
			continue
		}
		refused, filter = append(refused, string(p.target(f.path))), fmt.Sprintf("the filter %.50q", filters[f.path])
	}
	for i := range req.Files {
		req.Files[i].Keep = kept[req.Files[i].Path]
	}
	if len(refused) == 0 {
		return nil
	}
	return needsFilter(refused, filter)
}

func needsFilter(paths []string, filter string) *Error {
	return &Error{
		Reason: NeedsFilter, Paths: paths, Detail: "files need " + filter + ", and ctxfs runs no filter",
		Hint: "pull other paths, or check the files out in the workspace and open a new context",
	}
}

// maxAttributes bounds what is read of a .gitattributes file, in bytes. Git ignores larger ones.
const maxAttributes = 100 << 20

// mayFilter reports whether a .gitattributes file of the commit speaks of filters.
func (p *pull) mayFilter() (bool, error) {
	slices.Sort(p.trees.attributes)
	for _, id := range slices.Compact(p.trees.attributes) {
		content, err := p.trees.objects.Open(id)
		if err != nil {
			return false, err
		}
		data, err := io.ReadAll(io.LimitReader(content, maxAttributes))
		if err != nil || strings.Contains(string(data), "filter") {
			return err == nil, err
		}
	}
	return false, nil
}

// open opens the content of a file, of the workspace's repository if that has it.
func (p *pull) open(f review.PullFile) (io.Reader, int64, error) {
	if f.Keep {
		return nil, 0, needsFilter([]string{string(f.Path)}, "a filter")
	}
	objects := p.local
	size, err := objects.Blob(f.ID)
	if err != nil && p.fetched != nil {
		objects = p.fetched.Objects
		size, err = objects.Blob(f.ID)
	}
	if err != nil {
		return nil, 0, err
	}
	if p.bytes += size; p.bytes > p.repos.cfg.MaxBytes {
		return nil, 0, tooLarge("the files have more than " + seed.Size(p.repos.cfg.MaxBytes))
	}
	if f.Type == rootfs.TypeSymlink && (size == 0 || size >= rootfs.MaxPath) {
		return nil, 0, git.RefuseEntry(string(f.Path), "it is a link of no, or too long a target")
	}
	return objects.Content(), size, nil
}

// refused adds to an error what Pull knows, and makes refusals of review and git those of this package.
func (p *pull) refused(err error) error {
	var own *Error
	var conflict *review.Error
	var e *fserr.Error
	switch {
	case errors.As(err, &own):
	case errors.As(err, &conflict) && conflict.Reason == review.Conflicting:
		own = &Error{Reason: Conflict, Detail: "nothing was pulled: the context and " + p.label() + " changed the same files", Hint: conflict.Hint, Err: err}
		for _, c := range conflict.Conflicts {
			own.Paths = append(own.Paths, string(c.Path))
		}
	case errors.Is(err, git.ErrTooLarge):
		own = tooLarge("remote " + p.req.Remote + " sends more than " + seed.Size(p.repos.cfg.MaxBytes))
	case errors.As(err, &e) && e.Op == git.OpResolve && e.Code == fserr.ENOENT:
		own = &Error{Reason: NoRef, Detail: e.Detail, Hint: e.Hint, Err: err}
	default:
		own = p.ofRemote(err)
	}
	if own == nil {
		return err
	}
	own.Operation, own.Ref = opPull, p.req.Ref
	own.Repo = string(p.req.Repo)
	return own
}
