package repos

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/review"
)

// Operation is what a commit, or a context, does to a path.
type Operation string

// The operations.
const (
	Create Operation = "create"
	Update Operation = "update"
	Delete Operation = "delete"
)

// File is a path of a commit, or a change of a context.
type File struct {
	// Path is relative to the workspace.
	Path review.Path `json:"path"`
	// OldMode and NewMode are git's; 0 for a file that is not there.
	OldMode uint32 `json:"old_mode,omitempty"`
	NewMode uint32 `json:"new_mode,omitempty"`
	// OldID and NewID are the contents; "" in changes of a context.
	OldID       string      `json:"old_id,omitempty"`
	NewID       string      `json:"new_id,omitempty"`
	Added       int         `json:"added,omitempty"`
	Removed     int         `json:"removed,omitempty"`
	Binary      bool        `json:"binary,omitempty"`
	RenamedFrom review.Path `json:"renamed_from,omitempty"`
	// Barred and Ignored are of changes of a context only.
	Barred  string `json:"-"`
	Ignored bool   `json:"-"`
	// Diff is set by Get and Stage: what git apply accepts. Truncated says that it is left out, since it is too long.
	Diff      string `json:"-"`
	Truncated bool   `json:"-"`
}

// Operation returns what is done to the path.
func (f *File) Operation() Operation {
	switch {
	case f.OldMode == 0:
		return Create
	case f.NewMode == 0:
		return Delete
	}
	return Update
}

// Staged is a staged commit.
type Staged struct {
	Format int `json:"format"`
	// ID cannot be guessed.
	ID string `json:"id"`
	// Commit is the git commit, Parent what the branch named, or would begin at; "" before the first commit.
	Commit string `json:"commit"`
	Parent string `json:"parent,omitempty"`
	// Repo is relative to the workspace, "" for the workspace's own.
	Repo review.Path `json:"repo"`
	// Branch is without refs/heads/. NamedByStage says that Stage chose it: Push may create it.
	Branch       string `json:"branch"`
	NamedByStage bool   `json:"named_by_stage,omitempty"`
	// Message has the trailers.
	Message   string       `json:"message"`
	Author    git.Identity `json:"author"`
	Committer git.Identity `json:"committer"`
	At        time.Time    `json:"at"`
	Context   string       `json:"context"`
	// Panel is "" for a host.
	Panel string `json:"panel,omitempty"`
	// Into is the zone that the context was seeded into, "" for none.
	Into  string `json:"into,omitempty"`
	Files []File `json:"files"`
	// Changes are the context's changes that the commit is made of, in the form that the context holds: Push moves the base by them. The contents
	// are in the store of the reviews, which keeps them until the push. The first push removes the list.
	Changes []review.PickedChange `json:"changes"`
	// Pushed is nil before a push.
	Pushed *Pushed `json:"pushed,omitempty"`
	// Pushing is a push that may have happened or not; nil for none.
	Pushing *Pushing `json:"pushing,omitempty"`
	// Damaged says why the record cannot be read, "" if it can. Of a damaged one only ID and Context are known.
	Damaged string `json:"-"`
}

// Pushed says where a staged commit was pushed to.
type Pushed struct {
	// Commit is what the branch names now, Previous what it named before; "" if it was created. Target is "branch", "worktree" or "remote".
	Commit   string    `json:"commit"`
	Branch   string    `json:"branch"`
	Previous string    `json:"previous,omitempty"`
	Target   string    `json:"target,omitempty"`
	Remote   string    `json:"remote,omitempty"`
	URL      string    `json:"url,omitempty"`
	At       time.Time `json:"at"`
}

const (
	stagedFormat = 1
	recordName   = "staged.json"
	dirSuffix    = ".git"
	newPrefix    = "new-"
	gonePrefix   = "gone-"
)

// stagedRef returns the ref that keeps a staged commit.
func stagedRef(id string) string { return "refs/ctxfs/staged/" + id }

// newID returns 26 characters of 128 random bits.
func newID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:]))
}

var idPattern = regexp.MustCompile(`^[a-z2-7]{26}$`)

// dirOf returns the repository of a staged commit.
func (r *Repos) dirOf(id string) string { return filepath.Join(r.cfg.Dir, id+dirSuffix) }

// staged loads the record of a staged commit. It fails with NoStaged if there is none, and with a *damagedError if it cannot be read.
func (r *Repos) staged(ctx context.Context, operation, id string) (*Staged, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	none := &Error{Reason: NoStaged, Operation: operation, Detail: fmt.Sprintf("there is no staged commit %.40q", id), Hint: "it was discarded, or never staged here"}
	if !idPattern.MatchString(id) {
		return nil, none
	}
	s, err := load(r.dirOf(id))
	var damaged *damagedError
	switch {
	case errors.As(err, &damaged):
		r.noteDamage(id, damaged)
	case errors.Is(err, fs.ErrNotExist):
		r.forget(id)
		return nil, none
	}
	return s, err
}

