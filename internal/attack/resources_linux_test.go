package attack

import (
	"os"
	"runtime"
	"time"
)

// resources is what a process holds.
type resources struct {
	descriptors, goroutines int
	heap                    uint64
}

// The growth that is none: pools, idle threads' stacks and the like.
const (
	spareDescriptors = 4
	spareGoroutines  = 6
	spareHeap        = 16 << 20
)

// held returns the descriptors and goroutines of the process. It leaves out the heap, which needs a garbage collection.
func (w *world) held() resources {
	w.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	w.must(err)
	return resources{descriptors: len(fds), goroutines: runtime.NumGoroutine()}
}

func (w *world) resources() resources {
	w.Helper()
	runtime.GC()
	now := w.held()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	now.heap = m.HeapAlloc
	return now
}

// within reports whether the process holds no more than base, apart from the spare amounts that do not count as growth.
func (r resources) within(base resources) bool {
	return r.descriptors <= base.descriptors+spareDescriptors && r.goroutines <= base.goroutines+spareGoroutines && r.heap <= base.heap+spareHeap
}

// checkHeld waits until the descriptors and goroutines of one case were given back.
func (w *world) checkHeld(what string, base resources) {
	w.Helper()
	w.awaitBack(what, base, w.held)
}

// checkResources is checkHeld of a whole group of cases, with the heap.
func (w *world) checkResources(base resources) {
	w.Helper()
	w.awaitBack("at the end", base, w.resources)
}

func (w *world) awaitBack(what string, base resources, get func() resources) {
	w.Helper()
	deadline := time.Now().Add(patience)
	for now := get(); !now.within(base); now = get() {
		if time.Now().After(deadline) { // clock: it bounds a hang
			w.leak("%s: %s: before %+v, after %+v", w.cfg, what, base, now)
			return
		}
		<-time.After(5 * time.Millisecond) // clock: the other process has no event to wait for
	}
}
