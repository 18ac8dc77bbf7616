package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// EntryKind says what a journal entry is of.
type EntryKind string

// The kinds of entry.
const (
	EntryApply   EntryKind = "apply"
	EntryDiscard EntryKind = "discard"
	EntryUndo    EntryKind = "undo"
	EntryRebase  EntryKind = "rebase"
	EntryResolve EntryKind = "resolve"
	EntryExec    EntryKind = "exec"
	EntryPull    EntryKind = "pull"
	EntryPush    EntryKind = "push"
)

// Entry is something that was done, and can be undone.
type Entry struct {
	Format  int       `json:"format"`
	ID      int64     `json:"id"`
	Kind    EntryKind `json:"kind"`
	Context string    `json:"context"`
	Actor   string    `json:"actor"`
	At      time.Time `json:"at"`
	Steps   []step    `json:"steps"`
	// Dirs has the modes of the directories above files that the entry removes. An undo makes those that are gone with these modes.
	Dirs pathMap[uint32] `json:"dirs,omitempty"`
	// Closed has the modes of directories that permit nothing to be written, and that the entry makes or opens. A killed server may leave
	// them open.
	Closed pathMap[uint32] `json:"closed,omitempty"`
	// Emptied has the modes of the directories that the entry takes away in whole. An undo makes them again, also those without files.
	Emptied pathMap[uint32] `json:"emptied,omitempty"`
	// Made has the modes of the directories that the entry makes again.
	Made pathMap[uint32] `json:"made,omitempty"`
	// restores is Emptied of the entry that this one undoes.
	restores map[Path]uint32
	// makes are the modes of directories that the entry makes; those of others are plain.
	makes map[Path]uint32
	// InContext says that the steps changed the context, not the workspace.
	InContext bool `json:"in_context,omitempty"`
	// MovesBase says that steps in the context are all taken or none is, and that they move the base. Steps in the workspace always do.
	MovesBase bool `json:"moves_base,omitempty"`
	// RequestID is the client's, "" for none.
	RequestID string `json:"request_id,omitempty"`
	// Staged says that all new files are under their reserved names: from then on these can hold what a user has saved.
	Staged bool `json:"staged,omitempty"`
	// Undoes and UndoneBy are IDs; 0 for none.
	Undoes   int64 `json:"undoes,omitempty"`
	UndoneBy int64 `json:"undone_by,omitempty"`
	// Stale are the decisions that a Rebase has taken back. The journal does not keep them.
	Stale []Stale `json:"-"`
	// LeftOut are the changes that Selection.All, or a directory, left out. The journal does not keep them.
	LeftOut []LeftOut `json:"-"`
	// Command is what ran, for EntryExec.
	Command string `json:"command,omitempty"`
	// Unrecorded are directories that the command changed, and that the steps do not have.
	Unrecorded []Path `json:"unrecorded,omitempty"`
	// expected are the steps of a dry run that the entry must equal; nil for any.
	expected []step
	// tree is what the workspace held when the entry was placed for checks (treeOf); "" for not placed.
	tree string
	// Target is where the steps go; Commits are those that were made, one for a repository.
	Target  Target   `json:"target,omitempty"`
	Commits []Commit `json:"commits,omitempty"`
}

const entryFormat = 1

// AppliedFile says what an entry did to a path.
type AppliedFile struct {
	Path Path
	Did  Applied
	// Merged says that changes of the other side were kept.
	Merged bool
	// OwnerLost says that the file has another owner or group than before: this process may not give files away.
	OwnerLost bool
}

// Host is the actor of what a host does.
const Host = "host"

// isOfPanel reports whether a panel makes such entries by itself: what its commands changed, and what it discards, pulls and pushes.
func (e *Entry) isOfPanel() bool {
	switch e.Kind {
	case EntryExec:
		return true // the host records it, whoever ran the command
	case EntryDiscard, EntryPull, EntryPush:
		return e.Actor != Host
	}
	return false
}

