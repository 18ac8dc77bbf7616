package background

import (
	"runtime"
	"sync"
)

// processors is one for all Pools, as GOMAXPROCS is one for the process. added is what Pools have added to own.
var processors struct {
	sync.Mutex
	own, added int
	// automatic says that the runtime derives GOMAXPROCS from the machine: neither the user nor the program has set it.
	automatic bool
}

// ownProcessors is GOMAXPROCS without what Pools have added.
func ownProcessors() int {
	p := &processors
	p.Lock()
	defer p.Unlock()
	if p.added > 0 {
		return p.own
	}
	return runtime.GOMAXPROCS(0)
}

// addProcessors changes GOMAXPROCS by n. When nothing is added any more it is as it was, and the runtime follows the
// machine if it did.
func addProcessors(n int) {
	p := &processors
	p.Lock()
	defer p.Unlock()
	if p.added == 0 {
		p.own = runtime.GOMAXPROCS(0)
		runtime.SetDefaultGOMAXPROCS()
		p.automatic = runtime.GOMAXPROCS(0) == p.own
	}
	p.added += n
	if p.added == 0 && p.automatic {
		runtime.SetDefaultGOMAXPROCS()
		return
	}
	runtime.GOMAXPROCS(p.own + p.added)
}
