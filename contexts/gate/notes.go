package gate

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/metadata"
)

const (
	// NoteEvery is how often the use of a context is recorded.
	NoteEvery = 5 * time.Minute
	// noteTime bounds how long one note takes, and noteRetry is the time between two attempts while the database is away.
	noteTime  = 2 * time.Second
	noteRetry = 5 * time.Second
)

// notes are the uses of contexts that are to be recorded: at most one for each context that is open. No caller waits for them.
type notes struct {
	mu      sync.Mutex
	pending map[catalog.ID]time.Time
	// writing says that a goroutine writes them.
	writing bool
}

// add adds a note. It reports whether the caller must start a goroutine that writes.
func (n *notes) add(id catalog.ID, at time.Time) (start bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending == nil {
		n.pending = map[catalog.ID]time.Time{}
	}
	n.pending[id] = at
	start, n.writing = !n.writing, true
	return start
}

// next takes one of the notes. If there is none the goroutine that writes must end.
func (n *notes) next() (id catalog.ID, at time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, at = range n.pending {
		delete(n.pending, id)
		return id, at, true
	}
	n.writing = false
	return "", at, false
}

// putBack keeps a note that could not be written, unless there is a later one.
func (n *notes) putBack(id catalog.ID, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.pending[id]; !ok {
		n.pending[id] = at
	}
}

// noteUse records from time to time that a context is used. The caller does not wait for it.
func (t *Gates) noteUse(id catalog.ID, g *gate, now time.Time) {
	last, elapsed := g.noted.Load(), int64(now.Sub(g.born))
	if elapsed-last < int64(NoteEvery) || !g.noted.CompareAndSwap(last, elapsed) {
		return
	}
	if t.notes.add(id, now) && !t.life.Start(t.writeNotes) {
		t.notes.next() // the server is stopping
	}
}

// writeNotes writes the notes, one after another. Those that a database that is away does not take are kept until it does, or the server stops.
func (t *Gates) writeNotes() {
	for {
		id, at, ok := t.notes.next()
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), noteTime)
		err := t.cat.Store.Contexts().Used(metadata.Later(ctx), string(id), at)
		cancel()
		switch {
		case err == nil, errors.Is(err, metadata.ErrNotFound):
		case errors.Is(err, metadata.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
			t.notes.putBack(id, at)
			if !t.notAtOnce() {
				return
			}
		default:
			t.cat.Log.Warn("the use of a context could not be recorded", zap.String("context", string(id)), zap.Error(err))
		}
	}
}

// notAtOnce waits before another attempt. It reports whether there is one: not when the server stops.
func (t *Gates) notAtOnce() bool {
	timer := time.NewTimer(noteRetry)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.life.Context.Done():
		return false
	}
}
