package contexts

import (
	"context"
	"testing"

	"github.com/ctxfs/ctxfs/metadata"
)

// slowReader is a context whose waits the test sees: Done is called when a lock is waited for. After Get has read a record for it, it calls read.
type slowReader struct {
	context.Context
	waits chan struct{}
	read  func()
}

func (r slowReader) Done() <-chan struct{} {
	select {
	case r.waits <- struct{}{}:
	default:
	}
	return r.Context.Done()
}

type slowStore struct{ metadata.Store }

func (s slowStore) Contexts() metadata.Contexts { return slowContexts{s.Store.Contexts()} }

type slowContexts struct{ metadata.Contexts }

func (s slowContexts) Get(ctx context.Context, id string) (metadata.Context, error) {
	rec, err := s.Contexts.Get(ctx, id)
	if r, ok := ctx.(slowReader); ok && r.read != nil {
		r.read()
	}
	return rec, err
}

// TestEnsureThatReadsTheRecordOfASeedingLooksAgain has a caller read the record while the context is seeded, and use it when the seeding
// has ended: it must not put the old record back.
func TestEnsureThatReadsTheRecordOfASeedingLooksAgain(t *testing.T) {
	t.Parallel()
	w := small(t)
	w.store = slowStore{w.store}
	renamed, land, landed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	m := w.open(func(c *Config) {
		c.Events.Step = func(phase string) {
			if phase == "renamed" {
				close(renamed)
				<-land
			}
		}
	})
	reader := func(read func()) slowReader {
		return slowReader{Context: t.Context(), waits: make(chan struct{}, 1), read: read}
	}
	// They get the lock in this order: the caller that begins the seeding, the test, and the caller that reads the record.
	inGet, goOn := make(chan struct{}), make(chan struct{})
	begins := 0
	first := reader(func() {
		if begins++; begins == 1 {
			close(inGet)
			<-goOn
		}
	})
	go func() {
		_, err := m.Ensure(first, "ctx_a", EnsureOptions{}, nil)
		landed <- err
	}()
	<-inGet
	between, unlock := reader(nil), make(chan func(), 1)
	go func() {
		u, err := m.gates.Opening(between, "ctx_a")
		if err != nil {
			t.Error(err)
		}
		unlock <- u
	}()
	<-between.waits
	reads := 0
	second, ensured := reader(func() {
		if reads++; reads == 1 {
			close(land)
			if err := <-landed; err != nil {
				t.Error(err)
			}
		}
	}), make(chan Ensured, 1)
	go func() {
		e, err := m.Ensure(second, "ctx_a", EnsureOptions{OwnerPanel: "a"}, nil)
		if err != nil {
			t.Error(err)
		}
		ensured <- e
	}()
	<-second.waits
	close(goOn)
	<-renamed
	(<-unlock)()
	if e := <-ensured; e.Files != 1 {
		t.Errorf("the caller got a context with %d files, want 1", e.Files)
	}
	rec, err := w.store.Contexts().Get(t.Context(), "ctx_a")
	if err != nil || rec.State != metadata.ContextReady || rec.Files != 1 || rec.OwnerPanel != "a" {
		t.Errorf("the record is %+v, %v", rec, err)
	}
}
