package review

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Other is another context that changes some of the paths that a context changes.
type Other struct {
	Context string
	// Paths are those that both change, at most maxNamed; Count is how many there are.
	Paths []Path
	Count int
	// At is when the other context's changes were listed last.
	At time.Time
}

const (
	// listedPaths is how many paths of a context are kept, maxNamed how many of them an Other has, and maxOthers how many contexts are named.
	listedPaths = 1000
	maxNamed    = 100
	maxOthers   = 100
)

// listing is which paths a context changed when its changes were listed last.
type listing struct {
	At    time.Time `json:"at"`
	Paths []Path    `json:"paths"`
}

// listings keeps the listing of each context, in memory and in a file. It is a cache: without a listing, others do not learn of the context before its
// changes are listed again.
type listings struct {
	dir string
	log *zap.Logger
	mu  sync.Mutex
	of  map[string]listing
}

// openListings reads the listings. It leaves out what it cannot read.
func openListings(dir string, log *zap.Logger) (*listings, error) {
	l := &listings{dir: dir, log: log, of: map[string]listing{}}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		data, err := statedir.ReadFile(filepath.Join(dir, e.Name()), statedir.MaxList)
		var one listing
		if err == nil && json.Unmarshal(data, &one) == nil {
			l.of[e.Name()] = one
		}
	}
	return l, err
}

// put records the changes of a context.
func (l *listings) put(id string, changes []*Change) {
	now := listing{At: time.Now().UTC()}
	for _, c := range changes {
		if c.Barred == "" && c.Tree == nil && len(now.Paths) < listedPaths {
			now.Paths = append(now.Paths, c.Path)
		}
	}
	l.set(id, now)
}

// set records a listing. It writes the file only if the paths are others.
func (l *listings) set(id string, now listing) {
	l.mu.Lock()
	same := slices.Equal(l.of[id].Paths, now.Paths)
	l.of[id] = now
	l.mu.Unlock()
	if same {
		return
	}
	data, err := json.Marshal(now)
	if err == nil {
		err = replaceFile(filepath.Join(l.dir, id), data)
	}
	if err != nil {
		l.log.Warn("the changes of a context could not be kept for the reviews of others", zap.String("context", id), zap.Error(err))
	}
}

// settled removes the paths of an entry from the listing of its context.
func (l *listings) settled(e *Entry) {
	done := map[Path]bool{}
	for _, s := range e.Steps {
		done[s.Path] = true
	}
	l.mu.Lock()
	one, ok := l.of[e.Context]
	l.mu.Unlock()
	if ok {
		one.Paths = slices.DeleteFunc(slices.Clone(one.Paths), func(p Path) bool { return done[p] })
		l.set(e.Context, one)
	}
}

// remove forgets the listing of a context.
func (l *listings) remove(id string) error {
	l.mu.Lock()
	delete(l.of, id)
	l.mu.Unlock()
	err := os.Remove(filepath.Join(l.dir, id))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// others returns the contexts that change some of the paths that a context changes, those with the most paths first.
func (l *listings) others(id string, changes []*Change) []Other {
	mine := make(map[Path]bool, len(changes))
	for _, c := range changes {
		mine[c.Path] = true
	}
	var out []Other
	l.mu.Lock()
	defer l.mu.Unlock()
	for context, one := range l.of {
		if context == id {
			continue
		}
		other := Other{Context: context, At: one.At}
		for _, p := range one.Paths {
			if !mine[p] {
				continue
			}
			if other.Count++; other.Count <= maxNamed {
				other.Paths = append(other.Paths, p)
			}
		}
		if other.Count > 0 {
			out = append(out, other)
		}
	}
	slices.SortFunc(out, func(a, b Other) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Context, b.Context))
	})
	return out[:min(len(out), maxOthers)]
}

// Unresolved returns the paths with a recorded conflict, if the Query had Drift.
func (l *List) Unresolved() []Path {
	var out []Path
	for _, c := range l.unresolved {
		out = append(out, c.Path)
	}
	return out
}
