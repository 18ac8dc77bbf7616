package contexts

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// looking are the calls that look at a context's content for as long as their callers please.
var looking = map[string]func(m *Manager, ctx context.Context, id ID, f func(ctx context.Context, a *Access) error) error{
	"frozen": (*Manager).Frozen, "beside": (*Manager).Beside, "looking": (*Manager).Looking,
}

// looker begins a call that looks until its context ends. looked returns its error.
func looker(ctx context.Context, m *Manager, id ID, call func(*Manager, context.Context, ID, func(context.Context, *Access) error) error) (looked func() error) {
	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- call(m, ctx, id, func(ctx context.Context, _ *Access) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-begun
	return func() error { return <-done }
}

func TestLooksEndForThoseWhoTakeTheContext(t *testing.T) {
	t.Parallel()
	for name, call := range looking {
		for taker, take := range map[string]func(m *Manager, ctx context.Context) error{
			"delete": func(m *Manager, ctx context.Context) error { _, err := m.Delete(ctx, "ctx_a", nil); return err },
			"restore": func(m *Manager, ctx context.Context) error {
				_, err := m.Restore(ctx, "ctx_a", "s", nil)
				return err
			},
			"delete, which asks": func(m *Manager, ctx context.Context) error {
				_, err := m.Delete(ctx, "ctx_a", func(ctx context.Context) error {
					return m.Looking(ctx, "ctx_a", func(context.Context, *Access) error { return nil })
				})
				return err
			},
		} {
			m := small(t).open()
			ensure(t, m, "ctx_a")
			_, err := m.Snapshot(t.Context(), "ctx_a", "s")
			must(t, err)
			looked := looker(t.Context(), m, "ctx_a", call)
			inTime(t, taker+" beside "+name, func(ctx context.Context) error { return take(m, ctx) })
			wantCode(t, looked(), fserr.EBUSY, "ctx_a", "replaced or deleted")
		}
	}
}

// TestLooksBesideKeepNobodyOut has others change, copy and replace a context while a call reads a file beside it.
func TestLooksBesideKeepNobodyOut(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("batches need a server on Linux")
	}
	m := small(t).open()
	ensure(t, m, "ctx_a")
	ctx, cancel := context.WithCancel(t.Context())
	looked := looker(ctx, m, "ctx_a", (*Manager).Beside)
	inTime(t, "a write", func(ctx context.Context) error {
		a, err := m.Acquire(ctx, "ctx_a", Write)
		if err == nil {
			a.Release()
		}
		return err
	})
	inTime(t, "a batch", func(ctx context.Context) error { _, err := m.Batch(ctx, "ctx_a", writing("a", "one")); return err })
	inTime(t, "a fork", func(ctx context.Context) error { _, err := m.Fork(ctx, "ctx_a", "ctx_b", EnsureOptions{}); return err })
	inTime(t, "a snapshot", func(ctx context.Context) error { _, err := m.Snapshot(ctx, "ctx_a", "s"); return err })
	cancel()
	if err := looked(); !errors.Is(err, context.Canceled) {
		t.Errorf("the look ended with %v", err)
	}
}

// TestDeleteWaitsForItsTime deletes a context whose lock another call keeps, and one whose changes nobody can look at in time.
func TestDeleteWaitsForItsTime(t *testing.T) {
	t.Parallel()
	m := small(t).open(func(c *Config) { c.drainTime = 50 * time.Millisecond })
	ensure(t, m, "ctx_a")
	unlock, err := m.cat.LockContext(t.Context(), "ctx_a", func() {})
	must(t, err)
	_, err = m.Delete(t.Context(), "ctx_a", nil)
	wantCode(t, err, fserr.EBUSY, "ctx_a", "50ms")
	unlock()

	asked := 0
	_, err = m.Delete(t.Context(), "ctx_a", func(ctx context.Context) error {
		if asked++; asked == 1 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	wantCode(t, err, fserr.EBUSY, "ctx_a", "50ms")
	inTime(t, "an access", func(ctx context.Context) error {
		a, err := m.Acquire(ctx, "ctx_a", Read)
		if err == nil {
			a.Release()
		}
		return err
	})
}
