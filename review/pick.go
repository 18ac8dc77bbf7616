package review

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/sparse"
)

// Repositories lists the repositories that a context was seeded with, by path.
func (r *Reviews) Repositories(ctx context.Context, id string) ([]seed.Repository, error) {
	origin, err := r.cfg.Contexts.Origin(ctx, id)
	if err != nil || origin.Manifest == nil {
		return nil, err
	}
	return origin.Manifest.Repos, nil
}

// Source returns the workspace as git reads it.
func (r *Reviews) Source() (git.FS, error) {
	src, err := r.source()
	return src.GitFS(), err
}

// RepositoryOf returns the innermost repository of the workspace that a path lies in now. No link is followed.
func (r *Reviews) RepositoryOf(p Path) (repo Path, ok bool) { return r.ws.repositoryOf(p) }

// Contents returns the store of contents.
func (r *Reviews) Contents() *Store { return r.store }

// PickRequest says what Pick picks.
type PickRequest struct {
	Context    string
	Repository Path
	// Files are files and directories of the repository; none means the whole repository.
	Files []Path
}

// Picked is what Pick returns. All contents are in the store. Those of Changes survive a power failure, as a record that
// refers to them does.
type Picked struct {
	Changes []PickedChange
	// Attributes are the .gitattributes files of the base that say something of the changes.
	Attributes map[Path]Version
}

// PickedChange is a change of a context.
type PickedChange struct {
	Path Path `json:"path"`
	// Before is what the base has, After what the context had.
	Before Version `json:"before"`
	After  Version `json:"after"`
}

// Pick finds the changes of a repository as they are at one moment, and keeps their contents. It takes ignored files only if they are named, or a directory
// above them that is ignored itself. It leaves out what can never be applied, unless it is named: then Pick fails.
func (r *Reviews) Pick(ctx context.Context, req PickRequest) (out Picked, err error) {
	for _, f := range req.Files {
		if rule := BarredName(f); rule != "" {
			return out, refuse(BarredPath, []Path{f}, "the rule "+rule+" keeps it out of commits", "leave it out")
		}
	}
	unlock, err := r.lock(ctx, req.Context)
	if err != nil {
		return out, err
	}
	defer unlock()
	q := Query{Context: req.Context, Paths: req.Files}
	if len(q.Paths) == 0 && req.Repository != "" {
		q.Paths = []Path{req.Repository}
	}
	var chosen []*choice
	l, err := r.changes(ctx, q, func(ctx context.Context, root rootfs.Root, l *List) error {
		if chosen, err = r.pick(ctx, req, root, l); err != nil {
			return err
		}
		changed, err := r.keep(ctx, root, chosen)
		if err == nil && changed != nil {
			changed.Unstable = true
			err = allowed([]*choice{changed})
		}
		return err
	})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := r.keepBase(ctx, l.base, chosen); err != nil {
		return out, err
	}
	if err := r.flush(chosen); err != nil {
		return out, err
	}
	for _, c := range chosen {
		out.Changes = append(out.Changes, PickedChange{c.Path, c.Before, c.After})
	}
	out.Attributes, err = r.attributes(ctx, l.base, req.Repository, out.Changes)
	return out, err
}

// pick chooses among the changes of a list, while the context is frozen.
func (r *Reviews) pick(ctx context.Context, req PickRequest, root rootfs.Root, l *List) (chosen []*choice, err error) {
	ignores, err := r.ignores(ctx, l.base)
	if err != nil {
		return nil, err
	}
	named := func(c *Change) bool {
		return slices.ContainsFunc(req.Files, func(f Path) bool {
			return isWithin(c.Path, f) && (c.Path == f || ignores.ReasonAnywhere(string(f), true) != "")
		})
	}
	var within []Path // what is named in directories that are one difference
	for _, c := range l.Changes {
		if l.locate(c); !c.InRepository || c.Repository != req.Repository {
			continue
		}
		switch {
		case c.Tree != nil:
			for _, f := range req.Files {
				if isWithin(f, c.Path) {
					within = append(within, f)
				}
			}
		case c.Ignored && !named(c):
		case c.Barred != "" && !slices.Contains(req.Files, c.Path):
		default:
			chosen = append(chosen, &choice{Change: c})
		}
	}
	if err := ignores.Err(); err != nil {
		return nil, err
	}
	if len(within) > 0 {
		diffs, err := (&comparison{base: l.base, root: root}).compare(ctx, within...)
		if err != nil {
			return nil, err
		}
		for _, d := range diffs {
			if d.Barred == "" || slices.Contains(req.Files, d.Path) {
				chosen = append(chosen, &choice{Change: &Change{Difference: d, Kind: kindOf(d), Ignored: true}})
			}
		}
	}
	return chosen, allowed(chosen)
}

