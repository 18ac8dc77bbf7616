package contexts

import (
	"fmt"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
)

// BenchmarkFork forks a context of 10,000 files after changes to some of them, while a writer waits for it. In "open" a handle is open in the
// context. wait-ms is the longest write of the writer.
func BenchmarkFork(b *testing.B) {
	for _, name := range []string{"copy", "overlay", "overlay-open"} {
		for _, changed := range []int{0, 10, 100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, changed), func(b *testing.B) {
				w := newWorkspaceFor(b)
				if name != "copy" {
					w.driver, w.others = overlay.New(overlay.Options{Parts: w.parts()}), []driver.Driver{w.driver}
					if err := w.driver.Check(b.Context(), w.dir); err != nil {
						b.Skipf("not measured here: %v", err)
					}
				}
				w.fill("app", 10000)
				w.write("app/.git/HEAD", "ref: refs/heads/main\n")
				m := w.open()
				var worst time.Duration
				n := 0
				for b.Loop() {
					b.StopTimer()
					n++
					id := ID(fmt.Sprint("ctx_a", n))
					ensure(b, m, id)
					for i := range changed {
						put(b, m, id, fmt.Sprintf("app/d%d/f%d.txt", i%20, i), "changed")
					}
					if name == "overlay-open" {
						held := open(b, m, id, "app/d0/f0.txt")
						b.Cleanup(func() { must(b, held.Close()) })
					}
					waited := longestWrite(b, m, id)
					b.StartTimer()
					fork(b, m, id, id+"-fork")
					b.StopTimer()
					worst = max(worst, waited())
					b.StartTimer()
				}
				b.ReportMetric(float64(worst.Microseconds())/1e3, "wait-ms")
			})
		}
	}
}

// longestWrite writes to a context until the returned function is called, which returns the time that the longest write took.
func longestWrite(b *testing.B, m *Manager, id ID) (stop func() time.Duration) {
	b.Helper()
	end, worst := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var longest time.Duration
		defer func() { worst <- longest }() // also after a failure
		for {
			select {
			case <-end:
				return
			default:
				begun := time.Now()
				put(b, m, id, "app/written", "x")
				longest = max(longest, time.Since(begun))
			}
		}
	}()
	return func() time.Duration {
		close(end)
		return <-worst
	}
}
