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

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
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
	// are in the store of the reviews, which keeps them as long as the record is there.
	Changes []review.PickedChange `json:"changes"`
	// Pushed is nil before a push.
	Pushed *Pushed `json:"pushed,omitempty"`
	// Pushing is a push that may have happened or not; nil for none.
	Pushing *Pushing `json:"pushing,omitempty"`
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

// staged loads the record of a staged commit. It fails with NoStaged if there is none.
func (r *Repos) staged(ctx context.Context, operation, id string) (*Staged, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	none := &Error{Reason: NoStaged, Operation: operation, Detail: fmt.Sprintf("there is no staged commit %.40q", id), Hint: "it was discarded, or never staged here"}
	if !idPattern.MatchString(id) {
		return nil, none
	}
	s, err := load(r.dirOf(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, none
	}
	return s, err
}

// load reads the record in a staged commit's directory.
func load(dir string) (*Staged, error) {
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return nil, err
	}
	s := &Staged{}
	if err := json.Unmarshal(data, s); err != nil || s.Format != stagedFormat {
		return nil, &fserr.Error{
			Code: fserr.EIO, Detail: "the record of staged commit " + strings.TrimSuffix(filepath.Base(dir), dirSuffix) + " is damaged, or of a newer ctxfs",
			Hint: "restore the state directory from a backup, or discard it", Err: err,
		}
	}
	return s, nil
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
func (r *Repos) update(s *Staged) error { return r.write(r.dirOf(s.ID), s) }

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
	return flush(dir)
}

// flush writes a directory to the disk with all that was made in its file system, where the system can do that.
func flush(dir string) error {
	root, err := rootfs.Open(dir, rootfs.Options{})
	if err != nil {
		return err
	}
	return errors.Join(tree.SyncAll(root), root.Close())
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

// list loads all records. A record that cannot be read is reported and left out.
func (r *Repos) list(ctx context.Context) ([]*Staged, error) {
	return r.listBut(ctx, func(id string, err error) error {
		r.cfg.Log.Warn("a staged commit cannot be read", zap.String("staged", id), zap.Error(err))
		return nil
	})
}

// listBut is list, but calls unread for a record that cannot be read, and fails with what unread returns.
func (r *Repos) listBut(ctx context.Context, unread func(id string, err error) error) ([]*Staged, error) {
	entries, err := os.ReadDir(r.cfg.Dir)
	if err != nil {
		return nil, err
	}
	var out []*Staged
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), dirSuffix)
		if !ok || !idPattern.MatchString(id) {
			continue
		}
		s, err := r.staged(ctx, "list", id)
		var refused *Error
		switch {
		case errors.As(err, &refused): // it was discarded meanwhile
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			if err := unread(id, err); err != nil {
				return nil, err
			}
		default:
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *Staged) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// Staged returns the record of a staged commit without diffs.
func (r *Repos) Staged(ctx context.Context, operation, id string) (*Staged, error) {
	return r.staged(ctx, operation, id)
}

// ListStaged lists the staged commits of a context, "" for all, the newest first. Those that were pushed come only with pushed.
func (r *Repos) ListStaged(ctx context.Context, id string, pushed bool) ([]*Staged, error) {
	all, err := r.list(ctx)
	return slices.DeleteFunc(all, func(s *Staged) bool { return (id != "" && s.Context != id) || (!pushed && s.Pushed != nil) }), err
}

// Unpushed counts the staged commits that were not pushed, by context. It fails if the record of one cannot be read, since it may be any context's.
func (r *Repos) Unpushed(ctx context.Context) (map[string]int, error) {
	all, err := r.listBut(ctx, func(_ string, err error) error { return err })
	n := map[string]int{}
	for _, s := range all {
		if s.Pushed == nil {
			n[s.Context]++
		}
	}
	return n, err
}

// Discard forgets a staged commit, and removes its objects. One that was pushed fails with EINVAL.
func (r *Repos) Discard(ctx context.Context, id string) error {
	unlock, err := r.lock(ctx, "staged "+id)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := r.staged(ctx, "discard", id)
	if err != nil {
		return err
	}
	if s.Pushed != nil {
		return &fserr.Error{Code: fserr.EINVAL, Detail: "staged commit " + id + " was pushed to " + s.Pushed.Branch, Hint: "revert the commit there"}
	}
	if s.Pushing != nil {
		return &fserr.Error{
			Code: fserr.EINVAL, Detail: "it is not known yet whether staged commit " + id + " was pushed to " + s.Pushing.Branch, Hint: "push it again: that asks the remote",
		}
	}
	return r.remove(id)
}

// remove removes a staged commit: as a whole for everybody else, also if it is interrupted.
func (r *Repos) remove(id string) error {
	gone := filepath.Join(r.cfg.Dir, gonePrefix+id)
	if err := os.Rename(r.dirOf(id), gone); err != nil {
		return err
	}
	r.point("discarded")
	return os.RemoveAll(gone)
}

// Contents returns the contents that the staged commits in dir need of the store of reviews, by SHA-256. A record that cannot be read fails.
func Contents(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), dirSuffix); !ok || !idPattern.MatchString(id) {
			continue
		}
		s, err := load(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if s.Pushed != nil {
			continue
		}
		for _, c := range s.Changes {
			out = append(out, c.Before.Hash, c.After.Hash)
		}
	}
	return out, err
}
