package contexts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// calls are what hosts and panels do, by name.
var calls = map[string]func(ctx context.Context, m *Manager, id, other ID) error{
	"Ensure": func(ctx context.Context, m *Manager, id, _ ID) error {
		_, err := m.Ensure(ctx, id, EnsureOptions{}, nil)
		return err
	},
	"Acquire": func(ctx context.Context, m *Manager, id, _ ID) error {
		a, err := m.Acquire(ctx, id, Use(rand.IntN(2)))
		if err != nil {
			return err
		}
		defer a.Release()
		if rand.IntN(2) == 0 {
			<-ctx.Done() // an operation that lasts as long as its caller waits
		}
		return nil
	},
	"Fork": func(ctx context.Context, m *Manager, id, other ID) error {
		_, err := m.Fork(ctx, id, other, EnsureOptions{})
		return err
	},
	"Snapshot": func(ctx context.Context, m *Manager, id, _ ID) error {
		_, err := m.Snapshot(ctx, id, fmt.Sprint("s", rand.IntN(3)))
		return err
	},
	"Restore": func(ctx context.Context, m *Manager, id, _ ID) error {
		_, err := m.Restore(ctx, id, fmt.Sprint("s", rand.IntN(3)), nil)
		return err
	},
	"Delete": func(ctx context.Context, m *Manager, id, _ ID) error {
		_, err := m.Delete(ctx, id, nil)
		return err
	},
	"CollectGarbage": func(ctx context.Context, m *Manager, _, _ ID) error {
		_, err := m.CollectGarbage(ctx, GarbageOptions{DryRun: rand.IntN(2) == 0})
		return err
	},
}

// mayAnswer are the errors of calls that get into each other's way, or are cancelled.
var mayAnswer = map[fserr.Code]bool{
	fserr.EAGAIN: true, fserr.EBUSY: true, fserr.ECANCELED: true, fserr.ETIMEDOUT: true, fserr.ESTALE: true, fserr.EEXIST: true, fserr.ENOENT: true,
}

// TestEveryWaitEndsWithItsCaller has many callers do everything at once on a few contexts, and give up after a random time.
func TestEveryWaitEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		must(t, m.Close())
		m = w.open(func(c *Config) { c.drainTime = 100 * time.Millisecond })
		ensure(t, m, "ctx_3")
		stuck, err := m.Acquire(t.Context(), "ctx_3", Write) // an operation that does not end
		must(t, err)
		const callers, each = 12, 25
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					callAndGiveUp(t, m)
				}
			})
		}
		wg.Wait()
		stuck.Release()
		for i := range 4 {
			id := ID(fmt.Sprint("ctx_", i))
			ensure(t, m, id)
			inTime(t, "an access", acquired(m, id))
			inTime(t, "a deletion", func(ctx context.Context) error { _, err := m.Delete(ctx, id, nil); return err })
		}
		wantSwept(t, m)
		for _, pattern := range []string{"ctx_?" + lockSuffix, "ctx_?" + markSuffix} {
			if left, err := filepath.Glob(filepath.Join(m.cat.Layout.Locks, pattern)); err != nil || len(left) != 0 {
				t.Errorf("of deleted contexts there are %v, %v", left, err)
			}
		}
	})
}

// callAndGiveUp makes a random call and cancels it; then it must return promptly.
func callAndGiveUp(t *testing.T, m *Manager) {
	names := make([]string, 0, len(calls))
	for name := range calls {
		names = append(names, name)
	}
	name := names[rand.IntN(len(names))]
	id, other := ID(fmt.Sprint("ctx_", rand.IntN(4))), ID(fmt.Sprint("ctx_", rand.IntN(4)))
	if id == other {
		other += "x"
		defer func() { _, _ = m.Delete(context.Background(), other, nil) }() // it may not be there
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(30_000))*time.Microsecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- calls[name](ctx, m, id, other) }()
	<-ctx.Done()
	select {
	case err := <-done:
		if code := fserr.CodeOf(err); err != nil && !mayAnswer[code] {
			t.Errorf("%s of %s: %v", name, id, err)
		}
	case <-time.After(promptly):
		buf := make([]byte, 1<<20)
		t.Errorf("%s of %s goes on after its caller gave up\n%s", name, id, strings.TrimSpace(string(buf[:runtime.Stack(buf, true)])))
		<-done
	}
}
