package exec

import (
	"errors"
	"sync"
	"time"
)

// Reading is how Process.Output reads.
type Reading int

const (
	// Present reads what there is.
	Present Reading = iota
	// Watching reads until the process has ended. It never delays the process, which may overwrite output that was not read yet.
	Watching
	// Blocking reads until the process has ended. The process waits for it, and it gets all output.
	Blocking
)

const (
	// window is how far a process may be ahead of its slowest blocking reader in a stream, in bytes. The rest of the tail has room for two
	// things: for what the process has left in its pipe when it ends, up to 1 MiB, and for what a caller that comes back had not received.
	window = 4 << 20
	// awayTime is the default of Processes.awayTime.
	awayTime = 30 * time.Second
)

// ErrDetached is the cause of a context of Process.Output whose caller leaves for good: the process does not wait for it.
var ErrDetached = errors.New("detached")

// flow has the blocking readers of a process, and lets its writers wait for them.
type flow struct {
	mu      sync.Mutex
	readers map[*position]struct{}
	// count is how many readers have come.
	count int
	// over says that no writer waits any longer.
	over bool
	// moved is closed when a writer that waits may have room; nil when none waits.
	moved chan struct{}
}

// position is how far a blocking reader is in each stream.
type position struct {
	at [2]int64
	// away ends the wait for a reader that is not connected; nil for one that is.
	away *time.Timer
	// from is where the reader began, and number counts the readers that came before it.
	from   [2]int64
	number int
	// back says that the reader is one that came back.
	back bool
}

// full returns a channel to wait on if a stream must not grow to a size yet: then there may be room. It returns nil if it may grow.
func (f *flow) full(s Stream, size int64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.readers {
		if size-window > p.at[s] && !f.over {
			if f.moved == nil {
				f.moved = make(chan struct{})
			}
			return f.moved
		}
	}
	return nil
}

// wake is called with f.mu held.
func (f *flow) wake() {
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// enter adds a reader. It takes the place of the reader that is away and whose position is nearest: most likely it is the same one.
func (f *flow) enter(at [2]int64) *position {
	f.mu.Lock()
	defer f.mu.Unlock()
	var back *position
	for p := range f.readers {
		if p.away != nil && (back == nil || p.distance(at) < back.distance(at)) {
			back = p
		}
	}
	if back != nil {
		back.away.Stop()
		delete(f.readers, back)
	}
	f.count++
	p := &position{at: at, from: at, number: f.count, back: back != nil}
	f.add(p)
	f.wake()
	return p
}

// add is called with f.mu held.
func (f *flow) add(p *position) {
	if f.readers == nil {
		f.readers = map[*position]struct{}{}
	}
	f.readers[p] = struct{}{}
}

func (p *position) distance(at [2]int64) (d int64) {
	for i := range at {
		d += max(p.at[i]-at[i], at[i]-p.at[i])
	}
	return d
}

// advance notes that a reader has got what is before an offset.
func (f *flow) advance(p *position, s Stream, at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.at[s] = at
	f.wake()
}

// leave removes a reader.
func (f *flow) leave(p *position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, p)
	f.wake()
}

// lose removes a reader that may come back, and has the process wait for it, for a time. It does not wait if the reader is back already: a
// client may notice before the server that a connection was lost. One that begins anew is another reader.
func (f *flow) lose(p *position, wait time.Duration) {
	f.mu.Lock()
	for other := range f.readers {
		if other.away == nil && !other.back && other.number > p.number && other.continues(p) {
			other.back = true
			wait = 0
			break
		}
	}
	f.mu.Unlock()
	if wait > 0 {
		f.expect(p.at, wait)
	}
	f.leave(p)
}

// continues reports whether a reader began where another one may have stopped: that had got at most what was sent to it, and has not lost more than a
// window of that.
func (p *position) continues(other *position) bool {
	if p.from == ([2]int64{}) && other.at != p.from {
		return false
	}
	for i, from := range p.from {
		if from > other.at[i] || from < other.at[i]-window {
			return false
		}
	}
	return true
}

// expect has the process wait for a reader at an offset that is not connected, for a time.
func (f *flow) expect(at [2]int64, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	p := &position{at: at}
	p.away = time.AfterFunc(wait, func() { f.leave(p) })
	f.add(p)
}

// end lets all writers continue, for good.
func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	for p := range f.readers {
		if p.away != nil {
			p.away.Stop()
		}
	}
	f.wake()
}
