package contexts

import (
	"os"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// TestTheClockIsSet sets the wall clock by a year under a Manager: it still looks at folders, and takes no context for unused.
func TestTheClockIsSet(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for name, by := range map[string]time.Duration{"forward": year, "back": -year} {
		t.Run(name, func(t *testing.T) {
			w := small(t)
			var step, passed time.Duration
			m := w.open(func(c *Config) {
				c.Now = func() time.Time { return clocktest.Stepped(time.Now(), step).Add(passed) }
			})
			folder := ensure(t, m, "ctx_a").Folder
			use := func() error {
				a, err := m.Acquire(t.Context(), "ctx_a", Write)
				if err == nil {
					a.Release()
				}
				return err
			}
			must(t, use())
			step = by
			collected, err := m.CollectGarbage(t.Context(), GarbageOptions{Idle: 24 * time.Hour})
			must(t, err)
			for _, g := range collected {
				if g.Kind == GarbageContext {
					t.Errorf("%s was collected, though it was used a moment ago", g.Name)
				}
			}
			must(t, use())
			must(t, os.RemoveAll(folder))
			passed = 2 * recheck
			wantCode(t, use(), fserr.ESTALE)
			ensure(t, m, "ctx_a")
			must(t, use())
		})
	}
}
