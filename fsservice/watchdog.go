package fsservice

import (
	"sync"
	"time"
)

const (
	// patience is how often the watchdog looks: an operation that it sees twice has kept its receiver for too long.
	patience = time.Millisecond
	// calm is how many looks find a session doing nothing before it is looked at no more.
	calm = 8
)

// watchdog looks after the receivers of busy sessions. A timer for each operation would
// cost more than most of them; this is one goroutine, which is there only while a session is busy.
type watchdog struct {
	mu      sync.Mutex
	watched map[*session]*lastLook
	runs    bool
	running sync.WaitGroup
}

// lastLook is the state of a session when the watchdog last looked at it.
type lastLook struct {
	doing *task
	idle  int
}

// watch begins to look after a session that has become busy.
func (w *watchdog) watch(se *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched == nil {
		w.watched = map[*session]*lastLook{}
	}
	w.watched[se] = &lastLook{}
	if !w.runs {
		w.runs = true
		w.running.Go(w.run)
	}
}

// forget ends the watch of a session that is over.
func (w *watchdog) forget(se *session) {
	w.mu.Lock()
	delete(w.watched, se)
	w.mu.Unlock()
}

func (w *watchdog) run() {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for range tick.C {
		if !w.look() {
			return
		}
	}
}

// look looks once at each session; false when there is none left.
func (w *watchdog) look() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for se, seen := range w.watched {
		t := se.doing()
		switch {
		case t != nil && t == seen.doing:
			go se.replace(t)
		case t != nil:
			seen.idle = 0
		case seen.idle < calm:
			seen.idle++
		case se.unwatched():
			delete(w.watched, se)
		}
		seen.doing = t
	}
	w.runs = len(w.watched) > 0
	return w.runs
}
