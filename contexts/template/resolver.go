package template

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// Options of NewResolver.
type Options struct {
	// BaseURL is where repositories are looked for that the workspace does not have;
	// "" means nowhere. Its scheme is file, http, https or ssh.
	BaseURL string
	// Scratch is an existing directory for git's empty repositories, which are removed
	// when they are no longer needed: staging, which is swept at start.
	Scratch string
	// Timeout bounds one command that asks a remote repository or reads a local one;
	// 0 means a minute. FetchTimeout bounds one fetch; 0 means ten minutes.
	Timeout, FetchTimeout time.Duration
}

// Resolver reads templates of one workspace and finds the commits that they mean.
// It is safe for concurrent use.
type Resolver struct {
	src  seed.Source
	opts Options
	base *base
	// peeled are the commits that objects of local repositories lead to.
	peeled *peeled
}

// NewResolver returns the resolver of a workspace. A base URL that cannot be used is EINVAL.
func NewResolver(src seed.Source, opts Options) (*Resolver, error) {
	if opts.Timeout <= 0 {
		opts.Timeout = time.Minute
	}
	if opts.FetchTimeout <= 0 {
		opts.FetchTimeout = 10 * time.Minute
	}
	b, err := openBase(opts.BaseURL)
	if err != nil {
		return nil, err
	}
	return &Resolver{src: src, opts: opts, base: b, peeled: &peeled{commits: map[object]string{}}}, nil
}

// Close releases what holds the base URL's directory. What was resolved cannot be built afterwards.
func (r *Resolver) Close() error { return r.base.close() }

// Resolve reads the template at p, a folder or a file of the workspace, with its
// ancestors, and finds out which commits they mean now. It asks remote
// repositories. A *ConflictError tells that the chain contradicts itself; all errors wrap a
// *fserr.Error that names template, line and column.
func (r *Resolver) Resolve(ctx context.Context, p string) (*Resolved, error) {
	templates, err := chain(r.src, p)
	if err != nil {
		return nil, err
	}
	res := &resolution{r: r, out: &Resolved{repos: map[string]repository{}}, found: map[wanted]string{}, named: map[string]repository{}}
	for i := len(templates) - 1; i >= 0; i-- {
		if err := res.add(ctx, templates[i]); err != nil {
			return nil, err
		}
	}
	for _, t := range templates {
		res.out.Chain = append(res.out.Chain, t.Name)
	}
	return res.out.seal(), nil
}

// wanted is a ref of a repository, as templates name them.
type wanted struct{ repo, ref string }

// resolution is one Resolve. A ref that is named twice is asked for once, so that
// it cannot move in between.
type resolution struct {
	r     *Resolver
	out   *Resolved
	named map[string]repository
	found map[wanted]string
}

func (s *resolution) add(ctx context.Context, t *Template) error {
	for _, decl := range t.Deps {
		d, err := s.dep(ctx, decl)
		if err != nil {
			return problem(decl, err)
		}
		if s.out.Deps, err = merge(s.out.Deps, d); err != nil {
			return err
		}
		if len(s.out.Deps) > MaxDeps {
			return decl.At.because(fserr.EFBIG, nil, "", "a chain has at most %d deps", MaxDeps)
		}
	}
	return nil
}

// problem says which declaration could not be resolved.
func problem(decl Declaration, err error) error {
	hint := ""
	var e *fserr.Error
	if errors.As(err, &e) {
		hint = e.Hint
	}
	return decl.At.because(fserr.CodeOf(err), err, hint, "dep %s: %s", decl.Path, text(err))
}

func (s *resolution) dep(ctx context.Context, decl Declaration) (Dep, error) {
	repo, err := s.repository(decl.Repo)
	if err != nil {
		return Dep{}, err
	}
	key := wanted{repo.source(), decl.Ref}
	commit, ok := s.found[key]
	if !ok {
		if commit, err = repo.resolve(ctx, decl.Ref); err != nil {
			return Dep{}, err
		}
		s.found[key] = commit
	}
	return Dep{
		Path: decl.Path, Repo: decl.Repo, Ref: decl.Ref, Source: repo.source(), Commit: commit, From: []Position{decl.At},
	}, nil
}

func (s *resolution) repository(name string) (repository, error) {
	if repo, ok := s.named[name]; ok {
		return repo, nil
	}
	repo, err := s.r.repository(name)
	if err != nil {
		return nil, err
	}
	s.named[name], s.out.repos[repo.source()] = repo, repo
	return repo, nil
}

// repository is where a dep's files come from.
type repository interface {
	// source identifies it; see Dep.Source.
	source() string
	// resolve returns the full ID of the commit that ref means now. ENOENT when it has none such.
	resolve(ctx context.Context, ref string) (string, error)
	// reader makes the objects of a commit readable; what that needs is put into parent.
	reader(ctx context.Context, parent, commit string) (*objects, error)
}

// opResolve marks errors that say what is wrong with a ref.
const opResolve = "resolve"

// unknownRef says that a repository has no such ref.
func unknownRef(repo, ref, hint string) error {
	return &fserr.Error{Op: opResolve, Code: fserr.ENOENT, Detail: fmt.Sprintf("repository %q has no branch, tag or commit %q", repo, ref), Hint: hint}
}

// ambiguousRef says that a ref means several commits.
func ambiguousRef(repo, ref, hint string) error {
	return &fserr.Error{Op: opResolve, Code: fserr.EINVAL, Detail: fmt.Sprintf("%q means more than one commit of repository %q", ref, repo), Hint: hint}
}
