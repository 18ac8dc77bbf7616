package exec

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// sigcont continues a stopped process. It has this number on all systems where commands run.
const sigcont = syscall.Signal(18)

// pausePoll is how often the wall limit of a paused process is looked at.
const pausePoll = 10 * time.Millisecond

// pauses counts the time for which a process was paused.
type pauses struct {
	mu sync.Mutex
	// depth counts the callers that keep the process paused.
	depth int
	// since is when the present pause began; zero if there is none.
	since time.Time
	total time.Duration
	// continues says that a caller sent SIGCONT during the present pause.
	continues bool
}

func (p *pauses) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.depth++; p.depth == 1 {
		p.since = time.Now()
	}
}

// end reports whether the process continues, and a caller sent SIGCONT meanwhile.
func (p *pauses) end() (continues bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.depth--; p.depth > 0 {
		return false
	}
	p.total += time.Since(p.since)
	p.since, continues, p.continues = time.Time{}, p.continues, false
	return continues
}

// sum is how long the process was paused in all, the present pause included.
func (p *pauses) sum() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return p.total
	}
	return p.total + time.Since(p.since)
}

// delay reports whether a SIGCONT has to wait for the end of a pause, and notes it.
func (p *pauses) delay() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.continues = !p.since.IsZero()
	return p.continues
}

// Pause implements contexts.Pauser.
func (p *Process) Pause(ctx context.Context) (resume func(), err error) {
	return p.pausedBy(ctx, p.box.pause)
}

// pausedBy pauses the process by pause, and counts the time.
func (p *Process) pausedBy(ctx context.Context, pause func(context.Context) (func(), error)) (resume func(), err error) {
	proceed, err := pause(ctx)
	if err != nil {
		return nil, &fserr.Error{Code: fserr.EBUSY, Detail: fmt.Sprintf("command %s cannot be paused: %s", p.ID, err), Err: err}
	}
	p.pauses.begin()
	return func() {
		proceed()
		if p.pauses.end() {
			p.table.logged("a command could not be continued", p.run.signal(sigcont))
		}
	}, nil
}

// remaining is how long the process may run on, of a wall limit that does not count pauses.
func (p *Process) remaining(wall time.Duration) time.Duration {
	return wall - (time.Since(p.started) - p.pauses.sum())
}
