package gate

import (
	"context"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/catalog"
)

// Life is the time between the opening of a workspace and its closing. It counts the work for which Stop waits.
type Life struct {
	// Context ends when Stop is called. Clearing ends some time later, until which half-made directories may still be removed.
	Context, Clearing context.Context //nolint:containedctx // the server's own life
	cancel, late      context.CancelFunc

	mu      sync.Mutex
	stopped bool
	work    sync.WaitGroup
}

// NewLife begins a life.
func NewLife() *Life {
	l := &Life{}
	l.Context, l.cancel = context.WithCancel(context.Background())
	l.Clearing, l.late = context.WithCancel(context.Background())
	return l
}

// Begin registers an operation on a context with Stop, which cancels the returned context and waits until ended is called. It
// fails with ECANCELED after Stop.
func (l *Life) Begin(ctx context.Context, id catalog.ID) (_ context.Context, ended func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return nil, nil, catalog.Stopped(id)
	}
	l.work.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.Context, cancel)
	return ctx, func() {
		stop()
		cancel()
		l.work.Done()
	}, nil
}

// Start runs f in a goroutine for which Stop waits, and reports whether it did: after Stop it does not.
func (l *Life) Start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.work.Go(f)
	}
	return !l.stopped
}

// Go is Start for a caller that Stop waits for already, so it always runs f.
func (l *Life) Go(f func()) { l.work.Go(f) }

// Stopped reports whether Stop was called.
func (l *Life) Stopped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped
}

// Stop cancels all work and waits for its end, limit at most. again is true if it was called before; then it does nothing.
func (l *Life) Stop(limit time.Duration) (ended, again bool) {
	l.mu.Lock()
	again = l.stopped
	l.stopped = true
	l.mu.Unlock()
	if again {
		return true, true
	}
	l.cancel()
	late := time.AfterFunc(limit/2, l.late)
	defer late.Stop()
	defer l.late()
	done := make(chan struct{})
	go func() {
		l.work.Wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true, false
	case <-timer.C:
		return false, false
	}
}
