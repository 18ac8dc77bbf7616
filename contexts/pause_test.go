package contexts

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// pausable is a user of a context that can be paused.
type pausable struct {
	fails          error
	paused, resume atomic.Int32
	resumed        chan struct{}
}

func (p *pausable) Pause(ctx context.Context) (func(), error) {
	if p.fails != nil {
		<-ctx.Done()
		return nil, p.fails
	}
	p.paused.Add(1)
	return func() {
		p.resume.Add(1)
		p.resumed <- struct{}{}
	}, nil
}

// yielding opens ctx_a for a user that can be paused.
func yielding(t *testing.T, m *Manager, fails error) *pausable {
	t.Helper()
	a, err := m.Acquire(t.Context(), "ctx_a", Write)
	must(t, err)
	t.Cleanup(a.Release)
	p := &pausable{fails: fails, resumed: make(chan struct{}, 10)}
	a.Yield(p)
	return p
}

func TestFrozenPausesUsersThatYield(t *testing.T) {
	t.Parallel()
	m := small(t).open()
	ensure(t, m, "ctx_a")
	users := []*pausable{yielding(t, m, nil), yielding(t, m, nil)}
	err := m.Frozen(t.Context(), "ctx_a", func(context.Context, *Access) error {
		for i, p := range users {
			if p.paused.Load() != 1 || p.resume.Load() != 0 {
				t.Errorf("user %d runs", i)
			}
		}
		return nil
	})
	must(t, err)
	for i, p := range users {
		if p.resume.Load() != 1 {
			t.Errorf("user %d was not resumed", i)
		}
	}
	a, err := m.Acquire(t.Context(), "ctx_a", Write)
	must(t, err)
	a.Release()
}

func TestFrozenNamesUserThatDoesNotStop(t *testing.T) {
	t.Parallel()
	m := small(t).open(func(c *Config) { c.drainTime = 50 * time.Millisecond })
	ensure(t, m, "ctx_a")
	good := yielding(t, m, nil)
	yielding(t, m, errors.New("command p-1 is stubborn"))
	err := m.Frozen(t.Context(), "ctx_a", func(context.Context, *Access) error {
		t.Error("it was called")
		return nil
	})
	wantCode(t, err, fserr.EBUSY, "ctx_a", "p-1 is stubborn")
	if good.paused.Load() != good.resume.Load() {
		t.Error("the other user stays paused")
	}
}

// TestPausedUsersContinueInTime keeps a context frozen for longer than users are paused.
func TestPausedUsersContinueInTime(t *testing.T) {
	t.Parallel()
	m := small(t).open(func(c *Config) { c.pauseTime = 50 * time.Millisecond })
	ensure(t, m, "ctx_a")
	p := yielding(t, m, nil)
	err := m.Frozen(t.Context(), "ctx_a", func(ctx context.Context, _ *Access) error {
		<-p.resumed
		<-ctx.Done()
		return ctx.Err()
	})
	wantCode(t, err, fserr.EBUSY, "running commands", "50ms")
	if p.resume.Load() != 1 {
		t.Errorf("resumed %d times", p.resume.Load())
	}
	done := false // what was done is not reported as a failure
	must(t, m.Frozen(t.Context(), "ctx_a", func(ctx context.Context, _ *Access) error {
		<-ctx.Done()
		done = true
		return nil
	}))
	if !done {
		t.Error("it was not called")
	}
}

func TestReleasedUserIsNotPaused(t *testing.T) {
	t.Parallel()
	m := small(t).open()
	ensure(t, m, "ctx_a")
	a, err := m.Acquire(t.Context(), "ctx_a", Write)
	must(t, err)
	a.Yield(&pausable{fails: errors.New("it has ended")})
	a.Release()
	must(t, m.Frozen(t.Context(), "ctx_a", func(context.Context, *Access) error { return nil }))
	must(t, m.Close()) // nothing is inside
}

func TestRecordHasWhatCallersTouch(t *testing.T) {
	t.Parallel()
	w := small(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	a, err := m.Acquire(t.Context(), "ctx_a", Write)
	must(t, err)
	defer a.Release()
	must(t, a.Root.Mkdir("/dir", 0o755))
	must(t, a.Root.Symlink("dir", "/link"))
	a.Touch("/before", false)
	r, err := m.Record(t.Context(), "ctx_a")
	must(t, err)
	a.Touch("/one/../two", false)
	a.Touch("tree/", true)
	a.Touch("/link/file", false)
	r.Stop()
	a.Touch("/after", false)
	got := []string{}
	for _, p := range []string{"before", "one", "two", "two/below", "tree", "tree/below/deep", "link/file", "dir/file", "dir/other", "after"} {
		if r.Has(p) {
			got = append(got, p)
		}
	}
	if want := "two tree tree/below/deep link/file dir/file"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
