package seeding

import (
	"context"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/metadata"
)

// Phase is a step of seeding.
type Phase string

// The phases of seeding, in order. A seeding from a current layer has neither PhaseScanning nor PhaseLayering; one from a
// template that is not built yet has PhaseBuilding instead of them.
const (
	PhaseWaiting  Phase = "waiting"  // another process seeds
	PhaseScanning Phase = "scanning" // discovery and stat walk of the workspace
	PhaseLayering Phase = "layering" // copying the live tree into a layer
	PhaseBuilding Phase = "building" // writing a template's repositories into a layer
	PhaseCopying  Phase = "copying"  // making the folder from the layer
	PhaseRecord   Phase = "recording"
)

// Progress of a seeding.
type Progress struct {
	Phase                 Phase
	FilesDone, FilesTotal int64
	BytesDone, BytesTotal int64
}

// flight is one seeding. All callers that wait for it share it.
type flight struct {
	id    catalog.ID
	owner string
	// spec says what the context is made of. The seeding completes it; callers that wait read it after done is closed.
	spec catalog.Spec
	// labels are those of the caller that began it.
	labels map[string]string
	done   chan struct{}

	// rec and err are set before done is closed.
	rec metadata.Context
	err error
	// pool is the result of a claim of a ready copy, "" if none was made. Only the seeding itself uses it.
	pool string
	// staged is the staging directory of the context, "" until somebody needs it, and filled says that the building of a layer has
	// filled the context's folder there. Only the seeding itself uses both.
	staged string
	filled bool

	mu       sync.Mutex
	progress Progress
	// changed is closed, and replaced, when waiting callers should see the progress.
	changed chan struct{}
}

func newFlight(id catalog.ID, req Request) *flight {
	return &flight{
		id: id, owner: req.OwnerPanel, spec: req.Spec, labels: req.Labels, done: make(chan struct{}), changed: make(chan struct{}),
		progress: Progress{Phase: PhaseWaiting},
	}
}

// folder returns where the context's folder is made. It makes the staging directory if need be.
func (f *flight) folder(staging *disk.Staging) (string, error) {
	if f.staged == "" {
		var err error
		if f.staged, err = staging.Make("context"); err != nil {
			return "", err
		}
	}
	return filepath.Join(f.staged, "folder"), nil
}

// clear removes the staging directory.
func (f *flight) clear(staging *disk.Staging) {
	if f.staged != "" {
		staging.Discard(f.staged)
	}
}

func (f *flight) snapshot() Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress
}

func (f *flight) busy() error {
	p := f.snapshot()
	return catalog.BeingSeeded(f.id, p.FilesDone, p.FilesTotal)
}

// reportEvery is the number of files between two reports of one phase.
const reportEvery = 128

// update changes the progress, and reports it if the phase changed or enough files were done.
func (f *flight) update(change func(*Progress)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.progress
	change(&f.progress)
	if before.Phase == f.progress.Phase && f.progress.FilesDone/reportEvery == before.FilesDone/reportEvery &&
		f.progress.FilesDone != f.progress.FilesTotal {
		return
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// phase begins a phase, and keeps the totals.
func (f *flight) phase(p Phase) {
	f.update(func(pr *Progress) { *pr = Progress{Phase: p, FilesTotal: pr.FilesTotal, BytesTotal: pr.BytesTotal} })
}

// counts sets how far the phase is.
func (f *flight) counts(files, bytes int64) {
	f.update(func(p *Progress) { p.FilesDone, p.BytesDone = files, bytes })
}

func (f *flight) totals(files, bytes int64) {
	f.update(func(p *Progress) { p.FilesTotal, p.BytesTotal = files, bytes })
}

// wait reports progress until the flight has landed or ctx ends.
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
			return f.busy()
		case <-changed:
		}
	}
}

// Flights are the seedings that run in this process. IDs that differ only by case share one.
type Flights struct {
	life *gate.Life
	mu   sync.Mutex
	byID map[string]*flight
	// landings counts the flights that have landed.
	landings uint64
}

// NewFlights returns a table without flights.
func NewFlights(life *gate.Life) *Flights { return &Flights{life: life, byID: map[string]*flight{}} }

// landed counts the flights that have landed.
func (t *Flights) landed() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.landings
}

// join returns the flight that seeds id, or starts one with fly. The caller found the context missing after so many landings; if one
// has landed since, join returns nil, and the caller must look again: a flight for a context that is ready would refuse its users.
func (t *Flights) join(id catalog.ID, req Request, landings uint64, fly func(*flight)) (*flight, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := strings.ToLower(string(id))
	f := t.byID[key]
	switch {
	case t.life.Stopped():
		return nil, catalog.Stopped(id)
	case f != nil && f.id != id:
		return nil, catalog.Collides(id, f.id)
	case f != nil:
		return f, nil
	case t.landings != landings:
		return nil, nil
	}
	f = newFlight(id, req)
	t.byID[key] = f
	if !t.life.Start(func() { t.fly(key, f, fly) }) {
		delete(t.byID, key)
		return nil, catalog.Stopped(id)
	}
	return f, nil
}

func (t *Flights) fly(key string, f *flight, fly func(*flight)) {
	fly(f)
	t.mu.Lock()
	delete(t.byID, key)
	t.landings++
	t.mu.Unlock()
	close(f.done)
}

func (t *Flights) of(id catalog.ID) *flight {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.byID[strings.ToLower(string(id))]; f != nil && f.id == id {
		return f
	}
	return nil
}

// Progress returns how far the seeding of a context is, or nil if none runs.
func (t *Flights) Progress(id catalog.ID) *Progress {
	f := t.of(id)
	if f == nil {
		return nil
	}
	p := f.snapshot()
	return &p
}

// Busy implements gate.Seedings.
func (t *Flights) Busy(id catalog.ID) error {
	if f := t.of(id); f != nil {
		return f.busy()
	}
	return nil
}

// Wait waits until no seeding of a context runs.
func (t *Flights) Wait(ctx context.Context, id catalog.ID) error {
	f := t.of(id)
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
