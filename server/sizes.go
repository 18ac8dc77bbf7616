package server

import (
	"context"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
)

// sizesSettle is how long after its last use a context must have been measured, for the size to count until the next use: the time of a use is
// known to a few seconds.
const sizesSettle = time.Minute

// sizes remembers what contexts take on disk. A context is measured again only after a use; what other programs wrote into its folder since is
// not noticed. It is safe for concurrent use.
type sizes struct {
	contexts *contexts.Manager
	now      func() time.Time

	mu sync.Mutex
	by map[contexts.ID]measured
}

// measured is the size of a context that was used last at a time.
type measured struct {
	used, at   time.Time
	generation uint64
	bytes      int64
}

func newSizes(m *contexts.Manager) *sizes {
	return &sizes{contexts: m, now: time.Now, by: map[contexts.ID]measured{}}
}

// of returns what a context and its snapshots take on disk. It may read all of the context's directories.
func (s *sizes) of(ctx context.Context, c contexts.Info) (int64, error) {
	s.mu.Lock()
	known, ok := s.by[c.ID]
	s.mu.Unlock()
	if ok && known.used.Equal(c.UsedAt) && known.generation == c.Generation && known.at.Sub(known.used) > sizesSettle {
		return known.bytes, nil
	}
	at := s.now()
	got, err := s.contexts.Sizes(ctx, c.ID)
	if err != nil {
		return 0, err
	}
	bytes := got.Own + got.Snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[c.ID] = measured{c.UsedAt, at, c.Generation, bytes}
	return bytes, nil
}

// size is of for a context's ID.
func (s *sizes) size(ctx context.Context, id contexts.ID) (int64, error) {
	c, err := s.contexts.Get(ctx, id)
	if err != nil {
		return 0, err
	}
	return s.of(ctx, c)
}

// prune forgets contexts that are not listed.
func (s *sizes) prune(list []contexts.Info) {
	there := make(map[contexts.ID]bool, len(list))
	for _, c := range list {
		there[c.ID] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.by {
		if !there[id] {
			delete(s.by, id)
		}
	}
}
