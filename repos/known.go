package repos

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/review"
)

// known is what the server remembers of a staged commit, so that no call reads the records of others.
type known struct {
	context string
	repo    review.Path
	branch  string
	// bytes is the size of the files.
	bytes int64
	// at is when it was pushed.
	pushed bool
	at     time.Time
	// settled says that the record names no push whose outcome is unknown.
	settled bool
	damaged bool
}

// contextName is a file with the ID of a staged commit's context. It tells which context a damaged record is of.
const contextName = "context"

// scan remembers what there is. It reports records that cannot be read.
func (r *Repos) scan(ctx context.Context) error {
	ids, err := idsIn(r.cfg.Dir)
	if err != nil {
		return err
	}
	for _, id := range ids {
		of := filepath.Join(r.dirOf(id), contextName)
		data, err := statedir.ReadFile(of, statedir.MaxRecord)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.cfg.Log.Warn("it cannot be read which context a staged commit is of", zap.String("staged", id), zap.Error(err))
		}
		r.mu.Lock()
		r.known[id] = known{context: string(data)}
		r.mu.Unlock()
		s, err := r.staged(ctx, "open", id)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue // staged has noted it
		}
		if r.note(s); string(data) != s.Context {
			if err := statedir.WriteFile(of, []byte(s.Context), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// idsIn lists the staged commits in a directory.
func idsIn(dir string) (ids []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), dirSuffix); ok && idPattern.MatchString(id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// note remembers what a record says.
func (r *Repos) note(s *Staged) {
	k := known{context: s.Context, repo: s.Repo, branch: s.Branch, bytes: sizeOf(s.Changes), settled: s.Pushing == nil}
	if s.Pushed != nil {
		k.pushed, k.at = true, s.Pushed.At
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[s.ID] = k
}

// noteDamage remembers, and reports once, that a record cannot be read.
func (r *Repos) noteDamage(id string, err error) {
	r.mu.Lock()
	k, ok := r.known[id]
	fresh := ok && !k.damaged
	if fresh {
		k.damaged = true
		r.known[id] = k
	}
	r.mu.Unlock()
	if fresh {
		r.cfg.Log.Warn("a staged commit cannot be read", zap.String("staged", id), zap.String("context", k.context), zap.Error(err))
	}
}

func (r *Repos) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, id)
}

// matching returns what is known of the staged commits that match, by ID.
func (r *Repos) matching(match func(known) bool) iter.Seq2[string, known] {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[string]known{}
	for id, k := range r.known {
		if match(k) {
			found[id] = k
		}
	}
	return maps.All(found)
}

// Hold is why a context is kept.
type Hold struct {
	// Unpushed counts the staged commits that were not pushed.
	Unpushed int
	// Bytes is the size of their files.
	Bytes int64
	// Damaged are the IDs of those whose record cannot be read: it is not known whether they were pushed.
	Damaged []string
}

// Holds returns what keeps contexts. Damaged staged commits of which not even the context is known have the key "".
func (r *Repos) Holds() map[string]Hold {
	holds := map[string]Hold{}
	for id, k := range r.matching(func(k known) bool { return k.damaged || !k.pushed }) {
		h := holds[k.context]
		if k.damaged {
			h.Damaged = append(h.Damaged, id)
		} else {
			h.Unpushed++
			h.Bytes += k.bytes
		}
		holds[k.context] = h
	}
	return holds
}

// reserve takes the name of a branch for a Stage that runs. It returns nil if another staged commit of the repository has it, or gets it.
func (r *Repos) reserve(repo review.Path, branch string) (free func()) {
	key := string(repo) + "\x00" + branch
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.naming[key]
	for _, k := range r.known {
		taken = taken || (k.repo == repo && k.branch == branch && !k.pushed)
	}
	if taken {
		return nil
	}
	r.naming[key] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.naming, key)
	}
}
