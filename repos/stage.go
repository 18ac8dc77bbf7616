package repos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/review"
)

// StageRequest of Stage.
type StageRequest struct {
	Context string
	// Panel is "" for a host.
	Panel string
	// Into is the zone that the context was seeded into, "" for none. It goes to the record.
	Into string
	// Repo is relative to the workspace; nil means the repository of Files, or the only one.
	Repo *review.Path
	// Files are files and directories, relative to the workspace; none means all changes that no ignore file excludes.
	Files []review.Path
	// Branch is without refs/heads/; "" means a new one, ctxfs/PANEL/SLUG.
	Branch  string
	Message string
	// Author is "Name <email>"; "" means the repository's or the server user's identity.
	Author string
}

// The trailers of staged commits.
const (
	panelTrailer   = "Ctxfs-Panel"
	contextTrailer = "Ctxfs-Context"
)

// opStage is the name of the operation in errors.
const opStage = "stage"

// Stage makes a commit of changes of a context, on top of a branch, in a repository of its own.
func (r *Repos) Stage(ctx context.Context, req StageRequest) (*Staged, error) {
	s := &staging{r: r, req: req}
	if err := s.check(); err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx, "stage "+req.Context) // so that no more than maxStaged find room
	if err != nil {
		return nil, err
	}
	defer unlock()
	done, err := r.run(ctx, req.Context)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.find(ctx); err != nil {
		return nil, err
	}
	if err := s.checkRoom(); err != nil {
		return nil, err
	}
	defer r.cfg.Reviews.Hold()() // until the record of the commit keeps the contents
	picked, err := r.cfg.Reviews.Pick(ctx, review.PickRequest{Context: req.Context, Repository: s.repo.Path, Files: req.Files})
	if err != nil {
		return nil, err
	}
	s.picked = picked
	if len(picked.Changes) == 0 {
		return nil, s.refuse(NothingToCommit, nil, "the context has no such change", "GitStatus lists what it changed; ignored files must be named")
	}
	if err := s.checkPlaces(); err != nil {
		return nil, err
	}
	if err := s.checkBytes(); err != nil {
		return nil, err
	}
	return s.commit(ctx)
}

// staging is a Stage that runs.
type staging struct {
	r      *Repos
	req    StageRequest
	author git.Identity
	repo   *repository
	picked review.Picked
	branch string
	draft  *git.Draft
}

// check refuses a request that makes no commit, whatever the context holds.
func (s *staging) check() error {
	if err := review.CheckMessage(s.req.Message); err != nil {
		return err
	}
	if s.req.Branch != "" {
		if err := git.CheckBranch(s.req.Branch); err != nil {
			return err
		}
	}
	if s.req.Author == "" {
		return nil
	}
	m := authorPattern.FindStringSubmatch(s.req.Author)
	if m == nil {
		return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("%.300q is no author", s.req.Author), Hint: "write 'Name <email>'"}
	}
	s.author = git.Identity{Name: m[1], Email: m[2]}
	return s.author.Check()
}

var authorPattern = regexp.MustCompile(`^([^<>\x00-\x1f]*[^<>\x00-\x20]) *<([^<>\x00-\x20]+)>$`)

// find finds the repository: the one that is named, that of the files, or the only one.
func (s *staging) find(ctx context.Context) (err error) {
	all, err := s.r.cfg.Reviews.Repositories(ctx, s.req.Context)
	if err != nil {
		return err
	}
	var p review.Path
	switch {
	case s.req.Repo != nil:
		p = *s.req.Repo
	case len(s.req.Files) > 0:
		if p, err = repositoryOf(all, s.req.Files[0]); err != nil {
			return err
		}
	case len(all) == 1:
		p = pathOf(all[0])
	case len(all) > 1:
		return &fserr.Error{Code: fserr.EINVAL, Detail: "no repository is named, and the context has several", Hint: "name one of them, or files: " + shownRepositories(all)}
	}
	for _, f := range s.req.Files {
		at, err := repositoryOf(all, f)
		if err != nil {
			return err
		}
		if at != p {
			return &fserr.Error{Code: fserr.EINVAL, Path: "/" + string(f), Detail: "the file is not in repository /" + string(p) + ", but in /" + string(at), Hint: "a commit is of one repository: stage them one by one"}
		}
	}
	s.repo, err = s.r.repository(ctx, opStage, s.req.Context, p)
	return err
}