// Files lists what the entry did.
func (e *Entry) Files() []AppliedFile {
	out := make([]AppliedFile, len(e.Steps))
	for i, s := range e.Steps {
		if e.Target == ToBranch && s.Commit != nil {
			s.Before, s.After, s.Merged = s.Commit.Before, s.Commit.After, s.Commit.Merged
		}
		out[i] = AppliedFile{s.Path, s.did(), s.Merged, s.OwnerLost}
	}
	return out
}

// journal keeps what was done, a file for each entry:
//
//	<dir>/<number of 16 digits>.json      done
//	<dir>/<number of 16 digits>.intent    begun: a start that finds it puts back what was before
//
// Only the holder of the workspace's lock writes to it.
type journal struct{ dir string }

const (
	doneSuffix   = ".json"
	intentSuffix = ".intent"
)

func (j journal) file(id int64, suffix string) string {
	return filepath.Join(j.dir, fmt.Sprintf("%016d%s", id, suffix))
}

// ids lists the entries with a suffix, the oldest first.
func (j journal) ids(suffix string) ([]int64, error) {
	entries, err := os.ReadDir(j.dir)
	var out []int64
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok {
			if id, err := strconv.ParseInt(name, 10, 64); err == nil {
				out = append(out, id)
			}
		}
	}
	return out, err
}

// next returns the number of the next entry. It is larger than that of a begun entry which could not be put back yet.
func (j journal) next() (int64, error) {
	done, err := j.ids(doneSuffix)
	if err != nil {
		return 0, err
	}
	begun, err := j.ids(intentSuffix)
	return slices.Max(append(begun, append(done, 0)...)) + 1, err
}

func (j journal) read(id int64, suffix string) (*Entry, error) {
	data, err := statedir.ReadFile(j.file(id, suffix), statedir.MaxList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, j.missing(id)
	}
	e := &Entry{}
	if err == nil && (json.Unmarshal(data, e) != nil || e.Format != entryFormat) {
		err = &fserr.Error{Code: fserr.EIO, Detail: fmt.Sprintf("entry %d of the journal is damaged, or of a newer ctxfs", id)}
	}
	return e, err
}

// listed reads an entry that ids has listed. It returns nil if the entry was dropped meanwhile.
func (j journal) listed(id int64, suffix string) (*Entry, error) {
	e, err := j.read(id, suffix)
	if fserr.CodeOf(err) == fserr.ENOENT {
		return nil, nil
	}
	return e, err
}

// missing says why the journal does not have an entry: it was dropped, or there was none.
func (j journal) missing(id int64) error {
	next, err := j.next()
	if err != nil || id <= 0 || id >= next {
		return noEntry(id)
	}
	return &fserr.Error{
		Code: fserr.ENOENT, Detail: fmt.Sprintf("the journal does not keep entry %d any more: it drops some when they are too many or keep too much", id),
		Hint: "it cannot be undone, unlike the others: 'ctxfs log' lists them",
	}
}

func noEntry(id int64) error {
	return &fserr.Error{Code: fserr.ENOENT, Detail: fmt.Sprintf("the journal has no entry %d", id), Hint: "'ctxfs log' lists them"}
}

// begin writes an entry before its steps are taken.
func (j journal) begin(e *Entry) error { return j.write(e, intentSuffix) }

// finish makes a begun entry a done one, also after a power loss.
func (j journal) finish(e *Entry) error {
	intent, done := j.file(e.ID, intentSuffix), j.file(e.ID, doneSuffix)
	if err := os.Rename(intent, done); err != nil {
		return err
	}
	if err := durable.Names(j.dir); err != nil {
		return errors.Join(err, os.Rename(done, intent)) // the caller puts the entry back
	}
	return nil
}

// abandon removes a begun entry whose steps were put back.
func (j journal) abandon(e *Entry) error { return os.Remove(j.file(e.ID, intentSuffix)) }

func (j journal) write(e *Entry, suffix string) error {
	e.Format = entryFormat
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return replaceDurably(j.file(e.ID, suffix), data)
}