// attributesOf keeps the .gitattributes files of a context's base in the directories above changes.
func (r *Reviews) attributesOf(ctx context.Context, id string, repo Path, changes []PickedChange) (out map[Path]Version, err error) {
	l, _, err := r.opened(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return r.attributes(ctx, l.base, repo, changes)
}

// attributes keeps the .gitattributes files of the base in the directories above changes.
func (r *Reviews) attributes(ctx context.Context, b *base, repo Path, changes []PickedChange) (map[Path]Version, error) {
	out := map[Path]Version{}
	for _, c := range changes {
		for dir := Path(path.Dir(string(c.Path))); ; dir = Path(path.Dir(string(dir))) {
			if dir == "." {
				dir = ""
			}
			p := Path(path.Join(string(dir), ".gitattributes"))
			if _, ok := out[p]; ok {
				break
			}
			v, err := r.keepEntry(ctx, b, b.lookup(p))
			if err != nil {
				return nil, err
			}
			out[p] = v
			if dir == repo || dir == "" {
				break
			}
		}
	}
	for p, v := range out {
		if v.Type != rootfs.TypeFile {
			delete(out, p)
		}
	}
	return out, nil
}

// Place gives a file's content of the store a further name, which must not exist.
func (s *Store) Place(hash, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if os.Link(s.path(hash), name) == nil {
		return nil
	}
	from, err := s.Open(hash) // the file system has no further names
	if err != nil {
		return err
	}
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		out := sparse.Writer(to)
		if _, err = sparse.Copy(context.Background(), out, from); err == nil {
			err = out.Finish()
		}
		err = errors.Join(err, to.Close())
	}
	return errors.Join(err, from.Close())
}

// Onto is what changes become on top of a commit.
type Onto struct {
	// Files are those that the commit gets, relative to the repository. Their contents are in the draft's objects.
	Files []git.File
	// Conflicts are the changes that cannot be merged. There are no Files then.
	Conflicts []Conflict
}

// Onto merges changes of a repository onto the parent of a draft, without a look at the working tree. What the parent has already is left out.
func (r *Reviews) Onto(ctx context.Context, g *git.Draft, repo Path, changes []PickedChange) (out Onto, err error) {
	c := &draft{Draft: g, done: &Commit{Repository: repo}}
	steps := make([]*step, len(changes))
	for i, p := range changes {
		steps[i] = &step{Path: p.Path, from: p.Before, to: p.After}
	}
	if out.Conflicts, err = c.merge(ctx, r.ws.merger, steps); err != nil || len(out.Conflicts) > 0 {
		return out, err
	}
	ids, err := c.write(ctx, r.store)
	if err != nil {
		return out, err
	}
	for _, s := range c.steps {
		out.Files = append(out.Files, fileOf(c.within(s.Path), s.Commit.After, ids))
	}
	return out, nil
}

// CheckMessage refuses what is no message of a commit, and one that has a trailer of ctxfs already.
func CheckMessage(message string) error {
	bad := func(detail, hint string) error { return &fserr.Error{Code: fserr.EINVAL, Detail: detail, Hint: hint} }
	switch {
	case strings.TrimSpace(message) == "":
		return bad("the commit has no message", "give it one")
	case len(message) > maxMessage:
		return bad("the commit's message is too long", fmt.Sprintf("at most %d bytes", maxMessage))
	case strings.ToValidUTF8(message, "") != message || strings.ContainsRune(message, 0):
		return bad("the commit's message is not UTF-8", "write it in UTF-8 and without NUL")
	}
	for line := range strings.Lines(message) {
		if err := checkOwnTrailer(line); err != nil {
			return err
		}
	}
	return nil
}

// ownTrailers is what the keys of the trailers begin with that ctxfs sets.
const ownTrailers = "ctxfs-"

// checkOwnTrailer refuses a line of a message that is a trailer which ctxfs sets: with it, whoever writes a message would say who made the commit.
func checkOwnTrailer(line string) error {
	key := git.TrailerKey(line)
	if !strings.HasPrefix(strings.ToLower(key), ownTrailers) {
		return nil
	}
	return &fserr.Error{Code: fserr.EINVAL, Detail: "the trailer " + key + " is set by ctxfs", Hint: "leave it out of the message"}
}
