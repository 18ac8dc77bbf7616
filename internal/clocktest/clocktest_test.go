package clocktest_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctxfs/ctxfs/internal/clocktest"
)

func TestStepped(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 365 * 24 * time.Hour} {
		then := clocktest.Stepped(now, by)
		// clock: one reading of the clock is compared with itself
		if then.UnixNano()-now.UnixNano() != int64(by) || then.Sub(now) != 0 {
			// clock: as above
			t.Errorf("set by %v, the wall clock goes by %v and the other by %v", by, then.UnixNano()-now.UnixNano(), then.Sub(now))
		}
	}
}

// witness notes how a test ends that Await fails.
type witness struct {
	testing.TB
	said string
}

func (w *witness) Helper() {}

func (w *witness) Fatalf(format string, args ...any) {
	w.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		clocktest.Await(t, "it looked a hundred times", func() bool { looks++; return looks == 100 })
		w, begun := &witness{TB: t}, time.Now()
		var waits sync.WaitGroup
		waits.Go(func() { clocktest.Await(w, "pigs fly", func() bool { return false }) })
		waits.Wait()
		if took := time.Since(begun); took < clocktest.Patience || w.said != "after 5m0s it does not hold that pigs fly" {
			t.Errorf("after %v: %q", took, w.said)
		}
	})
}

func TestIsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for at, want := range map[time.Duration]bool{time.Hour: true, time.Hour + time.Second: true, time.Hour - time.Millisecond: false, time.Hour + 3*time.Second: false} {
			got := clocktest.IsFromNow(time.Hour, func() time.Time {
				at := time.Now().Add(at)
				time.Sleep(2 * time.Second)
				return time.Unix(0, at.UnixNano())
			})
			if got != want {
				t.Errorf("after %v: %v", at, got)
			}
		}
	})
}
