package faults

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// baseline is what the process holds: the server and its clients, both.
type baseline struct {
	descriptors, goroutines int
	// heap is in bytes.
	heap uint64
}

// heapSlack is what pools may keep, in bytes.
const heapSlack = 24 << 20

func measure(t testing.TB) baseline {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return baseline{len(entries), runtime.NumGoroutine(), mem.HeapAlloc}
}

// returns waits until the process holds no more than before, but for slack of each.
func (b baseline) returns(t testing.TB, slack int) {
	t.Helper()
	var now baseline
	// clock: it bounds a hang; memory has no event to wait for
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		debug.FreeOSMemory()
		now = measure(t)
		if now.descriptors <= b.descriptors+slack && now.goroutines <= b.goroutines+slack && now.heap <= b.heap+heapSlack {
			return
		}
	}
	t.Errorf("it does not return to what was: %+v, now %+v", b, now)
}
