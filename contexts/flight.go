package contexts

import (
	"context"
	"strings"
	"sync"
)

// flight is one seeding, shared by all who wait for it.
type flight struct {
	id    ID
	owner string
	done  chan struct{}

	// info, seeded and err are set before done is closed.
	info   Info
	seeded bool
	err    error
	// pool says how a claim of a ready copy went, "" when none was made; it is the seeding's own.
	pool string
	// closing has the result of the walk that ends the building of a layer, nil when none was built.
	closing chan error

	mu       sync.Mutex
	progress Progress
	// changed is closed, and replaced, when progress is worth telling.
	changed chan struct{}
}

func newFlight(id ID, owner string) *flight {
	return &flight{id: id, owner: owner, done: make(chan struct{}), changed: make(chan struct{}), progress: Progress{Phase: PhaseWaiting}}
}

// closed waits for the closing walk, which goes on while the context is made.
func (f *flight) closed() error {
	if f.closing == nil {
		return nil
	}
	return <-f.closing
}

func (f *flight) snapshot() Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress
}

// tellEvery is how many files pass between two reports of one phase.
const tellEvery = 128

// update changes the progress, and tells those who wait when the phase changed or enough files have passed.
func (f *flight) update(change func(*Progress)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.progress
	change(&f.progress)
	if before.Phase == f.progress.Phase && f.progress.FilesDone/tellEvery == before.FilesDone/tellEvery &&
		f.progress.FilesDone != f.progress.FilesTotal {
		return
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *flight) phase(p Phase) {
	f.update(func(pr *Progress) { *pr = Progress{Phase: p, FilesTotal: pr.FilesTotal, BytesTotal: pr.BytesTotal} })
}

// counts sets how far the phase is.
func (f *flight) counts(files, bytes int64) {
	f.update(func(p *Progress) { p.FilesDone, p.BytesDone = files, bytes })
}

// wait tells progress until the flight has landed or ctx ends.
func (f *flight) wait(ctx context.Context, progress func(Progress)) error {
	for {
		f.mu.Lock()
		changed, now := f.changed, f.progress
		f.mu.Unlock()
		if progress != nil {
			progress(now)
		}
		select {
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return beingSeeded(f.id, f.snapshot())
		case <-changed:
		}
	}
}

// join returns the flight that seeds id, beginning it when there is none.
func (m *Manager) join(id ID, owner string) (*flight, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, stopped(id)
	}
	key := strings.ToLower(string(id))
	if f := m.flights[key]; f != nil {
		if f.id != id {
			return nil, collides(id, f.id)
		}
		return f, nil
	}
	f := newFlight(id, owner)
	m.flights[key] = f
	m.wg.Go(func() { m.fly(f, key) })
	return f, nil
}

// fly seeds, whoever still waits for it.
func (m *Manager) fly(f *flight, key string) {
	done := m.pool.seeding()
	defer done()
	f.info, f.seeded, f.err = m.seed(m.ctx, f)
	m.mu.Lock()
	delete(m.flights, key)
	m.mu.Unlock()
	close(f.done)
}

// flightOf returns the seeding of id that runs in this process, if any.
func (m *Manager) flightOf(id ID) *flight {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.flights[strings.ToLower(string(id))]; f != nil && f.id == id {
		return f
	}
	return nil
}
