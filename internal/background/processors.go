package background

import (
	"os"
	"runtime"
	"sync"
)

// processors is one for all Pools, as GOMAXPROCS is one for the process. added is what Pools have added to own.
var processors struct {
	sync.Mutex
	own, added int
}

// addProcessors changes GOMAXPROCS by n. When nothing is added any more, the runtime follows the machine again, unless
// GOMAXPROCS is set in the environment.
func addProcessors(n int) {
	p := &processors
	p.Lock()
	defer p.Unlock()
	if p.added == 0 {
		p.own = runtime.GOMAXPROCS(0)
	}
	p.added += n
	if p.added == 0 && os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS()
		return
	}
	runtime.GOMAXPROCS(p.own + p.added)
}
