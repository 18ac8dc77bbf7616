package repos

import (
	"bytes"
	"context"
	"errors"
	"io"

	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/review"
)

// Repository is a repository that a context was seeded with.
type Repository struct {
	seed.Repository
	// Path is relative to the workspace, "" for the workspace's own.
	Path review.Path
	// Head is the commit that is checked out now, "" if the repository is gone. Behind counts the commits of its branch since the seeding.
	Head   string
	Behind int
	// Remotes are the names of those with an address that can be fetched from.
	Remotes []string
	// Unusable says why nothing can be staged: "bare", "reftable", "elsewhere", "missing"; "" if it can.
	Unusable string
}

// List lists the repositories of a context. now adds what the workspace has now.
func (r *Repos) List(ctx context.Context, id string, now bool) ([]Repository, error) {
	done, err := r.run(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	all, err := r.cfg.Reviews.Repositories(ctx, id)
	if err != nil {
		return nil, err
	}
	var out []Repository
	for _, seeded := range all {
		one := Repository{Repository: seeded, Path: pathOf(seeded)}
		if err := r.look(ctx, &one, now); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// look fills in what the workspace has of a repository. A repository that cannot be read is Unusable, and no error.
func (r *Repos) look(ctx context.Context, one *Repository, now bool) error {
	one.Unusable = "elsewhere"
	if one.IsElsewhere() {
		return nil
	}
	local, err := r.local(one.Path)
	switch fserr.CodeOf(err) {
	case 0:
		one.Unusable = ""
	case fserr.ENOENT:
		one.Unusable = "missing"
	case fserr.EOPNOTSUPP:
		one.Unusable = "reftable"
	}
	if err != nil {
		return ctx.Err()
	}
	remotes, err := local.Remotes(ctx)
	if err != nil {
		r.cfg.Log.Warn("the configuration of a repository cannot be read", zap.String("repository", string(one.Path)), zap.Error(err))
	}
	for _, remote := range remotes {
		if remote.FetchErr == nil {
			one.Remotes = append(one.Remotes, remote.Name)
		}
	}
	if !now {
		return ctx.Err()
	}
	if one.Head, err = local.Resolve(ctx, "HEAD"); err == nil && one.Branch != "" && one.Repository.Head != "" {
		one.Behind, err = local.Since(ctx, one.Repository.Head, "refs/heads/"+one.Branch)
	}
	if err != nil && fserr.CodeOf(err) != fserr.ENOENT { // a branch may be unborn, or removed since
		r.cfg.Log.Warn("the branch of a repository cannot be read", zap.String("repository", string(one.Path)), zap.Error(err))
	}
	return ctx.Err()
}

// Branches lists the branches of a repository of a context, by name.
func (r *Repos) Branches(ctx context.Context, id string, p review.Path) ([]git.Branch, error) {
	done, err := r.run(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	repo, err := r.repository(ctx, "branches", id, p)
	if err != nil {
		return nil, err
	}
	return repo.Branches(ctx)
}

// Query says which changes of a context are meant.
type Query struct {
	Context string
	// Repo is relative to the workspace; nil means all repositories.
	Repo *review.Path
	// Paths are files and directories, relative to the workspace; none means all.
	Paths []review.Path
}

// RepositoryStatus is what a context changed in a repository.
type RepositoryStatus struct {
	Repo  review.Path
	Files []File
}

// Status lists what a context changed in its repositories, by path.
func (r *Repos) Status(ctx context.Context, q Query) (out []RepositoryStatus, err error) {
	err = r.changes(ctx, "status", q, func(_ *review.List, repo review.Path, changes []*review.Change) error {
		s := RepositoryStatus{Repo: repo}
		for _, c := range changes {
			s.Files = append(s.Files, fileOf(c))
		}
		out = append(out, s)
		return nil
	})
	return out, err
}

// changes calls f with the changes of each repository that a query is about.
func (r *Repos) changes(ctx context.Context, operation string, q Query, f func(l *review.List, repo review.Path, changes []*review.Change) error) (err error) {
	all, err := r.cfg.Reviews.Repositories(ctx, q.Context)
	if err != nil {
		return err
	}
	for _, p := range q.Paths {
		if _, err := repositoryOf(all, p); err != nil {
			return err
		}
	}
	rq := review.Query{Context: q.Context, Paths: q.Paths}
	if q.Repo != nil {
		if all = slices.DeleteFunc(slices.Clone(all), func(s seed.Repository) bool { return pathOf(s) != *q.Repo }); len(all) == 0 {
			_, err := r.repository(ctx, operation, q.Context, *q.Repo)
			return err
		}
		if len(rq.Paths) == 0 && *q.Repo != "" {
			rq.Paths = []review.Path{*q.Repo}
		}
	}
	l, err := r.cfg.Reviews.Changes(ctx, rq)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for _, s := range all {
		var of []*review.Change
		for _, c := range l.Changes {
			if c.InRepository && c.Repository == pathOf(s) {
				of = append(of, c)
			}
		}
		if err := f(l, pathOf(s), of); err != nil {
			return err
		}
	}
	return nil
}

// fileOf describes a change of a context.
func fileOf(c *review.Change) File {
	f := File{
		Path: c.Path, OldMode: review.GitMode(c.Before), NewMode: review.GitMode(c.After), RenamedFrom: c.RenamedFrom, Barred: c.Barred, Ignored: c.Ignored && c.Barred == "",
		Binary: c.Content == review.Binary || c.Content == review.TooLarge,
	}
	if c.Tree != nil {
		f.NewMode = git.ModeTree
	}
	if c.Text != nil {
		f.Added, f.Removed = c.Text.Lines()
	}
	return f
}

// Diff writes what a context changed as text that git apply accepts, with so many context lines. If q names a repository, the paths in the text are
// relative to it, and else to the workspace. Ignored files are in it only if they are named.
func (r *Repos) Diff(ctx context.Context, q Query, lines int, out io.Writer) error {
	return r.changes(ctx, "diff", q, func(l *review.List, repo review.Path, changes []*review.Change) error {
		if q.Repo != nil {
			l.Root = repo
		}
		for _, c := range changes {
			if c.Ignored && !slices.Contains(q.Paths, c.Path) {
				continue
			}
			if err := r.cfg.Reviews.Patch(ctx, l, c, lines, out); err != nil {
				return err
			}
		}
		return nil
	})
}

// DiffStaged writes what a staged commit changed since its parent. The paths in the text are relative to the repository.
func (r *Repos) DiffStaged(ctx context.Context, s *Staged, paths []review.Path, lines int, out io.Writer) error {
	bare, done, err := r.shown(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	if bare == nil {
		return objectsGone("diff", s)
	}
	var within []string
	for _, p := range paths {
		switch {
		case s.Repo.Within(p):
			return bare.Patch(ctx, s.Parent, s.Commit, nil, lines, out)
		case p.Within(s.Repo):
			within = append(within, strings.TrimPrefix(strings.TrimPrefix(string(p), string(s.Repo)), "/"))
		}
	}
	if len(paths) > 0 && len(within) == 0 {
		return nil
	}
	return bare.Patch(ctx, s.Parent, s.Commit, within, lines, out)
}

// Bounds of the diffs in one answer, in bytes: of a file, and of all files.
const (
	maxFileDiff = 256 << 10
	maxAllDiffs = 2 << 20
)

// shown opens the repository of a staged commit to show it; nil if its objects are gone since it was pushed.
func (r *Repos) shown(ctx context.Context, s *Staged) (bare *git.Bare, done func(), err error) {
	if done, err = r.run(ctx, s.Context); err != nil {
		return nil, nil, err
	}
	if bare, err = r.bare(ctx, s); err == nil && s.Pushed != nil {
		var has bool
		if has, err = bare.Has(ctx, s.Commit); !has {
			bare = nil
		}
	}
	if err != nil {
		done()
	}
	return bare, done, err
}

// Get returns a staged commit with the diffs of its files, as far as they are short. Of one that was pushed to a remote there may be none.
func (r *Repos) Get(ctx context.Context, id string) (*Staged, error) {
	s, err := r.staged(ctx, "show", id)
	if err != nil {
		return nil, err
	}
	bare, done, err := r.shown(ctx, s)
	if err != nil {
		return nil, err
	}
	defer done()
	if bare == nil {
		for i := range s.Files {
			s.Files[i].Truncated = true
		}
		return s, nil
	}
	return s, showDiffs(ctx, bare, s)
}

// showDiffs sets the diffs of a staged commit's files.
func showDiffs(ctx context.Context, bare *git.Bare, s *Staged) error {
	parts := &splitter{files: s.Files}
	if err := bare.Patch(ctx, s.Parent, s.Commit, nil, 3, parts); err != nil {
		return err
	}
	parts.end()
	return parts.check()
}

// splitter gives each file its part of a patch. Each part begins with a line "diff --git"; no line of a content begins with a letter.
type splitter struct {
	files []File
	// at is the file of the part, parts how many parts it has had.
	at, parts int
	// line is the unfinished last line, part the file's text up to it.
	line, part []byte
	// begun says that a part has begun; all counts the bytes that are kept.
	begun bool
	all   int
}

var partStart = []byte("diff --git ")

// Write is io.Writer's.
func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, ok := bytes.Cut(p, []byte("\n"))
		s.take(line)
		if ok {
			s.take([]byte("\n"))
			s.endLine()
		}
		p = rest
	}
	return n, nil
}

// take appends to the unfinished line. It keeps no more of the line than a file may have.
func (s *splitter) take(p []byte) {
	s.line = append(s.line, p[:min(len(p), max(0, maxFileDiff+1-len(s.line)))]...)
}

func (s *splitter) endLine() {
	if bytes.HasPrefix(s.line, partStart) {
		s.next()
	}
	if len(s.part) <= maxFileDiff {
		s.part = append(s.part, s.line...)
	}
	s.line = s.line[:0]
}

// next begins a part. A change of a file's type has two: it is removed, and created.
func (s *splitter) next() {
	if s.begun && s.at < len(s.files) && s.parts == 1 && s.files[s.at].changesType() {
		s.parts++
		return
	}
	if s.begun {
		s.close()
		s.at++
	}
	s.begun, s.parts = true, 1
}

// close gives the file its text.
func (s *splitter) close() {
	if s.at < len(s.files) {
		f := &s.files[s.at]
		if f.Truncated = len(s.part) > maxFileDiff || s.all+len(s.part) > maxAllDiffs; !f.Truncated {
			f.Diff = string(s.part)
			s.all += len(s.part)
		}
	}
	s.part = s.part[:0]
}

// end closes the last part.
func (s *splitter) end() {
	if len(s.line) > 0 {
		s.endLine()
	}
	if s.begun {
		s.close()
		s.at++
	}
}

// check reports a patch that has not one part for each file.
func (s *splitter) check() error {
	if s.at == len(s.files) {
		return nil
	}
	return &fserr.Error{Code: fserr.EIO, Detail: "the staged commit's patch does not fit its files", Hint: "discard it, and stage again"}
}

// changesType reports whether a file becomes a link, or the other way round.
func (f *File) changesType() bool {
	const typeBits = 0o170000
	return f.OldMode != 0 && f.NewMode != 0 && f.OldMode&typeBits != f.NewMode&typeBits
}
