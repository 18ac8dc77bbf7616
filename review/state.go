package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Decision is what a reviewer decided.
type Decision string

// The decisions; "" is none.
const (
	Approved Decision = "approved"
	Rejected Decision = "rejected"
)

// Verdict is a decision with the reviewer's words.
type Verdict struct {
	Decision Decision  `json:"decision"`
	Comment  string    `json:"comment,omitempty"`
	Actor    string    `json:"actor"`
	At       time.Time `json:"at"`
}

// decided is what was decided on a path: on the change as a whole, or on hunks. It holds for the two versions that the
// reviewer saw; the content of both is in the store.
type decided struct {
	Before Version `json:"before"`
	After  Version `json:"after"`
	// Whole is the verdict on the change as a whole. It also holds for each of WholeHunks, the IDs of the hunks that the change
	// has, once the context has another change with this hunk.
	Whole      *Verdict           `json:"whole,omitempty"`
	WholeHunks []string           `json:"wholeHunks,omitempty"`
	Hunks      map[string]Verdict `json:"hunks,omitempty"`
}

// verdicts returns what was decided on hunks, by their IDs.
func (d *decided) verdicts() map[string]Verdict {
	if d.Whole == nil {
		return d.Hunks
	}
	out := make(map[string]Verdict, len(d.WholeHunks))
	for _, id := range d.WholeHunks {
		out[id] = *d.Whole
	}
	return out
}

// isOfHunks reports whether the change is its hunks and nothing else, such as another mode.
func (d *decided) isOfHunks() bool { return len(d.WholeHunks) > 0 && d.Before.sameMode(d.After) }

// Submission is what SubmitReview said last.
type Submission struct {
	Title    string    `json:"title"`
	Message  string    `json:"message,omitempty"`
	Revision string    `json:"revision"`
	Actor    string    `json:"actor"`
	At       time.Time `json:"at"`
}

// state is what a review keeps of a context. Its zero is that of a context that was never reviewed.
type state struct {
	Format int `json:"format"`
	// Journal is the last entry that has moved the base.
	Journal int64 `json:"journal,omitempty"`
	// Overrides of the base.
	Overrides pathMap[Version]  `json:"overrides,omitempty"`
	Decided   pathMap[*decided] `json:"decided,omitempty"`
	Submitted *Submission       `json:"submitted,omitempty"`
	// Conflicts are those that Rebase recorded and that are not resolved.
	Conflicts pathMap[*Unresolved] `json:"conflicts,omitempty"`
	// Pulled is what Pull brought to each path last.
	Pulled pathMap[*pulled] `json:"pulled,omitempty"`
	// Behind are the paths whose base went to a branch or a remote, and not to the workspace. The version is the base that
	// the workspace got last: a rebase merges from it. Each path is in Overrides.
	Behind pathMap[Version] `json:"behind,omitempty"`
}

// rejectedOn returns the rejections on paths at which another base, of the same layer, has what this one has.
func (st *state) rejectedOn(overrides map[Path]Version) pathMap[*decided] {
	out := pathMap[*decided]{}
	for p, d := range st.Decided {
		now, moved := st.Overrides[p]
		if next, ok := overrides[p]; ok != moved || !next.Same(now) {
			continue
		}
		rejected := *d
		rejected.Hunks = maps.Clone(d.Hunks)
		maps.DeleteFunc(rejected.Hunks, func(_ string, v Verdict) bool { return v.Decision != Rejected })
		if d.Whole != nil && d.Whole.Decision != Rejected {
			rejected.Whole, rejected.WholeHunks = nil, nil
		}
		if rejected.Whole != nil || len(rejected.Hunks) > 0 {
			out[p] = &rejected
		}
	}
	return out
}

// stateFormat is the format of states that this version reads and writes.
const stateFormat = 1

// states keeps the state of each context in a file.
type states struct{ dir string }

func (s states) file(id string) string { return filepath.Join(s.dir, id+".json") }

func (s states) read(id string) (*state, error) {
	st := &state{}
	data, err := statedir.ReadFile(s.file(id), statedir.MaxList)
	if errors.Is(err, fs.ErrNotExist) {
		return &state{Format: stateFormat}, nil
	}
	if err == nil && (json.Unmarshal(data, st) != nil || st.Format != stateFormat) {
		err = &fserr.Error{
			Code: fserr.EIO, Kind: fserr.KindContext, Detail: fmt.Sprintf("the review of context '%s' is damaged, or of a newer ctxfs", id),
			Hint: "restore the state directory from a backup, or delete the context",
		}
	}
	return st, err
}

// write replaces the state in one step.
func (s states) write(id string, st *state) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return replaceDurably(s.file(id), data)
}

// remove forgets a context. Removing again does nothing.
func (s states) remove(id string) error {
	err := os.Remove(s.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeAll removes the states whose names begin with prefix.
func (s states) removeAll(prefix string) error {
	entries, err := os.ReadDir(s.dir)
	errs := []error{err}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok && strings.HasPrefix(id, prefix) {
			errs = append(errs, s.remove(id))
		}
	}
	return errors.Join(errs...)
}

// replaceFile writes a file under another name, and renames it. A power loss leaves the old content or the new one.
func replaceFile(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), newPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
