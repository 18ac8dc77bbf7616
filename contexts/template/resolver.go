package template

import (
	"context"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// Resolver reads templates of one workspace and finds the commits that they mean.
// It is safe for concurrent use.
type Resolver struct {
	src  seed.Source
	base *base
	git  *git.Reader
}

// NewResolver returns the resolver of a workspace. It looks for repositories that the
// workspace does not have below baseURL, whose scheme is file, http, https or ssh; "" means
// nowhere. It fails with EINVAL for a URL that cannot be used.
func NewResolver(src seed.Source, baseURL string, opts git.Options) (*Resolver, error) {
	b, err := openBase(baseURL)
	if err != nil {
		return nil, err
	}
	return &Resolver{src: src, base: b, git: git.NewReader(opts)}, nil
}

// Close closes the base URL's directory. A Resolved of this resolver cannot be built afterwards.
func (r *Resolver) Close() error { return r.base.close() }

// Resolve reads the template at p, a folder or a file of the workspace, with its
// ancestors, and finds out which commits they mean now. It asks remote
// repositories. It fails with a *ConflictError if the chain contradicts itself; all errors wrap a
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

// resolution is one Resolve. It resolves a ref that is named twice once, so that
// the ref cannot move in between.
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
			return decl.At.Because(fserr.EFBIG, nil, "", "a chain has at most %d deps", MaxDeps)
		}
	}
	return nil
}

// problem reports which declaration could not be resolved.
func problem(decl Declaration, err error) error {
	code, text, hint := fserr.Parts(err)
	return decl.At.Because(code, err, hint, "dep %s: %s", decl.Path, text)
}

func (s *resolution) dep(ctx context.Context, decl Declaration) (Dep, error) {
	repo, err := s.repository(decl.Repo)
	if err != nil {
		return Dep{}, err
	}
	key := wanted{repo.source, decl.Ref}
	commit, ok := s.found[key]
	if !ok {
		if commit, err = repo.Resolve(ctx, decl.Ref); err != nil {
			return Dep{}, err
		}
		s.found[key] = commit
	}
	return Dep{
		Path: decl.Path, Repo: decl.Repo, Ref: decl.Ref, Source: repo.source, Commit: commit, From: []Position{decl.At},
	}, nil
}

func (s *resolution) repository(name string) (repository, error) {
	if repo, ok := s.named[name]; ok {
		return repo, nil
	}
	repo, err := s.r.repository(name)
	if err != nil {
		return repository{}, err
	}
	s.named[name], s.out.repos[repo.source] = repo, repo
	return repo, nil
}