// damagedError says that a record is there and cannot be read.
type damagedError struct{ err *fserr.Error }

func (e *damagedError) Error() string { return e.err.Error() }
func (e *damagedError) Unwrap() error { return e.err }

// load reads the record in a staged commit's directory. Without the directory it fails with fs.ErrNotExist.
func load(dir string) (*Staged, error) {
	data, err := statedir.ReadFile(filepath.Join(dir, recordName), statedir.MaxList)
	if err == nil {
		s := &Staged{}
		if err = json.Unmarshal(data, s); err == nil && s.Format == stagedFormat {
			return s, nil
		}
	}
	if _, gone := os.Lstat(dir); gone != nil {
		return nil, gone
	}
	return nil, &damagedError{&fserr.Error{
		Code: fserr.EIO, Detail: "the record of staged commit " + strings.TrimSuffix(filepath.Base(dir), dirSuffix) + " is damaged, or of a newer ctxfs",
		Hint: "restore the state directory from a backup, or let a host discard it", Err: err,
	}}
}

// bare opens the repository of a staged commit.
func (r *Repos) bare(ctx context.Context, s *Staged) (*git.Bare, error) {
	local, err := r.local(s.Repo)
	if err != nil {
		return nil, err
	}
	return local.Bare(ctx, r.dirOf(s.ID))
}

// update changes the record of a staged commit in one durable step. The caller has its lock.
func (r *Repos) update(s *Staged) error {
	err := r.write(r.dirOf(s.ID), s)
	if err == nil {
		r.note(s)
	}
	return err
}

// write writes a record into a staged commit's directory.
func (r *Repos) write(dir string, s *Staged) (err error) {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, newPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, recordName))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return durable.Tree(dir) // with the objects that the record names
}

// sweepWithin removes what a killed server left in a staged commit's directory.
func sweepWithin(dir string) error {
	entries, err := os.ReadDir(dir)
	errs := []error{err}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// Staged returns the record of a staged commit without diffs.
func (r *Repos) Staged(ctx context.Context, operation, id string) (*Staged, error) {
	return r.staged(ctx, operation, id)
}

// ListStaged lists the staged commits of a context, "" for all, the newest first. Those that were pushed come only with pushed. Those whose
// record is damaged are in it.
func (r *Repos) ListStaged(ctx context.Context, id string, pushed bool) ([]*Staged, error) {
	return r.list(ctx, func(k known) bool { return (id == "" || k.context == id) && (pushed || !k.pushed) })
}

// list loads the records that match, the newest first. Of one that cannot be read it returns what is known.
func (r *Repos) list(ctx context.Context, match func(known) bool) (out []*Staged, err error) {
	for id, k := range r.matching(match) {
		s, err := r.staged(ctx, "list", id)
		var damaged *damagedError
		var gone *Error
		switch {
		case err == nil:
			out = append(out, s)
		case errors.As(err, &damaged):
			out = append(out, &Staged{ID: id, Context: k.context, Damaged: damaged.err.Detail})
		case !errors.As(err, &gone): // or it was discarded meanwhile
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *Staged) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// Discard forgets a staged commit, and removes its objects. One that was pushed fails with EINVAL. So does one with a push of which it is not known
// whether it has happened, unless force is set: then Discard returns that push, since the target may have the commit.
func (r *Repos) Discard(ctx context.Context, id string, force bool) (unsettled *Pushed, err error) {
	unlock, err := r.lock(ctx, "staged "+id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := r.staged(ctx, "discard", id)
	var damaged *damagedError
	switch {
	case errors.As(err, &damaged):
		return nil, r.remove(id)
	case err != nil:
		return nil, err
	case s.Pushing != nil && force:
		r.cfg.Log.Warn("discarded a staged commit, and it is not known whether it was pushed",
			zap.String("staged", id), zap.String("commit", s.Commit), zap.String("branch", s.Pushing.Branch), zap.String("url", s.Pushing.URL))
		return &s.Pushing.Pushed, r.remove(id)
	case s.Pushing != nil:
		return nil, &fserr.Error{
			Code: fserr.EINVAL, Detail: "it is not known yet whether staged commit " + id + " was pushed to " + s.Pushing.Branch,
			Hint: "push it there again: that asks the remote; a host may force the discard",
		}
	case s.Pushed != nil:
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "staged commit " + id + " was pushed to " + s.Pushed.Branch, Hint: "revert the commit there"}
	}
	return nil, r.remove(id)
}

// remove removes a staged commit: as a whole for everybody else, also if it is interrupted. The caller has its lock.
func (r *Repos) remove(id string) error {
	gone := filepath.Join(r.cfg.Dir, gonePrefix+id)
	if err := os.Rename(r.dirOf(id), gone); err != nil {
		return err
	}
	r.forget(id)
	r.point("discarded")
	return os.RemoveAll(gone)
}