// maxStaged and maxStagedBytes bound the staged commits of a context that were not pushed: their objects are in no quota.
const (
	maxStaged      = 100
	maxStagedBytes = 4 << 30
)

// checkRoom refuses one more staged commit of the context if it has too many. Damaged ones count.
func (s *staging) checkRoom() error {
	h := s.r.Holds()[s.req.Context]
	if n := h.Unpushed + len(h.Damaged); n >= maxStaged {
		return s.refuse(TooLarge, nil, fmt.Sprintf("the context has %d staged commits", n), "push or discard some first")
	}
	return nil
}

// checkBytes refuses one more staged commit of the context if the files of all would be too large. One always may be staged: the quota bounds it.
func (s *staging) checkBytes() error {
	h, n := s.r.Holds()[s.req.Context], sizeOf(s.picked.Changes)
	if most := s.r.stagedBytes; h.Unpushed > 0 && h.Bytes+n > most {
		return s.refuse(TooLarge, nil, fmt.Sprintf("the files of the context's staged commits would have %s of %s", seed.Size(h.Bytes+n), seed.Size(most)),
			"push or discard some first")
	}
	return nil
}

// sizeOf returns the size of what changes make, in bytes.
func sizeOf(changes []review.PickedChange) (n int64) {
	for _, c := range changes {
		n += c.After.Size
	}
	return n
}

// repositoryOf returns the repository that a file of a context is in.
func repositoryOf(all []seed.Repository, f review.Path) (p review.Path, err error) {
	found := false
	for _, seeded := range all {
		if q := pathOf(seeded); f.Within(q) && (!found || len(q) > len(p)) {
			p, found = q, true
		}
	}
	if !found {
		err = &fserr.Error{Code: fserr.EINVAL, Path: "/" + string(f), Detail: "the file belongs to no repository", Hint: "the context has none"}
		if len(all) > 0 {
			err = &fserr.Error{Code: fserr.EINVAL, Path: "/" + string(f), Detail: "the file belongs to no repository", Hint: "the repositories are " + shownRepositories(all)}
		}
	}
	return p, err
}

func (s *staging) refuse(reason Reason, paths []review.Path, detail, hint string) *Error {
	e := &Error{Reason: reason, Operation: opStage, Repo: string(s.repo.Path), Detail: detail, Hint: hint}
	if s.branch != "" {
		e.Ref = "refs/heads/" + s.branch
	}
	for _, p := range paths {
		e.Paths = append(e.Paths, string(p))
	}
	return e
}

// within returns a path of the workspace relative to the repository.
func (s *staging) within(p review.Path) string { return within(s.repo.Path, p) }

func within(repo, p review.Path) string {
	return strings.TrimPrefix(strings.TrimPrefix(string(p), string(repo)), "/")
}

// checkPlaces refuses changes of what belongs to another repository within this one.
func (s *staging) checkPlaces() error {
	var modules, nested []review.Path
	for _, c := range s.picked.Changes {
		if folded := git.FoldName(s.within(c.Path)); folded == ".gitmodules" || folded == "gitmod~1" {
			modules = append(modules, c.Path)
		}
		if at, ok := s.r.cfg.Reviews.RepositoryOf(c.Path); ok && at != s.repo.Path && at.Within(s.repo.Path) {
			nested = append(nested, c.Path)
		}
	}
	if len(modules) > 0 {
		return s.refuse(IsSubmodule, modules, ".gitmodules is not staged: it names repositories that git clones and runs commands for", "leave it out, and change submodules with git")
	}
	if len(nested) > 0 {
		return s.refuse(IsSubmodule, nested, "the files belong to a submodule, or to a repository within this one", "leave them out: name the files to stage")
	}
	return nil
}

