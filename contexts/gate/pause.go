package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/fserr"
)

// Pauser is a user of a context that can stop changing it for a moment.
type Pauser interface {
	// Pause returns when the user changes nothing until resume is called. It fails if the user does not stop before ctx ends; the user
	// then continues. resume may be called after the user has ended.
	Pause(ctx context.Context) (resume func(), err error)
}

// pauseTime is the default of Config.PauseTime.
const pauseTime = 30 * time.Second

// Yield makes an operation that may Write one that Frozen pauses instead of waiting for its end.
func (a *Access) Yield(p Pauser) {
	if a.remote != nil {
		a.remote.Yield(p)
	}
	if a.gate == nil {
		return
	}
	a.gate.yield(a, p)
	a.release = func() { a.gate.leavePausable(a) }
}

func (g *gate) yield(a *Access, p Pauser) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pausers == nil {
		g.pausers = map[*Access]Pauser{}
	}
	g.pausers[a] = p
	g.writerLeft()
	g.checkSecluded()
}

func (g *gate) leavePausable(a *Access) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pausers, a)
	g.left()
}

// pause pauses the users of a frozen gate that has no other writers. They continue when resume is called, or after keep. The returned
// context ends then, with an EBUSY that says so.
func (g *gate) pause(ctx context.Context, id catalog.ID, limit, keep time.Duration) (_ context.Context, resume func(), err error) {
	g.mu.Lock()
	var pausers []Pauser
	for _, p := range g.pausers {
		pausers = append(pausers, p)
	}
	g.mu.Unlock()
	if len(pausers) == 0 {
		return ctx, func() {}, nil
	}
	proceed, err := pauseAll(ctx, id, pausers, limit)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watchdog := time.AfterFunc(keep, func() {
		cancel(&fserr.Error{
			Code: fserr.EBUSY, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' has running commands, which cannot be paused for longer than %s", id, keep),
			Hint: "end the commands first",
		})
		proceed()
	})
	return ctx, func() {
		watchdog.Stop()
		proceed()
		cancel(nil)
	}, nil
}

// pauseAll pauses all users at once, or none. resume has an effect once.
func pauseAll(ctx context.Context, id catalog.ID, pausers []Pauser, limit time.Duration) (resume func(), err error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resumes, errs := make([]func(), len(pausers)), make([]error, len(pausers))
	var wg sync.WaitGroup
	for i, p := range pausers {
		wg.Go(func() { resumes[i], errs[i] = p.Pause(within) })
	}
	wg.Wait()
	resume = sync.OnceFunc(func() {
		for i, r := range resumes {
			if errs[i] == nil {
				r()
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		resume()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &fserr.Error{
			Code: fserr.EBUSY, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' is in use: %s", id, err), Hint: "retry later, or end the command", Err: err,
		}
	}
	return resume, nil
}