// commit makes the commit and its record.
func (s *staging) commit(ctx context.Context) (_ *Staged, err error) {
	named := s.req.Branch != ""
	if s.branch = s.req.Branch; !named {
		var free func()
		if s.branch, free, err = s.freeBranch(); err != nil {
			return nil, err
		}
		defer free()
	}
	if s.draft, err = s.repo.DraftApart(ctx, s.branch); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.draft.Close()) }()
	changes, refused, err := s.r.cfg.Reviews.InBlobs(ctx, s.draft, s.repo.Path, s.picked.Changes, s.picked.Attributes)
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		return nil, s.refuse(NeedsFilter, refused, "the attributes of these files name a filter program, such as Git LFS, which ctxfs does not run", "leave them out, and commit them with git")
	}
	files, err := s.merge(ctx, changes)
	if err != nil {
		return nil, err
	}
	out := &Staged{
		Format: stagedFormat, ID: newID(), Parent: s.draft.Parent, Repo: s.repo.Path, Branch: s.branch, NamedByStage: !named,
		At: time.Now().UTC(), Context: s.req.Context, Panel: s.req.Panel, Into: s.req.Into, Changes: s.committed(files),
	}
	if err := s.identify(ctx, out); err != nil {
		return nil, err
	}
	if err := s.store(ctx, out, files); err != nil {
		return nil, err
	}
	return out, s.r.publish(ctx, s.repo.Local, s.draft, out)
}

// committed returns the changes that files are made of. The others were on the branch already.
func (s *staging) committed(files []git.File) []review.PickedChange {
	kept := map[string]bool{}
	for _, f := range files {
		kept[f.Path] = true
	}
	return slices.DeleteFunc(slices.Clone(s.picked.Changes), func(c review.PickedChange) bool { return !kept[s.within(c.Path)] })
}

// merge merges the changes onto the branch.
func (s *staging) merge(ctx context.Context, changes []review.PickedChange) ([]git.File, error) {
	var modules []review.Path
	for i, c := range changes {
		at, e, err := s.draft.Entry(s.within(c.Path))
		switch {
		case err != nil:
			return nil, err
		case e.Mode == git.ModeRepository:
			modules = append(modules, c.Path)
		case e.Mode == 0 || at != s.within(c.Path):
			if changes[i].Before, err = s.seededFrom(c); err != nil {
				return nil, err
			}
		}
	}
	if len(modules) > 0 {
		return nil, s.refuse(IsSubmodule, modules, "the branch has a submodule there", "leave them out: name the files to stage")
	}
	onto, err := s.r.cfg.Reviews.Onto(ctx, s.draft, s.repo.Path, changes)
	switch {
	case err != nil:
		return nil, err
	case len(onto.Conflicts) > 0:
		var paths []review.Path
		for _, c := range onto.Conflicts {
			paths = append(paths, c.Path)
		}
		return nil, s.refuse(Conflict, paths, "branch "+s.branch+" does not have the lines that the context changed in these files",
			"pull the branch first, leave these files out, or commit your own changes of them, if the context was seeded with some")
	case len(onto.Files) == 0:
		return nil, s.refuse(NothingToCommit, nil, "branch "+s.branch+" has these changes already", "")
	}
	return onto.Files, nil
}

// seededFrom returns the version that a change of a file starts from, which the branch does not have. That is nothing if the commit that
// the context was seeded from did not have the file either: it was the user's, in no commit, and the change creates it.
func (s *staging) seededFrom(c review.PickedChange) (review.Version, error) {
	if !c.Before.Exists() || !c.After.Exists() {
		return c.Before, nil
	}
	if s.repo.Seeded.Head == "" {
		return review.Version{}, nil
	}
	at, e, err := s.draft.EntryOf(s.repo.Seeded.Head, s.within(c.Path))
	if err != nil {
		return c.Before, err
	}
	if e.Mode == 0 || at != s.within(c.Path) || e.Mode == git.ModeTree {
		return review.Version{}, nil
	}
	return c.Before, nil
}

// identify sets author and committer.
func (s *staging) identify(ctx context.Context, out *Staged) error {
	own, ok := s.draft.Identity(ctx)
	out.Author, out.Committer = s.author, own
	if s.author == (git.Identity{}) {
		out.Author = own
	}
	if !ok {
		out.Committer = s.author
	}
	if out.Author.Check() != nil || out.Committer.Check() != nil {
		return &fserr.Error{
			Code: fserr.EINVAL, Detail: "no author is named, and repository /" + string(s.repo.Path) + " has no user.name and user.email",
			Hint: "name an author, or set them with git config; included files do not count",
		}
	}
	return nil
}

// store stores the objects of the commit.
func (s *staging) store(ctx context.Context, out *Staged, files []git.File) error {
	m := git.Message{Text: s.req.Message, Author: out.Author, Committer: out.Committer, At: out.At, Trailers: []string{contextTrailer + ": " + out.Context}}
	if out.Panel != "" {
		m.Trailers = append([]string{panelTrailer + ": " + out.Panel}, m.Trailers...)
	}
	tree, err := s.draft.Tree(ctx, files)
	if err != nil {
		return err
	}
	text := m.Full()
	out.Message = strings.TrimSuffix(string(text), "\n")
	out.Commit, err = s.draft.Commit(ctx, tree, text, m)
	return err
}

// publish makes the staged commit: as a whole, or not at all.
func (r *Repos) publish(ctx context.Context, local *git.Local, draft *git.Draft, out *Staged) (err error) {
	dir, err := os.MkdirTemp(r.cfg.Dir, newPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	r.point("begun")
	if err := draft.Publish(ctx, dir, stagedRef(out.ID), out.Commit); err != nil {
		return err
	}
	r.point("packed")
	bare, err := local.Bare(ctx, dir)
	if err != nil {
		return err
	}
	if out.Files, err = filesOf(ctx, bare, out); err != nil {
		return err
	}
	if err := showDiffs(ctx, bare, out); err != nil {
		return err
	}
	if err := statedir.WriteFile(filepath.Join(dir, contextName), []byte(out.Context), 0o600); err != nil {
		return err
	}
	if err := r.write(dir, out); err != nil {
		return err
	}
	r.point("recorded")
	if err := os.Rename(dir, r.dirOf(out.ID)); err != nil {
		return err
	}
	r.note(out)
	r.point("staged")
	return durable.Names(r.cfg.Dir)
}

// filesOf lists the files of a staged commit.
func filesOf(ctx context.Context, bare *git.Bare, s *Staged) ([]File, error) {
	deltas, err := bare.Deltas(ctx, s.Parent, s.Commit)
	if err != nil {
		return nil, err
	}
	var out []File
	for _, d := range deltas {
		f := File{
			Path: inRepository(s.Repo, d.Path), OldMode: d.OldMode, NewMode: d.NewMode, OldID: d.OldID, NewID: d.NewID, Added: d.Added, Removed: d.Removed, Binary: d.Binary,
		}
		if d.RenamedFrom != "" {
			f.RenamedFrom = inRepository(s.Repo, d.RenamedFrom)
		}
		out = append(out, f)
	}
	return out, nil
}

// freeBranch returns a name ctxfs/PANEL/SLUG that neither a branch nor another staged commit of the repository has, nor gets until free is called.
func (s *staging) freeBranch() (name string, free func(), err error) {
	subject, _, _ := strings.Cut(strings.TrimSpace(s.req.Message), "\n")
	base := "ctxfs/" + cmp.Or(slug(strings.TrimPrefix(s.req.Panel, "panels/")), "host") + "/" + cmp.Or(slug(subject), "changes")
	for n := 1; ; n++ {
		if name = base; n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		if free = s.r.reserve(s.repo.Path, name); free == nil {
			continue
		}
		exists, err := s.repo.HasBranch(name)
		if err == nil && !exists {
			return name, free, nil
		}
		if free(); err != nil {
			return "", nil, err
		}
	}
}

// maxSlug bounds a part of a branch's name, in bytes.
const maxSlug = 40

// slug returns a text as a part of a branch's name: lower case letters and digits with hyphens between.
func slug(text string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(text) {
		switch {
		case (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'):
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= maxSlug {
			break
		}
	}
	return strings.Trim(b.String(), "-")
}
